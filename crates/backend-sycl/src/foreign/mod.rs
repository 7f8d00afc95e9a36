//! Memory and queues of other programs: `device` opens a device in their contexts, `allocation` finds the memory that
//! an address belongs to, and `libsycl` the OpenCL objects behind those of a SYCL library.

mod allocation;
mod device;
mod libsycl;

pub use allocation::Allocation;
