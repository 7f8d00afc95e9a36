//! SYCL itself, through the functions of `shim/haloport_sycl.h`, from the bottom up:
//!
//! - `shim`: the library of these functions, found beside the SYCL library that the process has loaded
//! - `handles`: owners of its objects
//! - `event`: points in queues
//! - `level_zero`: what only Level Zero itself offers
//! - `gates`: its events as gates
//! - `place`: a device in a context
//! - `queue`: queues, and gates in them
//! - `program`: programs, and kernels with their arguments
//! - `spirv`: Haloport's own kernels
//! - `native`: without that library, the OpenCL objects behind those of SYCL

pub(crate) mod event;
mod gates;
pub(crate) mod handles;
mod level_zero;
pub(crate) mod native;
pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod queue;
pub(crate) mod shim;
mod spirv;
