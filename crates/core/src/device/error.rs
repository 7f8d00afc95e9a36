//! What can go wrong on a device, as values.

use super::DeviceId;

/// An error of a device or of its backend.
///
/// Every message names what was looked for or asked, what was found, and what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The backend does not offer this operation.
    #[error("{device} does not offer {what}")]
    Unsupported {
        /// The operation.
        what: &'static str,
        /// The device that was asked.
        device: DeviceId,
    },
    /// A library, a platform or a device is missing.
    #[error("{what} was not found: looked for {looked_for}; {advice}")]
    NotFound {
        /// What is missing.
        what: String,
        /// The names and places that were tried.
        looked_for: String,
        /// What to do about it.
        advice: String,
    },
    /// Memory could not be allocated.
    #[error("{device} could not allocate {bytes} bytes of {kind} memory")]
    OutOfMemory {
        /// The size asked for.
        bytes: usize,
        /// The kind of memory asked for.
        kind: super::MemoryKind,
        /// The device that was asked.
        device: DeviceId,
    },
    /// An argument does not fit the call.
    #[error("{what}: expected {expected}, found {found}")]
    InvalidArgument {
        /// The argument.
        what: &'static str,
        /// What would have been right.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A kernel did not compile.
    #[error("the kernel `{kernel}` did not compile on {device}: {log}")]
    Compile {
        /// The name of the kernel.
        kernel: String,
        /// The device it was compiled for.
        device: DeviceId,
        /// What the compiler said.
        log: String,
    },
    /// A call of the backend's driver failed.
    #[error("{call} failed on {device}: {message}")]
    Driver {
        /// The call that failed.
        call: &'static str,
        /// The device.
        device: DeviceId,
        /// The driver's code and message.
        message: String,
    },
}

impl DeviceError {
    /// An [`DeviceError::InvalidArgument`] from anything that can be shown.
    pub fn invalid(
        what: &'static str,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> DeviceError {
        DeviceError::InvalidArgument { what, expected: expected.to_string(), found: found.to_string() }
    }
}
