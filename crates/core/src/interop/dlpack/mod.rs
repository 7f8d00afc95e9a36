//! DLPack, versions before 1.0 and 1.x: tensors that programs of any language hand to one another in place.
//!
//! A tensor comes in as a [`ManagedTensor`], a pointer whose [`description`](ManagedTensor::describe) is checked plain
//! data, and becomes an [`OwnedTensor`] when it is [taken](ManagedTensor::take). An array goes out by
//! [`OwnedTensor::export`]. The layouts are those of `dlpack.h`, <https://dmlc.github.io/dlpack>.

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
