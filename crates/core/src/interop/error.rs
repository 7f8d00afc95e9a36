//! What can be wrong with an array or a stream of another program.

use std::fmt;

/// A field of a protocol that is malformed or cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` of {protocol}: expected {expected}, found {found}; {advice}")]
#[non_exhaustive]
pub struct InteropError {
    /// The protocol by which it came.
    pub protocol: Protocol,
    /// The field, as the protocol names it.
    pub field: &'static str,
    /// What would have been right.
    pub expected: String,
    /// What was given.
    pub found: String,
    /// What to do about it.
    pub advice: &'static str,
    /// What a Python package should raise.
    pub exception: PythonException,
}

/// A protocol by which arrays or streams come from other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// DLPack, versions before 1.0 and 1.x.
    DlPack,
    /// `__cuda_array_interface__`.
    CudaArray,
    /// `__sycl_usm_array_interface__`.
    SyclUsmArray,
    /// An object that stands for a CUDA stream.
    StreamObject,
    /// None: an [`ArrayDescription`](super::ArrayDescription) made in Rust.
    Description,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::DlPack => "DLPack",
            Protocol::CudaArray => "`__cuda_array_interface__`",
            Protocol::SyclUsmArray => "`__sycl_usm_array_interface__`",
            Protocol::StreamObject => "a stream object",
            Protocol::Description => "an array description",
        })
    }
}

/// What a Python package should raise; shown as Python's name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PythonException {
    /// The object has no such protocol, or something is of the wrong type.
    TypeError,
    /// The array is well described and cannot be shared: its device, its element type, read-only.
    BufferError,
    /// A field is malformed.
    ValueError,
}

impl fmt::Display for PythonException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The protocol and the field that an error is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) protocol: Protocol,
    pub(super) field: &'static str,
}

impl Protocol {
    pub(super) fn fault(self, field: &'static str) -> Fault {
        Fault { protocol: self, field }
    }
}

impl Fault {
    /// A malformed field.
    pub(super) fn value(
        self,
        expected: impl ToString,
        found: impl ToString,
        advice: &'static str,
    ) -> InteropError {
        self.raise(PythonException::ValueError, expected, found, advice)
    }

    /// An array that cannot be shared.
    pub(super) fn buffer(
        self,
        expected: impl ToString,
        found: impl ToString,
        advice: &'static str,
    ) -> InteropError {
        self.raise(PythonException::BufferError, expected, found, advice)
    }

    /// Something of a wrong type.
    pub(super) fn wrong_type(
        self,
        expected: impl ToString,
        found: impl ToString,
        advice: &'static str,
    ) -> InteropError {
        self.raise(PythonException::TypeError, expected, found, advice)
    }

    fn raise(
        self,
        exception: PythonException,
        expected: impl ToString,
        found: impl ToString,
        advice: &'static str,
    ) -> InteropError {
        let (expected, found) = (expected.to_string(), found.to_string());
        InteropError { protocol: self.protocol, field: self.field, expected, found, advice, exception }
    }
}
