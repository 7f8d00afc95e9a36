//! Arrays of any package: what they are like, and where they lie.
//!
//! - `describe`: the protocols, in the order in which they are tried; `described`: what is known of an array then;
//! - `numpy`, `dlpack`, `cuda`, `sycl` (and `sycl_owner`, queues and contexts): one protocol each;
//! - `torch`: what DLPack does not say of tensors of PyTorch;
//! - `package`: the packages that objects are of; `located`: the devices that arrays are in;
//! - `element`: element types, as NumPy names them; `meaning`: what elements are beyond that, such as dates and records;
//! - `expected`: the check that an array has the layout that a plan was made for.

pub(crate) mod cuda;
pub(crate) mod describe;
pub(crate) mod described;
pub(crate) mod dlpack;
pub(crate) mod element;
pub(crate) mod expected;
mod located;
pub(crate) mod meaning;
pub(crate) mod numpy;
mod package;
pub(crate) mod sycl;
pub(crate) mod sycl_owner;
pub(crate) mod torch;
