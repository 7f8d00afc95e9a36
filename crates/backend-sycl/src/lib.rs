//! The SYCL backend of Haloport: GPUs, CPUs and accelerators, through OpenCL, or through SYCL itself.
//!
//! [`SyclDevice`] implements [`Device`](haloport_core::device::Device). It shares memory and queues with SYCL programs:
//! a `sycl::queue` or `sycl::context` of SYCL's OpenCL backend is an OpenCL object behind a native handle, and OpenCL
//! kernels of the same context can follow an address from `sycl::malloc_device`. Those of other backends, such as Level
//! Zero, are used by calls of SYCL.
//! [`SyclDevice::from_queue`], and [`SyclDevice::from_sycl_queue`] for SYCL programs, open a device in the context of
//! another program; its memory and queues cannot be used in any other context. [`SyclDevice::allocation`] asks the
//! driver which memory an address belongs to.
//!
//! # What it needs
//!
//! To build, nothing but Rust. To run, an OpenCL loader (`libOpenCL.so.1`) and a driver, but nothing of SYCL. The
//! loader is opened at run time: if it, a platform or a device is missing, an error says what was looked for.
//!
//! Queues of Level Zero, and devices such as `level_zero:gpu:0`, need libsycl, and Haloport's library for its version:
//! `scripts/sycl-shim` builds it, and the variable `HALOPORT_SYCL_SHIM` names its folder. That way has been tested
//! without a GPU: with SYCL's OpenCL backend, and with both Level Zero adapters of DPC++ 2026.2 on a driver that computes on
//! the host. Portable kernels of a program need DPC++'s compiler of OpenCL C (`libocloc.so`).
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
//! # Two drivers
//!
//! `driver` is what the rest of the crate asks for: one type for each object, which is one of `opencl` or one of
//! `libsycl`. `kernel`, `buffer`, `stream` and `event` are the same for both.
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
mod driver;
mod event;
mod export;
mod foreign;
mod kernel;
mod kind;
mod libsycl;
mod opencl;
mod opened;
mod stream;

pub use buffer::SyclBuffer;
pub use device::SyclDevice;
pub use event::SyclEvent;
pub use foreign::Allocation;
pub use kernel::{SyclCopies, SyclKernel, SyclLaunch};
pub use opencl::{Selector, blocking_calls};
pub use stream::SyclStream;
