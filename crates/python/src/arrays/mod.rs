//! Arrays of any package: what they are like, and where they lie.
//!
//! - `described`: the protocols in the order in which they are tried;
//! - `numpy`, `dlpack`, `cuda`, `sycl`: one protocol each;
//! - `element`: element types, as NumPy names them;
//! - `expected`: the check that an array has the layout that a plan was made for.

pub(crate) mod cuda;
pub(crate) mod described;
pub(crate) mod dlpack;
pub(crate) mod element;
pub(crate) mod expected;
pub(crate) mod numpy;
pub(crate) mod sycl;

pub(crate) use described::{Described, Place, describe};
pub(crate) use expected::Expected;
