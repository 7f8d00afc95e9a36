//! The errors of devices.

use super::DeviceId;

/// An error of a device or of its backend.
///
/// Each message names the thing looked for, the thing found, and what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device does not offer this operation: it does not have the [role](super::Device#roles), or refuses this case.
    #[error("{device} does not offer {what}")]
    Unsupported {
        /// The operation.
        what: &'static str,
        /// The device.
        device: DeviceId,
    },
    /// A library, a platform or a device is missing.
    #[error("{what} was not found: looked for {looked_for}; {advice}")]
    NotFound {
        /// The missing thing.
        what: String,
        /// The names and places that were tried.
        looked_for: String,
        /// What to do.
        advice: String,
    },
    /// Memory could not be allocated.
    #[error("{device} could not allocate {bytes} bytes of {kind} memory")]
    OutOfMemory {
        /// The size, in bytes.
        bytes: usize,
        /// The kind of memory.
        kind: super::MemoryKind,
        /// The device.
        device: DeviceId,
    },
    /// An argument does not fit the call.
    #[error("{what}: expected {expected}, found {found}")]
    InvalidArgument {
        /// The argument.
        what: &'static str,
        /// The values that are valid.
        expected: String,
        /// The value that was passed.
        found: String,
    },
    /// A kernel did not compile.
    #[error("the kernel `{kernel}` did not compile on {device}: {log}")]
    Compile {
        /// The name of the kernel.
        kernel: String,
        /// The device.
        device: DeviceId,
        /// The messages of the compiler.
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
    /// A [`DeviceError::InvalidArgument`], with the texts of `expected` and `found`.
    pub fn invalid(
        what: &'static str,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> DeviceError {
        DeviceError::InvalidArgument { what, expected: expected.to_string(), found: found.to_string() }
    }
}
