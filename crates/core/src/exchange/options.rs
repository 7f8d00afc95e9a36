//! What can be said about an exchange when it is bound.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Choice, DataPath, ExchangeError, HaloOrder};
use crate::callback;

/// What [`BindOptions::staging_chunk`] is if not said: 1 MiB. It takes some 40 µs through a network of 200 Gb/s or across a
/// bus of 25 GB/s, about ten times what a chunk costs at its ends (a launch, an event, a message); what is smaller gains
/// little by going in parts.
pub const DEFAULT_STAGING_CHUNK: usize = 1 << 20;

/// Called when an exchange is complete, or has failed.
pub type Completion = callback::Completion<ExchangeError>;

/// Options of [`Pattern::bind_with`](crate::Pattern::bind_with).
#[derive(Default)]
pub struct BindOptions {
    pub(super) on_complete: Option<Completion>,
    pub(super) path: DataPath,
    pub(super) order: HaloOrder,
    /// [`DEFAULT_STAGING_CHUNK`] if not said.
    pub(super) staging_chunk: Option<usize>,
    pub(super) trial: Option<Trial>,
    pub(super) kept: Vec<Choice>,
}

impl fmt::Debug for BindOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BindOptions")
            .field("on_complete", &self.on_complete.is_some())
            .field("path", &self.path)
            .field("order", &self.order)
            .field("staging_chunk", &self.staging_chunk)
            .field("trial", &self.trial)
            .field("kept", &self.kept)
            .finish()
    }
}

impl BindOptions {
    /// Calls `call` each time an exchange is complete, so that `finish` would not wait, or has failed on its way. It
    /// runs inside the call that makes the last progress, whichever that is, and may start other exchanges; it must not
    /// wait for other ranks, nor touch the exchange that it belongs to. What `start` and `finish` themselves run into
    /// they return; it is not reported twice. If the call panics, the exchange is poisoned: `finish`, or whatever is called
    /// next, gives [`CallbackPanicked`](super::ExchangeError::CallbackPanicked). The exchanges of a
    /// [`trial`](BindOptions::trial) are not reported.
    #[must_use]
    pub fn on_complete(mut self, call: impl FnMut(Result<(), &ExchangeError>) + Send + 'static) -> Self {
        self.on_complete = Some(Box::new(call));
        self
    }

    /// How data gets to ranks that share memory ([`DataPath::Quickest`] if not said). The same on every rank.
    /// [`Exchange::traffic`](super::Exchange::traffic) says what came of it.
    #[must_use]
    pub fn path(mut self, path: DataPath) -> Self {
        self.path = path;
        self
    }

    /// In which order halos are filled ([`HaloOrder::Quickest`] if not said). The same on every rank.
    #[must_use]
    pub fn order(mut self, order: HaloOrder) -> Self {
        self.order = order;
        self
    }

    /// How many bytes a message may have that is staged; a larger one goes in chunks of at most so many
    /// ([`DEFAULT_STAGING_CHUNK`] if not said; `usize::MAX`: always whole). The same on every rank.
    ///
    /// A device that goes on working after a call has returned, and whose memory the transport cannot read, packs messages
    /// into pinned memory of the host. In chunks, the next one is packed, and the one before is unpacked by the neighbour,
    /// while one is on the wire; each is a launch and a message of its own at either end. Small messages, other devices and
    /// other ways are as they are without. A cell is never cut, however small the chunk.
    #[must_use]
    pub fn staging_chunk(mut self, bytes: usize) -> Self {
        self.staging_chunk = Some(bytes);
        self
    }

    /// Finds the quickest way among those that [`path`](BindOptions::path) and [`order`](BindOptions::order) leave open by
    /// a [`Trial`] in `bind`. The same on every rank. [`Exchange::choice`](super::Exchange::choice) says what came of it.
    ///
    /// Without, there is no trial, and a model chooses. A trial takes its time at every bind, it may choose another way in
    /// another run where two are nearly as quick, and it measures exchanges that nothing is computed beside: a program that
    /// does compute while halos travel may want to say [`HaloOrder::AllNeighbours`] too.
    #[must_use]
    pub fn trial(mut self, trial: Trial) -> Self {
        self.trial = Some(trial);
        self
    }

    /// Choices that were kept from earlier runs, of this exchange and of any others. The one that belongs to this exchange,
    /// by its [fingerprint](Choice::fingerprint), is taken, and no trial is run. Others are ignored: where none belongs
    /// to it, all is as if none had been given, and [`Choice::origin`] says so.
    ///
    /// Those of rank 0 count; other ranks need not give any.
    #[must_use]
    pub fn kept(mut self, choices: impl IntoIterator<Item = Choice>) -> Self {
        self.kept.extend(choices);
        self
    }
}

/// Limits of a trial that finds the quickest way to do an exchange: [`BindOptions::trial`].
///
/// `bind` then binds the ways that are possible, runs them in turns on the fields themselves, and keeps the one with the
/// smallest median time, unless that of the model is hardly longer. All ranks take the same. Owned cells are read
/// only, and halos hold afterwards what they held before. Ways that take far longer than others drop out.
///
/// There is no trial where the fields are on a device other than the host's, of which copies are not done when a call
/// returns: the model chooses. Where a way fails on a rank, `bind` fails on all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// After this time no further exchange is begun, and no further way bound: it may take as much longer as one of either
    /// takes. The model's way is always bound. 200 ms if not said: exchanges of up to 1 ms need a tenth of that.
    pub time: Duration,
    /// The most rounds, in each of which every way has its turn; 15 if not said.
    pub rounds: usize,
}

impl Default for Trial {
    fn default() -> Trial {
        Trial { time: Duration::from_millis(200), rounds: 15 }
    }
}
