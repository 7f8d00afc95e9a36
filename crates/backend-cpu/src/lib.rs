//! The CPU backend of Haloport: the threads of the host as a device.
//!
//! **What it needs.** Nothing but Rust: it works on every machine, and starts its threads with rayon.
//!
//! **How it works.** All work is done when a call returns; streams and events are no-ops with the handle 0. Kernels,
//! which are Rust functions, and large copies are spread over the threads of a pool. Smaller ones stay on the calling
//! thread, because waking the pool costs more than it saves: see [`COPY_INLINE_BYTES`] and [`KERNEL_INLINE_INDICES`],
//! which `cargo bench -p haloport-cpu` measures. A bound list of copies is cut, paired and ordered once; each run then
//! only copies.

#![warn(missing_docs)]

mod buffer;
mod copies;
mod default_threads;
mod device;
mod kernels;

pub use buffer::CpuBuffer;
pub use copies::list::{COPY_INLINE_BYTES, CpuCopies};
pub use default_threads::threads_asked_for;
pub use device::{CpuDevice, CpuEvent, CpuStream};
pub use kernels::{CpuKernel, CpuLaunch, KERNEL_INLINE_INDICES};
