//! The CUDA backend: NVIDIA GPUs.
//!
//! - It is built without CUDA, and no library of CUDA is linked. The driver (`libcuda.so.1`, CUDA 12.0 or newer) and the
//!   run-time compiler (`libnvrtc.so.13` or `libnvrtc.so.12`) are loaded when they are first needed. Where one is missing,
//!   or there is no device, there is an error that says what was looked for and what to install.
//! - A device is opened in its *primary context*, which CUDA's runtime uses, too: streams (`cudaStream_t`), events and
//!   memory of CuPy, PyTorch and others can be used with it and the other way round. The current context of a thread is
//!   after each call what it was before.
//! - Streams of ours wait for no other, the legacy default stream included. [`default_stream`] is that legacy default
//!   stream.
//! - Memory is from `cuMemAlloc` (device), `cuMemHostAlloc` (pinned) and `cuMemAllocManaged` (shared, where the host may use
//!   it while the device computes), and from the device's default pool in stream order ([`allocate_on`]).
//!   Device memory that was not allocated in a stream can be exported to other processes of the node (CUDA's IPC), and memory
//!   of other devices in this process is reached where the driver offers that (peer access).
//! - Kernels are compiled for the device's own compute capability and kept in the kernel cache of the process. For a device
//!   that is newer than the compiler, PTX is made, which the driver compiles.
//! - Launches and copies that are put into streams again and again can be captured once as a [`CudaGraph`], which is then
//!   put into a stream with one call.
//! - The crate stands on the declarations of `cudarc`, and calls the driver's functions through a table of its own:
//!   cudarc's panic where a library lacks a function, and take the codes of later drivers for codes that there are.
//!
//! [`default_stream`]: haloport_core::device::Device::default_stream
//! [`allocate_on`]: haloport_core::device::Device::allocate_on

#![warn(missing_docs)]

mod compiler;
mod context;
mod copies;
mod cubin;
mod device;
mod driver;
mod event;
mod flag;
mod gate;
mod graph;
mod handles;
mod kernels;
mod library;
mod memory;
mod open;
mod peers;
mod program;
mod select;
mod stream;
mod word;

pub use copies::CudaCopies;
pub use device::CudaDevice;
pub use event::CudaEvent;
pub use graph::CudaGraph;
pub use kernels::{CudaKernel, CudaLaunch};
pub use memory::CudaBuffer;
pub use select::Selector;
pub use stream::CudaStream;
