//! Work that is captured once and put into streams again and again, and the flags by which it and the host synchronise.

use std::fmt::Debug;

use super::{DeviceError, Stream};

/// Work that [`Device::capture`](super::Device::capture) has captured, with its arguments and its order.
pub trait Captured<S: Stream>: Debug + Send + 'static {
    /// Puts the work into a stream with one call: it begins after all earlier work there, and ends before all later
    /// work. It runs with the arguments with which it was captured, and never concurrently with itself. Does not block,
    /// and allocates nothing.
    ///
    /// # Safety
    /// The promises for the captured calls hold again, from this call until the work has finished in stream order. This
    /// object and the captured kernels, launches, lists of copies and flags live until then.
    ///
    /// # Errors
    /// Errors of the driver.
    unsafe fn replay(&self, stream: &S) -> Result<(), DeviceError>;
}

/// A word that the host and the streams of a device share: set or not set. A new flag is not set.
///
/// A reader that finds the flag set sees all work that came before the setting, on the host or in the order of the
/// stream. The flag must live until all work that uses it, in streams or captured, has run for the last time.
pub trait Flag<S: Stream>: Debug + Send + Sync + 'static {
    /// Whether the flag is set, as the host sees it.
    fn is_set(&self) -> bool;

    /// Sets the flag from the host.
    fn set(&self);

    /// Clears the flag from the host. Meanwhile no work in a stream waits for the flag or sets it.
    fn clear(&self);

    /// Sets the flag in the order of `stream`.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if `stream` captures and the driver cannot capture this; errors of the driver.
    fn set_in(&self, stream: &S) -> Result<(), DeviceError>;

    /// Makes later work in `stream` wait until the flag is set. The device does not know this order. So only the host
    /// sets the flag, or earlier work in the same stream, or in a stream whose event this stream has waited for. While
    /// the flag is not set, the host makes no call that waits for the device or allocates, and
    /// [frees nothing](super::Device::defer_frees).
    ///
    /// # Errors
    /// As for [`set_in`](Flag::set_in).
    fn wait_in(&self, stream: &S) -> Result<(), DeviceError>;
}
