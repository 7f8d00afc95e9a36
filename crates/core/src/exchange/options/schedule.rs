//! The order of an exchange relative to other work.

use std::fmt;

use crate::device::{AnyStream, Device, current_stream};

/// The order of the start or the finish of an exchange relative to other work.
///
/// | schedule | start | finish |
/// | --- | --- | --- |
/// | `Blocking` | packs and sends at once: the caller has already synchronised | returns when the halos are in place |
/// | `DefaultStream` | packing waits for all work already on the default stream | work put on the default stream afterwards waits for the unpacking |
/// | `Current` | the same with the thread's [current stream](crate::device::make_current) | the same with the stream that is current then |
/// | `On(&stream)` | the same with that stream | the same with that stream, which may differ from that of the start |
///
/// On the CPU all four do the same: `start` sends at once, and `finish` returns with the halos in place. On devices
/// with [immediate streams](Device::create_immediate_stream), `Blocking` does so too: the caller's thread does the work
/// of the exchange, unless a list of copies is so large that several threads of the device are faster. In an exchange
/// over several devices, parts on other devices than the stream's use their device's default stream.
///
/// The exchanges in a stream run in order: all ranks must put the exchanges of one stream into it in the same order.
#[derive(Clone, Copy, Default)]
pub enum Schedule<'s> {
    /// No stream: the host has synchronised before, and waits for the end.
    Blocking,
    /// In order with each device's default stream.
    #[default]
    DefaultStream,
    /// In order with each device's [current stream](crate::device::make_current) in this thread: the default stream
    /// unless another was made current.
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
    /// Returns the stream with which a part on `device` is ordered; `None` for `Blocking`.
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
