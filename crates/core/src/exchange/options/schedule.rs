//! How an exchange is ordered with the work around it.

use std::fmt;

use crate::device::{AnyStream, Device, current_stream};

/// How the start or the finish of an exchange is ordered.
///
/// | schedule | start | finish |
/// | --- | --- | --- |
/// | `Blocking` | packs and sends at once: the caller has already synchronised | returns when the halos are in place |
/// | `DefaultStream` | packing waits for all work already on the default stream | work put on the default stream afterwards waits for the unpacking |
/// | `Current` | the same with the thread's [current stream](crate::device::make_current) | the same with the stream that is current then |
/// | `On(&stream)` | the same with that stream | the same with that stream, which may be another than at start |
///
/// On the CPU all four are one: `start` sends at once, and `finish` returns with the halos in place. With `Blocking` it is so
/// also on devices with [immediate streams](Device::create_immediate_stream), unless lists of copies are so large that several
/// threads of the device have more to do with them: the caller's thread does the work of the exchange. In an exchange
/// over several devices a part whose device is not the stream's keeps to its default stream.
///
/// Streams are in order, and so are the exchanges in them: ranks put those of one stream into it in the same order.
#[derive(Clone, Copy, Default)]
pub enum Schedule<'s> {
    /// The host has synchronised, and waits.
    Blocking,
    /// In order with each device's default stream.
    #[default]
    DefaultStream,
    /// In order with the stream of each device that is [current](crate::device::make_current) in this thread; unless one
    /// was made so, that is the default stream.
    Current,
    /// In order with this stream.
    On(&'s dyn AnyStream),
}

impl fmt::Debug for Schedule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Blocking => f.write_str("Blocking"),
            Schedule::DefaultStream => f.write_str("DefaultStream"),
            Schedule::Current => f.write_str("Current"),
            Schedule::On(stream) => write!(f, "On(a stream of {})", stream.device_id()),
        }
    }
}

impl Schedule<'_> {
    /// The stream that a part on `device` is ordered with; `None` for `Blocking`.
    pub(crate) fn stream<D: Device>(&self, device: &D) -> Option<D::Stream> {
        match self {
            Schedule::Blocking => None,
            Schedule::DefaultStream => Some(device.default_stream()),
            Schedule::Current => Some(current_stream(device)),
            Schedule::On(stream) if stream.device_id() == device.id() => {
                let known = stream.as_any().downcast_ref::<D::Stream>();
                Some(known.cloned().unwrap_or_else(|| device.default_stream()))
            }
            Schedule::On(_) => Some(device.default_stream()),
        }
    }
}
