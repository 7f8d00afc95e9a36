//! The errors of fields.

use crate::device::{DeviceError, DeviceId};
use crate::interop::InteropError;

/// An error in making or accessing a field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// An exchange of this field was started, and neither finished nor dropped.
    #[error(
        "the field is in flight: an exchange of it was started and its pending exchange was forgotten; \
         call `complete` on the exchange first; or it failed, and the transport still uses the field"
    )]
    InFlight,
    /// A pending exchange was asked for a view of a field that is not one of its own.
    #[error("the field is not one of those that the pending exchange was bound to")]
    NotInExchange,
    /// The host cannot address the field's memory.
    #[error("the field lies in memory of {device} that the host cannot address; copy it with `to_vec`")]
    NotHostAccessible {
        /// The device.
        device: DeviceId,
    },
    /// The device does not work on memory that the host lends.
    #[error(
        "memory of the host cannot be lent to {device}, which has its own memory or is asynchronous; use a `Field`, or \
         `Field::from_raw` with memory of the device"
    )]
    NotLendable {
        /// The device.
        device: DeviceId,
    },
    /// This rank has no such domain.
    #[error("there is no domain {domain} on this rank: it has {count}, numbered from 0")]
    NoSuchDomain {
        /// The number of the domain.
        domain: usize,
        /// The number of domains of the rank.
        count: usize,
    },
    /// A view does not have all cells of the rows.
    #[error(
        "the view has the cells {region}, which are not all of {cells}; while an exchange is pending, a view has none \
         of the cells that it fills"
    )]
    OutsideOfView {
        /// The cells of the rows, and by how far they are moved.
        cells: String,
        /// The cells of the view.
        region: String,
    },
    /// An invalid layout.
    #[error("{what}: expected {expected}, found {found}")]
    Layout {
        /// The part of the layout.
        what: &'static str,
        /// The values that are valid.
        expected: String,
        /// The value that was passed.
        found: String,
    },
    /// An array of another program, into which halos cannot be written.
    #[error(transparent)]
    Array(#[from] InteropError),
    /// An error of the device, such as [`DeviceError::OutOfMemory`].
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl FieldError {
    pub(crate) fn layout(what: &'static str, expected: impl ToString, found: impl ToString) -> FieldError {
        FieldError::Layout { what, expected: expected.to_string(), found: found.to_string() }
    }
}
