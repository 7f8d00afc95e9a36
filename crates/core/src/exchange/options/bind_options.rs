//! What can be said about an exchange when it is bound.

use std::fmt;

use super::error::ExchangeError;
use super::order::HaloOrder;
use super::path::DataPath;
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
    pub(crate) on_complete: Option<Completion>,
    pub(crate) path: DataPath,
    pub(crate) order: HaloOrder,
    /// [`DEFAULT_STAGING_CHUNK`] if not said.
    pub(crate) staging_chunk: Option<usize>,
}

impl fmt::Debug for BindOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BindOptions")
            .field("on_complete", &self.on_complete.is_some())
            .field("path", &self.path)
            .field("order", &self.order)
            .field("staging_chunk", &self.staging_chunk)
            .finish()
    }
}

impl BindOptions {
    /// Calls `call` each time an exchange is complete, so that `finish` would not wait, or has failed on its way. It
    /// runs inside the call that makes the last progress, whichever that is, and may start other exchanges; it must not
    /// wait for other ranks, nor touch the exchange that it belongs to. What `start` and `finish` themselves run into
    /// they return; it is not reported twice. If the call panics, the exchange is poisoned: `finish`, or whatever is called
    /// next, gives [`CallbackPanicked`](crate::exchange::ExchangeError::CallbackPanicked).
    #[must_use]
    pub fn on_complete(mut self, call: impl FnMut(Result<(), &ExchangeError>) + Send + 'static) -> Self {
        self.on_complete = Some(Box::new(call));
        self
    }

    /// How data gets to ranks that share memory ([`DataPath::Quickest`] if not said). The same on every rank.
    /// [`Exchange::traffic`](crate::exchange::Exchange::traffic) says what came of it.
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
}
