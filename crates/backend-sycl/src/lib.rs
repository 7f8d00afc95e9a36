//! The SYCL backend: OpenCL with unified shared memory.
//!
//! It is called so because it drives the runtimes that SYCL programs run on, and shares with them what they work on:
//! a `sycl::queue`, `sycl::context` or `sycl::event` of SYCL's OpenCL backend is an OpenCL object behind a native handle,
//! and memory from `sycl::malloc_device` is an address that OpenCL kernels of the same context can follow. Nothing of SYCL
//! itself is needed, neither to build nor to run.
//!
//! - The library (`libOpenCL.so.1`) is loaded at run time. Without it, and without a platform or a device, there is an
//!   error that says what was looked for.
//! - Memory is *unified shared memory* (Intel's extension `cl_intel_unified_shared_memory`) where the device has it, else
//!   the shared virtual memory of OpenCL 2: device memory is coarse-grained, pinned and shared memory fine-grained.
//! - Streams are in-order queues. A queue that somebody else made may be out of order: each of our commands then stands
//!   between two barriers.
//! - A device is opened in a context of ours, or in that of another program ([`SyclDevice::from_queue`], and
//!   [`SyclDevice::from_sycl_queue`] for SYCL programs), whose memory and queues are of no use in any other. What memory an
//!   address belongs to is asked of the driver ([`SyclDevice::allocation`]).
//! - Everything is asynchronous, on CPUs too.
//! - The crate stands on `cl3`, the functions beneath `opencl3`, whose owners of contexts, queues and events would panic
//!   where a release fails; those of this crate do not.

#![warn(missing_docs)]

mod allocation;
mod copies;
mod device;
mod driver;
mod event;
mod handles;
mod kernels;
mod libsycl;
mod memory;
mod open;
mod program;
mod queue;
mod select;
mod shared;
mod unified;

pub use allocation::Allocation;
pub use copies::SyclCopies;
pub use device::SyclDevice;
pub use event::SyclEvent;
pub use kernels::{SyclKernel, SyclLaunch};
pub use memory::SyclBuffer;
pub use queue::SyclStream;
pub use select::Selector;
