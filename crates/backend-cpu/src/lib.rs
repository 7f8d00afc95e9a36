//! The CPU backend: work is done when the call returns, streams and events are no-ops with the handle 0, and
//! kernels and large copies run on rayon.
//!
//! What it costs to wake the pool is measured by `cargo bench -p haloport-cpu`; the thresholds below which work
//! stays on the calling thread are in [`COPY_INLINE_BYTES`] and [`KERNEL_INLINE_INDICES`].

#![warn(missing_docs)]

mod buffer;
mod copies;
mod device;
mod fetch;
mod kernels;
mod negate;
mod rows;
mod stores;
mod sweeps;
mod trial;

pub use buffer::CpuBuffer;
pub use copies::{COPY_INLINE_BYTES, CpuCopies};
pub use device::{CpuDevice, CpuEvent, CpuStream};
pub use kernels::{CpuKernel, CpuLaunch, KERNEL_INLINE_INDICES};
