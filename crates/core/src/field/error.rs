//! What can go wrong with a field, as values.

use crate::device::{DeviceError, DeviceId};
use crate::interop::InteropError;

/// An error in making or accessing a field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// An exchange of this field was started and neither finished nor dropped.
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
        "memory of the host cannot be lent to {device}, which has memory of its own, or goes on working after a call has \
         returned; use a `Field`, or `Field::from_raw` with memory of the device"
    )]
    NotLendable {
        /// The device.
        device: DeviceId,
    },
    /// There is no such domain on this rank.
    #[error("there is no domain {domain} on this rank: it has {count}, numbered from 0")]
    NoSuchDomain {
        /// The domain asked for.
        domain: usize,
        /// The number of domains of the rank.
        count: usize,
    },
    /// Rows of cells were asked of a view that does not hold all of them.
    #[error(
        "the view holds the cells {region}, which are not all of {cells}; while an exchange is pending, \
         a view holds no cell that it fills"
    )]
    OutsideOfView {
        /// The cells whose rows were asked for, and by how far they are moved.
        cells: String,
        /// The cells that the view holds.
        region: String,
    },
    /// A layout that cannot be served.
    #[error("{what}: expected {expected}, found {found}")]
    Layout {
        /// The part of the layout.
        what: &'static str,
        /// What would have been right.
        expected: String,
        /// What was given.
        found: String,
    },
    /// An array of another program that halos cannot be written into.
    #[error(transparent)]
    Array(#[from] InteropError),
    /// The device's error.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl FieldError {
    pub(crate) fn layout(what: &'static str, expected: impl ToString, found: impl ToString) -> FieldError {
        FieldError::Layout { what, expected: expected.to_string(), found: found.to_string() }
    }
}
