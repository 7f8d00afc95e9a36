//! The errors in arrays and streams of other programs.

use std::fmt;

/// A malformed or unsupported member of a protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` of {protocol}: expected {expected}, found {found}; {advice}")]
#[non_exhaustive]
pub struct InteropError {
    /// The protocol.
    pub protocol: Protocol,
    /// The member, as the protocol names it.
    pub field: &'static str,
    /// The values that are valid.
    pub expected: String,
    /// The value that was found.
    pub found: String,
    /// What to do.
    pub advice: &'static str,
    /// The exception that a Python package should raise.
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
    /// An object that represents a CUDA stream.
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

/// The exception that a Python package should raise; displayed as Python names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PythonException {
    /// The object does not have the protocol, or a member has the wrong type.
    TypeError,
    /// The description is valid, but the array cannot be shared: because of its device, its element type, or as
    /// read-only.
    BufferError,
    /// A member is malformed.
    ValueError,
}

impl fmt::Display for PythonException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The protocol and the member with an error.
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
    /// The error for a malformed member.
    pub(super) fn value(
        self,
        expected: impl ToString,
        found: impl ToString,
        advice: &'static str,
    ) -> InteropError {
        self.raise(PythonException::ValueError, expected, found, advice)
    }

    /// The error for an array that cannot be shared.
    pub(super) fn buffer(
        self,
        expected: impl ToString,
        found: impl ToString,
        advice: &'static str,
    ) -> InteropError {
        self.raise(PythonException::BufferError, expected, found, advice)
    }

    /// The error for a member of a wrong type.
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
