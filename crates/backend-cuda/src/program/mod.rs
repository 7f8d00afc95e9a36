//! From source text to kernels that the driver can launch.
//!
//! - `compiler`: CUDA C++ to machine code or PTX (NVRTC); `cubin`: checks machine code before the driver reads it.
//! - `loaded`: programs that the driver has loaded, and their kernels; `portable`: programs of the portable dialect,
//!   compiled once and cached; `fill_kernel`: the one of the backend that is loaded in advance.

pub(crate) mod compiler;
pub(crate) mod cubin;
pub(crate) mod fill_kernel;
pub(crate) mod loaded;
pub(crate) mod portable;
