//! What can be said about an exchange when it is bound.

use std::fmt;

use super::{Choice, Completion, DataPath, ExchangeError, HaloOrder, Trial};

/// Options of [`Pattern::bind_with`](crate::Pattern::bind_with).
#[derive(Default)]
pub struct BindOptions {
    pub(super) on_complete: Option<Completion>,
    pub(super) path: DataPath,
    pub(super) order: HaloOrder,
    pub(super) trial: Option<Trial>,
    pub(super) kept: Vec<Choice>,
}

impl fmt::Debug for BindOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BindOptions")
            .field("on_complete", &self.on_complete.is_some())
            .field("path", &self.path)
            .field("order", &self.order)
            .field("trial", &self.trial)
            .field("kept", &self.kept)
            .finish()
    }
}

impl BindOptions {
    /// Calls `call` each time an exchange is complete, so that `finish` would not wait, or has failed on its way. It
    /// runs inside the call that makes the last progress, whichever that is, and may start other exchanges; it must not
    /// wait for other ranks, nor touch the exchange that it belongs to. What `start` and `finish` themselves run into
    /// they return; it is not reported twice. The exchanges of a [`trial`](BindOptions::trial) are not reported.
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
