//! From source text to kernels that the driver can launch.
//!
//! - `compiler`: CUDA C++ to machine code or PTX (NVRTC); `cubin`: checks machine code before the driver reads it.
//! - `loaded`: programs that the driver has loaded, and their kernels; `portable`: programs of the portable dialect,
//!   compiled once and cached; `built_in`: those of the backend that are loaded in advance.

pub(crate) mod built_in;
pub(crate) mod compiler;
pub(crate) mod cubin;
pub(crate) mod loaded;
pub(crate) mod portable;
