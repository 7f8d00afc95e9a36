//! Calls of a capability that the device does not have.

use std::fmt::Display;

use haloport_core::device::DeviceError;

use crate::{Failure, ensure};

/// Fails unless the device has answered `Unsupported`.
pub(super) fn refused<T>(what: impl Display, answer: Result<T, DeviceError>) -> Result<(), Failure> {
    let refused = matches!(answer, Err(DeviceError::Unsupported { .. }));
    ensure!(refused, "the device has no capability for {what}, but does not answer `Unsupported`");
    Ok(())
}
