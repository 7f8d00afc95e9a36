//! Work that is captured once and put into streams again and again, and the flags by which it and the host
//! tell each other how far they are.

use std::fmt::Debug;

use super::{DeviceError, Stream};

/// Work that [`Device::capture`](super::Device::capture) has captured, with its arguments and its order.
pub trait Captured<S: Stream>: Debug + Send + 'static {
    /// Puts the work into a stream with one call: it begins after all that is there, and ends before all that
    /// follows. It runs with the arguments that it was captured with, and not beside itself. Does not block,
    /// and allocates nothing.
    ///
    /// # Safety
    /// What was promised for the captured calls holds anew, from this call until the work has finished in
    /// stream order. The kernels, launches, lists of copies and flags that were captured, and this, live
    /// until then.
    ///
    /// # Errors
    /// What the driver says.
    unsafe fn replay(&self, stream: &S) -> Result<(), DeviceError>;
}

/// A word that the host and the streams of a device share: set or not. A new one is not.
///
/// What was done before it was set, by the host or in the order of the stream that has set it, is seen by who
/// finds it set. It lives until what uses it in streams, or was captured, has run for the last time.
pub trait Flag<S: Stream>: Debug + Send + Sync + 'static {
    /// Whether it is set, as the host sees it.
    fn is_set(&self) -> bool;

    /// Sets it from the host.
    fn set(&self);

    /// Takes it back from the host. Nothing that is in a stream waits for it or sets it meanwhile.
    fn clear(&self);

    /// Puts into `stream` what sets it.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where that cannot be captured and `stream` captures; what the driver
    /// says.
    fn set_in(&self, stream: &S) -> Result<(), DeviceError>;

    /// Makes later work in `stream` wait until it is set. The device does not know by whom: if not by the
    /// host, then by what is before this in the same stream, or in one that it has waited for by an event.
    /// While it is not set, the host makes no call that waits for the device, allocates or frees.
    ///
    /// # Errors
    /// As for [`set_in`](Flag::set_in).
    fn wait_in(&self, stream: &S) -> Result<(), DeviceError>;
}
