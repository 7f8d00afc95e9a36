//! What a caller chooses and gets.
//!
//! - Here: the order of an exchange relative to other work ([`Schedule`]), and the amount of data that it moves ([`Traffic`]);
//! - `bind_options`: the options for binding; `path`: paths, orders, ways, and reports of those that were settled;
//! - `error`: errors of binding and of exchanging.

/// Implements `Display` and `FromStr` for an enum without data, given the name of each value. The error of `from_str`
/// lists all names.
macro_rules! named {
    ($kind:ty { $($value:ident => $name:literal),+ $(,)? }) => {
        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $(Self::$value => $name,)+ })
            }
        }

        impl std::str::FromStr for $kind {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok(Self::$value),)+
                    _ => Err(format!("expected one of {}; found `{text}`", [$($name),+].join(", "))),
                }
            }
        }
    };
}

mod bind_options;
mod error;
mod path;

pub use bind_options::{BindOptions, Completion, DEFAULT_STAGING_CHUNK, DEFAULT_STAGING_COPY};
pub use error::{BindError, ExchangeError, StepError};
pub use path::{Choice, CopiedBy, DataPath, Description, HaloOrder, Obstacle, Route};

pub(crate) use path::{Settled, Way};

use std::{fmt, slice};

use serde::Serialize;

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

/// The amount of data that one exchange moves on this rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// The number of messages sent to other ranks.
    pub messages: usize,
    /// Bytes sent in messages.
    pub message_bytes: usize,
    /// The part of `message_bytes` that is staged in chunks through memory of the host, each chunk a message
    /// ([`BindOptions::staging_chunk`](crate::exchange::BindOptions::staging_chunk)).
    pub chunked_bytes: usize,
    /// The part of `message_bytes` that streams send, without the host
    /// ([`DataPath::StreamMessages`]).
    pub stream_message_bytes: usize,
    /// The part of `message_bytes` that is sent from the field itself, without packing.
    pub sent_in_place_bytes: usize,
    /// Bytes of messages that are received into the halo itself, without unpacking.
    pub received_in_place_bytes: usize,
    /// Bytes packed into memory shared with neighbours, which unpack from it.
    pub shared_bytes: usize,
    /// Bytes of this rank's halos that are copied straight from neighbours' fields, by either end.
    pub direct_bytes: usize,
    /// Bytes that the rank's domains copy from each other or from themselves.
    pub local_bytes: usize,
    /// How often neighbours wait for each other: 1, or the number of axes if halos are filled
    /// [axis by axis](crate::exchange::HaloOrder::AxisByAxis).
    pub steps: usize,
}

impl Traffic {
    /// Describes in words how data gets to other ranks.
    pub fn path(&self) -> String {
        let whole = self.message_bytes.saturating_sub(self.chunked_bytes + self.stream_message_bytes);
        let ways = [
            (self.direct_bytes, "direct copies from neighbours' fields"),
            (self.shared_bytes, "memory shared with neighbours"),
            (whole, "messages"),
            (self.chunked_bytes, "messages in chunks"),
            (self.stream_message_bytes, "messages in streams"),
        ];
        let taken: Vec<&str> = ways.into_iter().filter(|(bytes, _)| *bytes > 0).map(|(_, way)| way).collect();
        if taken.is_empty() { "copies within the rank".into() } else { taken.join(" and ") }
    }

    /// Adds the traffic of a part that runs after this one.
    pub(crate) fn then(self, next: Traffic) -> Traffic {
        Traffic { steps: self.steps + next.steps, ..self.beside(next) }
    }

    /// Adds the traffic of a part that runs at the same time.
    pub(crate) fn beside(self, other: Traffic) -> Traffic {
        Traffic {
            messages: self.messages + other.messages,
            message_bytes: self.message_bytes + other.message_bytes,
            chunked_bytes: self.chunked_bytes + other.chunked_bytes,
            stream_message_bytes: self.stream_message_bytes + other.stream_message_bytes,
            sent_in_place_bytes: self.sent_in_place_bytes + other.sent_in_place_bytes,
            received_in_place_bytes: self.received_in_place_bytes + other.received_in_place_bytes,
            shared_bytes: self.shared_bytes + other.shared_bytes,
            direct_bytes: self.direct_bytes + other.direct_bytes,
            local_bytes: self.local_bytes + other.local_bytes,
            steps: self.steps.max(other.steps),
        }
    }
}
