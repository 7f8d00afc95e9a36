//! What the jobs of the `haloport` command compute, as a library.
//!
//! The command itself, its arguments and what it prints, is the binary of this package.

#![warn(missing_docs)]

pub mod advection;
pub mod drawing;
pub mod mesh_name;
pub mod npz;
pub mod numbers;
pub mod rolling;
pub mod time_line;
pub mod traffic;
pub mod tsunami;

mod kernel_arguments;
