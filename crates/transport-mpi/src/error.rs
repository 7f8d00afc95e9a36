//! Errors of the MPI layer.

use haloport_core::TransportError;

/// Makes an error of `call`, a function of MPI or the part of this crate that cannot go on.
pub(crate) fn failed(call: &'static str, message: impl Into<String>) -> TransportError {
    TransportError::Layer { call, message: message.into() }
}
