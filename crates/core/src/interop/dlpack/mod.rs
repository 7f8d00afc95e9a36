//! DLPack, versions before 1.0 and 1.x: tensors that programs of any language pass to each other in place.
//!
//! A tensor arrives as a [`ManagedTensor`], an address. Its [`description`](ManagedTensor::describe) is checked plain
//! data, and [taking](ManagedTensor::take) it gives an [`OwnedTensor`]. [`OwnedTensor::export`] passes an array to
//! another program. The structs are those of `dlpack.h`, <https://dmlc.github.io/dlpack>.

mod codes;
mod managed_tensor;
mod owned_tensor;
mod structs;

pub use managed_tensor::ManagedTensor;
pub use owned_tensor::{Form, OwnedTensor};
pub use structs::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, FLAG_COPIED,
    FLAG_READ_ONLY, MAJOR_VERSION,
};
