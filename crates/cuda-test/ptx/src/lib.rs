//! Kernels in PTX, run on the host: for tests of the CUDA backend without a GPU.
//!
//! - `module`: reading a module of PTX, and its kernels;
//! - `statement`: a line of PTX in parts;
//! - `builder`: the registers, constants and steps of a kernel while it is read;
//! - `decode`: what a statement does, as steps; `steps`: what each step does with the registers of a thread;
//! - `value`: the types of PTX, and registers as values of Rust;
//! - `memory`: the memory that a kernel reaches, and accesses that are refused;
//! - `launch`: running a kernel, one thread after the other.
//!
//! A device may run threads in this order if the kernel has no barriers, shared memory, atomic operations or calls. A
//! kernel with them is refused when it is read. Every access goes through [`Memory`], which finds the memory of an address
//! or refuses it.

#![warn(missing_docs)]

mod builder;
mod decode;
mod launch;
mod memory;
mod module;
mod statement;
mod steps;
mod value;

pub use launch::{FaultAt, Grid};
pub use memory::{Fault, Memory};
pub use module::{Kernel, Parameter, RefusedPtx, kernels};
