//! The order of an exchange relative to other work.

use std::{fmt, slice};

use crate::device::{AnyStream, Device, Stream};

/// The order of the start or the finish of an exchange relative to other work. Calls that take one also take a stream.
///
/// | schedule | start | finish |
/// | --- | --- | --- |
/// | `DefaultStream` | packing waits for all work already on the default stream of the device | work put on the default stream afterwards waits for the unpacking |
/// | `On(&stream)` | the same with that stream | the same with that stream, which may differ from that of the start |
/// | `OnEach(&[&stream, …])` | the same with the stream of each device | the same |
/// | `Blocking` | packs and sends at once: the caller has already synchronised | returns when the halos are in place |
///
/// On the CPU all do the same: `start` sends at once, and `finish` returns with the halos in place. On devices
/// with [immediate streams](crate::device::ImmediateStreams), `Blocking` does so too: the caller's thread does the work
/// of the exchange, unless a list of copies is so large that several threads of the device are faster.
///
/// If an exchange has fields on several asynchronous devices, streams are named for each of them or for none.
///
/// The exchanges in a stream run in order: all ranks must put the exchanges of one stream into it in the same order.
#[derive(Clone, Copy, Default)]
pub enum Schedule<'s> {
    /// In order with each device's default stream.
    #[default]
    DefaultStream,
    /// In order with this stream.
    On(&'s dyn AnyStream),
    /// In order with these streams, one of each device.
    OnEach(&'s [&'s dyn AnyStream]),
    /// No stream: the host has synchronised before, and waits for the end.
    Blocking,
}

impl<'s, S: Stream> From<&'s S> for Schedule<'s> {
    fn from(stream: &'s S) -> Schedule<'s> {
        Schedule::On(stream)
    }
}

impl<'s> From<&'s dyn AnyStream> for Schedule<'s> {
    fn from(stream: &'s dyn AnyStream) -> Schedule<'s> {
        Schedule::On(stream)
    }
}

impl fmt::Debug for Schedule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::DefaultStream => f.write_str("DefaultStream"),
            Schedule::On(_) => write!(f, "On(a stream of {})", self.devices()),
            Schedule::OnEach(_) => write!(f, "OnEach(streams of {})", self.devices()),
            Schedule::Blocking => f.write_str("Blocking"),
        }
    }
}

impl Schedule<'_> {
    /// The stream with which a part on `device`, which it [orders](Schedule::orders), is ordered; `None` for `Blocking`.
    pub(crate) fn stream<D: Device>(&self, device: &D) -> Option<D::Stream> {
        match self {
            Schedule::Blocking => None,
            Schedule::DefaultStream => Some(device.default_stream()),
            Schedule::On(_) | Schedule::OnEach(_) => {
                Some(self.named(device).unwrap_or_else(|| device.default_stream()))
            }
        }
    }

    /// Whether a part on `device` can be ordered: if streams are named, one of an asynchronous device must be among them.
    pub(crate) fn orders<D: Device>(&self, device: &D) -> bool {
        self.streams().is_empty() || !device.info().asynchronous || self.named(device).is_some()
    }

    /// The streams that are named.
    pub(crate) fn streams(&self) -> &[&dyn AnyStream] {
        match self {
            Schedule::On(stream) => slice::from_ref(stream),
            Schedule::OnEach(streams) => streams,
            Schedule::DefaultStream | Schedule::Blocking => &[],
        }
    }

    /// The devices of the streams that are named, in words.
    pub(crate) fn devices(&self) -> String {
        let devices: Vec<String> =
            self.streams().iter().map(|stream| stream.device_id().to_string()).collect();
        devices.join(", ")
    }

    fn named<D: Device>(&self, device: &D) -> Option<D::Stream> {
        let mut of_device = self.streams().iter().filter(|stream| stream.device_id() == device.id());
        of_device.find_map(|stream| D::Stream::of_any(stream.as_any()))
    }
}
