//! Arrays and streams of other programs, as checked plain data.
//!
//! An array arrives by one of three protocols: [`dlpack`], [`cuda_array`] and [`sycl_usm`]. All give the same
//! [`ArrayDescription`], with every check that needs no access to the memory of the array, and all take it to hand an
//! array to another program. [`stream`] reads the streams that come with arrays, and [`typestr`] the names of element
//! types. An invalid member of a protocol is an [`InteropError`], which names the exception that Python should raise.
//!
//! Nothing here knows Python, follows an address of array memory or calls a device. The backend checks that the memory
//! belongs to its device. A [`Field`](crate::Field) in such arrays is made by [`in_arrays`](crate::Field::in_arrays).

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
