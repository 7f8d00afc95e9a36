//! What can be recorded of an exchange, and what was.

use std::sync::Arc;

use crate::device::{Captured, Device, DeviceError, Flag};
use crate::exchange::options::{ExchangeError, Schedule};

/// The work of the caller in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// While halos travel.
    Interior,
    /// When they are in place.
    Boundary,
}

/// Puts the work of the caller into the stream that is captured.
pub(crate) type Work<'w> = &'w mut dyn FnMut(Half) -> Result<(), DeviceError>;

/// What can be recorded of a part.
pub(crate) trait Recordable {
    /// Captures an exchange in the order of `schedule`, with `work`, which is asked for each half twice.
    /// Where that cannot be done, gives the reason.
    fn record(&mut self, schedule: &Schedule<'_>, work: Work<'_>) -> Result<Option<String>, ExchangeError>;

    /// Begins an exchange, and puts all of it into the stream of `schedule`, behind a gate that `poll` opens.
    fn replay(&mut self, schedule: &Schedule<'_>) -> Result<(), ExchangeError>;

    /// Forgets what was recorded. Blocks until it has run for the last time.
    fn forget(&mut self);
}

/// A step of a part, twice.
pub(crate) struct Recorded<D: Device> {
    /// For the even replays and for the odd ones.
    pub(crate) steps: [RecordedStep<D>; 2],
    /// The handle of the stream that the last replay was put into.
    pub(crate) stream: usize,
}

pub(crate) struct RecordedStep<D: Device> {
    /// Dropped before the flags that it uses.
    pub(crate) work: Box<dyn Captured<D::Stream>>,
    pub(crate) packed: Arc<dyn Flag<D::Stream>>,
    pub(crate) arrived: Arc<dyn Flag<D::Stream>>,
}
