//! DLPack, versions before 1.0 and 1.x: tensors that programs of any language pass to each other in place.
//!
//! A tensor arrives as a [`ManagedTensor`], an address. Its [`description`](ManagedTensor::describe) is checked plain data, and
//! [taking](ManagedTensor::take) it gives an [`OwnedTensor`]. [`OwnedTensor::export`] passes an array to another program. The
//! structs are those of `dlpack.h`, <https://dmlc.github.io/dlpack>.

mod codes;
mod layout;
mod owned;
mod read;

pub use layout::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, FLAG_COPIED,
    FLAG_READ_ONLY, MAJOR_VERSION,
};
pub use owned::{Form, OwnedTensor};
pub use read::ManagedTensor;
