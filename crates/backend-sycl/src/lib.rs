//! The SYCL backend of Haloport: GPUs, CPUs and accelerators, through the OpenCL drivers that SYCL programs run on.
//!
//! [`SyclDevice`] implements [`Device`](haloport_core::device::Device). It shares memory and queues with SYCL programs:
//! a `sycl::queue`, `sycl::context` or `sycl::event` of SYCL's OpenCL backend is an OpenCL object behind a native
//! handle, and OpenCL kernels of the same context can follow an address from `sycl::malloc_device`.
//! [`SyclDevice::from_queue`], and [`SyclDevice::from_sycl_queue`] for SYCL programs, open a device in the context of
//! another program; its memory and queues cannot be used in any other context. [`SyclDevice::allocation`] asks the
//! driver which memory an address belongs to.
//!
//! Queues and arrays of the Level Zero backend, which DPC++ chooses on every GPU of Intel by default, are refused for now.
//! `ONEAPI_DEVICE_SELECTOR=opencl:gpu` has a SYCL program use OpenCL.
//!
//! # What it needs
//!
//! To build, nothing but Rust. To run, an OpenCL loader (`libOpenCL.so.1`) and a driver, but nothing of SYCL. The
//! loader is opened at run time: if it, a platform or a device is missing, an error says what was looked for.
//!
//! # How it works
//!
//! - Memory is *unified shared memory* (Intel's extension `cl_intel_unified_shared_memory`) if the device has it,
//!   otherwise the shared virtual memory of OpenCL 2: device memory is coarse-grained, pinned and shared memory
//!   fine-grained.
//! - Streams are in-order queues. If a queue of another program is out of order, each command that Haloport puts into
//!   it stands between two barriers.
//! - All work is asynchronous, on CPUs too.
//!
//! # `opencl3` and `cl3`
//!
//! `opencl3` finds platforms and devices, answers queries about them, and names errors. Its `Platform` and `Device` are
//! plain identifiers without `Drop`, and each query returns an error value. The rest is called through `cl3`, on which
//! `opencl3` is built:
//!
//! - Contexts, programs, queues, events and kernels: if the driver refuses to release one, `opencl3` panics in `Drop`.
//!   The owners of this crate ignore that error.
//! - Contexts and queues of other programs: `From<Context> for cl_context`, like `From<Program>`, returns a handle that
//!   is released already, and safe constructors take any address. Here, taking a reference is `unsafe` and returns an
//!   error.
//! - Builds: `Program::build` also asks for the names of all kernels, and panics on options that contain a zero byte.
//! - Commands: `opencl3` makes an event for each command, which costs as much as the command.
//! - Unified shared memory: `opencl3` lacks the extension, and has shared virtual memory only as vectors with a length
//!   of their own.
//! - The loader: `opencl3` does not export the function that opens it, whose error says why that failed.

#![warn(missing_docs)]

mod buffer;
mod device;
mod event;
mod foreign;
mod kernel;
mod opencl;
mod stream;

pub use buffer::SyclBuffer;
pub use device::SyclDevice;
pub use event::SyclEvent;
pub use foreign::Allocation;
pub use kernel::{SyclCopies, SyclKernel, SyclLaunch};
pub use opencl::{Selector, blocking_calls};
pub use stream::SyclStream;
