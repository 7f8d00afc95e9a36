//! Arrays and streams of other programs, as checked plain data.
//!
//! An array comes in by one of three protocols, each in a module of its own: [`dlpack`], [`cuda_array`] and
//! [`sycl_usm`]. Each gives one and the same [`ArrayDescription`], of which everything has been checked that can be checked
//! without following its address; the same description goes out again by each of them. [`stream`] reads the streams that
//! come along. A field that cannot be right is an [`InteropError`] of its own, which says what Python should raise.
//!
//! Nothing here knows Python, follows an address of array memory or asks a device. Whether the memory is what the
//! description says, and belongs to a device, is for the backend to ask.

pub mod cuda_array;
pub mod dlpack;
pub mod stream;
pub mod sycl_usm;
pub mod typestr;

mod array;
mod check;
mod error;

pub use array::{ArrayDescription, ArrayDevice, ArrayDeviceKind};
pub use check::MAX_ARRAY_AXES;
pub use error::{InteropError, Protocol, PythonException};
