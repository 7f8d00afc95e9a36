//! Errors of binding and of exchanging.

use std::fmt;
use std::time::Duration;

use crate::Error;
use crate::device::DeviceError;
use crate::error::write_with_causes;
use crate::transport::TransportError;

/// Why fields could not be bound to a pattern. If a rank gets an error, all do; it is the same but for
/// [`Device`](BindError::Device).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The ranks disagree, the fields do not fit the pattern, or another rank could not bind them. The text names the rank.
    #[error("{0}")]
    Refused(String),
    /// The device of this rank failed, for example for lack of memory. The other ranks get the text.
    #[error("rank {rank}: {error}")]
    Device {
        /// This rank.
        rank: usize,
        /// The error of its device.
        #[source]
        error: DeviceError,
    },
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// Why an exchange failed.
///
/// [`FieldsReplaced`](ExchangeError::FieldsReplaced), [`FieldCount`](ExchangeError::FieldCount),
/// [`FieldDiffers`](ExchangeError::FieldDiffers), [`AddressCount`](ExchangeError::AddressCount),
/// [`Address`](ExchangeError::Address), [`AllInFlight`](ExchangeError::AllInFlight),
/// [`NotInFlight`](ExchangeError::NotInFlight), [`InFlightElsewhere`](ExchangeError::InFlightElsewhere) and, at the
/// start, [`ForeignStream`](ExchangeError::ForeignStream) and [`NoStream`](ExchangeError::NoStream), and a
/// [`Transport`](ExchangeError::Transport) error [`WrongThread`](TransportError::WrongThread), except of
/// [`Pending::finish`](crate::Pending::finish), leave the exchange as it was. Any other error poisons it: its halos are
/// unspecified, owned cells too if halos were [accumulated](crate::BindOptions::accumulate), and every later use gives
/// [`ExchangeError::Poisoned`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// An earlier exchange failed or was abandoned.
    #[error("the exchange is poisoned: {0}; bind the pattern again")]
    Poisoned(String),
    /// A neighbour's messages did not arrive within the time limit.
    #[error("the exchange did not complete within the time limit of {limit:?}: missing {missing}")]
    TimeLimit {
        /// The messages that are missing, in words, with their ranks.
        missing: String,
        /// The neighbours whose messages, or whose part in a direct copy, are missing, ascending.
        ranks: Vec<usize>,
        /// The limit.
        limit: Duration,
    },
    /// The completion callback of the exchange panicked, on any thread.
    #[error("the completion callback of the exchange panicked: {0}")]
    CallbackPanicked(String),
    /// The pending exchange was dropped while its thread was panicking.
    #[error("the exchange was abandoned: its thread panicked while it was pending")]
    Panicking,
    /// The fields of the exchange were replaced through `fields_mut`.
    #[error(
        "the fields of the exchange are not those that were bound; put them back, or bind the pattern again"
    )]
    FieldsReplaced,
    /// A plan was started with a wrong number of fields.
    #[error("the plan was made for {expected} fields, found {found}; pass the same number in the same order")]
    FieldCount {
        /// The number of fields that the plan was made for.
        expected: usize,
        /// The number of fields that were passed.
        found: usize,
    },
    /// A plan was started with a field that differs from the one it was made for.
    #[error(
        "field {number} has the {what} {found}, but the plan was made for {expected}; pass a field like that, or \
        make another plan"
    )]
    FieldDiffers {
        /// The number of the field, from 0.
        number: usize,
        /// The property in which it differs.
        what: &'static str,
        /// The property of the field that the plan was made for.
        expected: String,
        /// The property of the field that was passed.
        found: String,
    },
    /// A plan was started with a wrong number of addresses.
    #[error(
        "the plan was made for {expected} blocks, found {found} addresses; pass one for each domain of each field"
    )]
    AddressCount {
        /// The number of blocks of all fields.
        expected: usize,
        /// The number of addresses that were passed.
        found: usize,
    },
    /// A plan was started with an address at which a block cannot lie.
    #[error(
        "field {number}, domain {domain}: expected an address that is a multiple of {alignment} and not 0, found \
        {found:#x}; pass that of the first element of its layout"
    )]
    Address {
        /// The number of the field, from 0.
        number: usize,
        /// The domain, from 0.
        domain: usize,
        /// The alignment of the elements in bytes.
        alignment: usize,
        /// The address that was passed.
        found: usize,
    },
    /// An exchange was to start while the one that takes the same place is not finished: the one `most` starts before.
    #[error(
        "the exchange that was started {most} before this one is not finished; finish it first, or make a plan with a \
        larger `BindOptions::in_flight`"
    )]
    AllInFlight {
        /// The most exchanges in flight.
        most: usize,
    },
    /// An exchange was to be finished that is finished already, or that is one of another `Exchange`.
    #[error(
        "the exchange of this ticket is not in flight here: it is finished, or was started elsewhere; finish each exchange \
        once, where it was started"
    )]
    NotInFlight,
    /// A pending exchange of borrowed memory was forgotten.
    #[error("a pending exchange of borrowed memory was forgotten (`mem::forget`); finish or drop it instead")]
    Forgotten,
    /// A field, or another handle to its memory, is in flight in another exchange, or was passed twice. The other
    /// exchange was started without a borrow and is not finished, or its `Pending` was forgotten.
    #[error("a field is in flight in another exchange; finish or `complete` that exchange first")]
    InFlightElsewhere,
    /// The schedule names a stream of a device on which the exchange has no field.
    #[error(
        "the schedule names a stream of {stream}, but the exchange has fields on {devices}; pass a stream of one of \
        these devices"
    )]
    ForeignStream {
        /// The stream's device.
        stream: crate::device::DeviceId,
        /// The devices of the exchange.
        devices: String,
    },
    /// The schedule names streams, but none of an asynchronous device on which the exchange has fields;
    /// [`Schedule::OnEach`](super::Schedule::OnEach) names one of each.
    #[error(
        "the schedule names a stream of {streams}, but none of {device}, on which the exchange has fields, too; name a \
        stream of each device, or none"
    )]
    NoStream {
        /// The device.
        device: crate::device::DeviceId,
        /// The devices of the streams.
        streams: String,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// Why a step (an exchange together with the caller's work) failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The exchange failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The caller's work failed; the exchange was finished.
    #[error("{0}")]
    Work(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StepError {
    pub(crate) fn work(error: Error) -> StepError {
        StepError::Work(error.into_inner())
    }
}

/// The text and its causes: Rust prints this if `main` returns the error.
impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_causes(self, f)
    }
}
