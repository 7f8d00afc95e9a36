//! Capturing an exchange together with the caller's work, to replay both with one launch.

use std::sync::Arc;

use super::mark::Word;
use crate::device::{Captured, Device, DeviceError, Flag};
use crate::exchange::options::{ExchangeError, Schedule};

/// The two kinds of the caller's work in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// While halos travel.
    Interior,
    /// With the halos in place.
    Boundary,
}

/// Puts the caller's work of one kind into the stream that is captured.
pub(crate) type PutWork<'w> = &'w mut dyn FnMut(WorkKind) -> Result<(), DeviceError>;

/// A part whose exchanges can be captured.
pub(crate) trait Capturable {
    /// Captures an exchange in the order of `schedule`, with `work`, which is called twice for each kind. If that is
    /// not possible, returns the reason.
    fn capture(
        &mut self,
        schedule: &Schedule<'_>,
        work: PutWork<'_>,
    ) -> Result<Option<String>, ExchangeError>;

    /// Begins a captured exchange: puts all of it into the stream of `schedule`, with a gate before the unpacking,
    /// which `poll` opens.
    fn replay(&mut self, schedule: &Schedule<'_>) -> Result<(), ExchangeError>;

    /// Whether another exchange has copies to put into a stream which could come behind what a replay waits for, in a
    /// queue that streams share.
    fn is_held_back(&self) -> bool;

    /// Drops the captured work. Blocks until its last replay is done.
    fn forget_captured(&mut self);
}

/// The captured step of a part, twice.
pub(crate) struct CapturedSteps<D: Device> {
    /// For the even replays and for the odd ones.
    pub(crate) steps: [CapturedStep<D>; 2],
    /// The handle of the stream that the last replay was put into.
    pub(crate) stream: usize,
}

/// One captured step.
pub(crate) struct CapturedStep<D: Device> {
    /// Dropped before the flags that it uses.
    pub(crate) work: Box<dyn Captured<D::Stream>>,
    /// `None` if nothing in it is left to the host.
    pub(crate) hosted: Option<Hosted<D>>,
    /// It sets this word to 1 at its end, on a device with words for streams.
    pub(crate) ended: Option<Word<D>>,
}

/// The flags by which the host sends and receives the messages of a captured step.
pub(crate) struct Hosted<D: Device> {
    /// The step sets it: the host sends.
    pub(crate) packed: Arc<dyn Flag<D::Stream>>,
    /// The host sets it when all messages have arrived.
    pub(crate) arrived: Arc<dyn Flag<D::Stream>>,
}
