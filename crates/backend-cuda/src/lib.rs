//! The CUDA backend of Haloport: NVIDIA GPUs as devices.
//!
//! **What it needs.** Building needs no CUDA, and no library of CUDA is linked. The driver (`libcuda.so.1`, CUDA 12.0
//! or newer) and the run-time compiler (`libnvrtc.so.13` or `libnvrtc.so.12`) are loaded at first use. If one of them
//! or a device is missing, the error says what was looked for and what to install.
//!
//! **How it works.**
//!
//! - A device is opened in its *primary context*, which CUDA's runtime also uses. Streams (`cudaStream_t`), events and
//!   memory of CuPy, PyTorch and others therefore work with it, and the other way round. Each call leaves the current
//!   context of its thread as it was.
//! - Streams that the backend creates wait for no other stream, not even for the legacy default stream, which
//!   [`default_stream`] returns.
//! - The default stream of a thread (handle 2) is that of the thread that makes a call: a program that borrows it uses it
//!   in one thread alone.
//! - Memory is allocated by `cuMemAlloc` (device), `cuMemHostAlloc` (pinned) and `cuMemAllocManaged` (shared, if the
//!   host may use it while the device computes). Memory of other devices in this process is reached if the driver offers
//!   it (peer access).
//! - Memory for other processes of the node ([`allocate_exportable`]) is from `cuMemCreate`, exported by a fabric
//!   handle or a file descriptor, the first of them that the driver offers; without these, from `cuMemAlloc`, exported
//!   by CUDA's IPC, as is all other device memory. The variable `HALOPORT_CUDA_SHARE` (`fabric`, `fd`, `ipc`) excludes
//!   the ways before it.
//! - Arrays of other programs are fields as they are ([`CudaDevice::field_in_arrays`]): for an address, the driver
//!   reports the device ([`CudaDevice::of_array`]), the context and the extent of the memory.
//! - Kernels are compiled for the device's own compute capability and stored in the kernel cache of the process. If the
//!   device is newer than the compiler, the compiler makes PTX, which the driver compiles.
//! - Messages between ranks can be moved in the order of streams by NCCL 2.27.3 or newer
//!   ([`offer_stream_messages`]), which is loaded at first use (`libnccl.so.2`, or the files that `HALOPORT_NCCL`
//!   names).
//! - The types of the driver's functions come from `cudarc`. The backend calls the functions through a table of its
//!   own, because cudarc's panic if a library lacks a function, and read a status code of a later driver as an invalid
//!   enum.
//!
//! [`default_stream`]: haloport_core::device::Device::default_stream
//! [`offer_stream_messages`]: haloport_core::device::StreamMessaging::offer_stream_messages
//! [`allocate_exportable`]: haloport_core::device::MemoryExport::allocate_exportable

#![warn(missing_docs)]

mod device;
mod driver;
mod memory;
mod nccl;
mod opened;
mod program;
mod streams;
mod work;

pub use device::CudaDevice;
pub use driver::select::Selector;
pub use memory::buffer::CudaBuffer;
pub use memory::foreign::{CudaHandles, CudaMemory};
pub use streams::event::CudaEvent;
pub use streams::stream::CudaStream;
pub use work::copies::CudaCopies;
pub use work::kernels::{CudaKernel, CudaLaunch};
