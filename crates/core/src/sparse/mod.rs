//! Sparse exchanges: messages of any length between ranks that change from round to round.
//!
//! Each rank names its receivers, which need not know. Here, three ranks send their numbers to all ranks below:
//!
//! ```
//! use haloport::{SparseExchange, run_ranks};
//!
//! let received = run_ranks(3, |comm| {
//!     let mut exchange = SparseExchange::new(&comm)?;
//!     let round = exchange.begin()?;
//!     for below in 0..comm.rank() {
//!         round.send(below, vec![comm.rank() as u8])?;
//!     }
//!     Ok(round.wait()?)
//! })?;
//! assert_eq!(received, [vec![(1, vec![1]), (2, vec![2])], vec![(2, vec![2])], vec![]]);
//! # Ok::<(), haloport::comm::RanksError>(())
//! ```
//!
//! Messages are bytes in host memory; the caller copies those of a device, by [`Device::read`](crate::device::Device::read)
//! and [`Device::write`](crate::device::Device::write), in the order of a stream. Memory and messages
//! of a rank grow with its own messages and neighbours, and with the logarithm of the number of ranks.
//!
//! Read in this order:
//! - this file: [`SparseExchange`], made once;
//! - `round`: one round, as its callers see it;
//! - `shared` and `state`: the progress of a round, by the same engine as exchanges of halos;
//! - `outbox`: the order of messages;
//! - `consensus` and `notices`: the end of a round, with unknown and with fixed neighbours.

mod complaint;
mod consensus;
mod error;
mod notices;
mod outbox;
mod round;
mod shared;
mod state;

use std::fmt;
use std::sync::Arc;

pub use error::SparseError;
pub use round::{Inserter, Round, Slot};

use crate::comm::{self, CollectiveCall, Communicator};
use shared::{Completion, Shared};
use state::Tags;

/// Options of [`SparseExchange::with_options`].
#[derive(Default)]
pub struct SparseOptions {
    neighbours: Option<(Vec<usize>, Vec<usize>)>,
    on_complete: Option<Completion>,
}

impl fmt::Debug for SparseOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SparseOptions")
            .field("neighbours", &self.neighbours)
            .field("on_complete", &self.on_complete.is_some())
            .finish()
    }
}

impl SparseOptions {
    /// Fixes the ranks from which messages come to this rank, and those to which it sends, in any order; the rank itself
    /// may be among them. If one rank fixes them, all do. A round then ends between neighbours, and no rank waits for
    /// distant ones.
    #[must_use]
    pub fn between(mut self, sources: &[usize], destinations: &[usize]) -> Self {
        self.neighbours = Some((sources.to_vec(), destinations.to_vec()));
        self
    }

    /// Sets a function to be called each time a round has failed, or is complete so that [`Round::wait`] would not
    /// wait. It runs inside the call that makes the last progress, on any thread, and may use other exchanges; on the
    /// progress thread, [`Round::wait`] may return before it. It must
    /// not wait for other ranks, nor use its own exchange. If it panics, the exchange is poisoned: [`Round::wait`] or
    /// the next call returns [`SparseError::CallbackPanicked`].
    #[must_use]
    pub fn on_complete(mut self, call: impl FnMut(Result<(), &SparseError>) + Send + 'static) -> Self {
        self.on_complete = Some(Box::new(call));
        self
    }
}

/// Messages of any length between ranks, in rounds.
///
/// All ranks make it together, and go through the same number of rounds, one after another. Rounds of different
/// exchanges and exchanges of halos may be under way at the same time. Once ranks have [finished](Round::finish) their
/// insertions into all of them, they may wait for them in different orders.
pub struct SparseExchange {
    comm: Communicator,
    shared: Arc<Shared>,
    /// Whether a round was begun by `begin_with` and not ended.
    begun: bool,
    tags: comm::Tags,
}

impl fmt::Debug for SparseExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SparseExchange({:?})", self.comm)
    }
}

impl SparseExchange {
    /// Collective: makes an exchange in which any rank may send to any other, which need not know.
    ///
    /// A round is complete when all messages of all ranks have been received, so every rank waits for all others.
    ///
    /// # Errors
    /// [`SparseError::Transport`] with [`TransportError::OutOfStep`](crate::TransportError::OutOfStep) if a rank makes
    /// another [collective call](Communicator), such as an exchange between fixed neighbours.
    pub fn new(comm: &Communicator) -> Result<SparseExchange, SparseError> {
        SparseExchange::with_options(comm, SparseOptions::default())
    }

    /// Collective: makes an exchange between fixed neighbours, see [`SparseOptions::between`]. Checks once that
    /// sources and destinations match.
    ///
    /// # Errors
    /// [`SparseError::Refused`], with the same text on every rank, if a rank does not exist or is named twice, or if a
    /// source or destination does not match; [`SparseError::Transport`], as for [`new`](SparseExchange::new).
    pub fn between(
        comm: &Communicator,
        sources: &[usize],
        destinations: &[usize],
    ) -> Result<SparseExchange, SparseError> {
        SparseExchange::with_options(comm, SparseOptions::default().between(sources, destinations))
    }

    /// Collective: makes an exchange with options.
    ///
    /// # Errors
    /// As for [`between`](SparseExchange::between).
    pub fn with_options(comm: &Communicator, options: SparseOptions) -> Result<SparseExchange, SparseError> {
        let SparseOptions { neighbours, on_complete } = options;
        let _steps = comm.enter(CollectiveCall::SparseExchange { fixed: neighbours.is_some() })?;
        let taken = comm.take_tags(Tags::COUNT)?;
        let tags = Tags(taken.first());
        let neighbours = neighbours.map(|(sources, destinations)| (sorted(sources), sorted(destinations)));
        if let Some((sources, destinations)) = &neighbours {
            check_neighbours(comm, sources, destinations)?;
        }
        let neighbours = neighbours.as_ref().map(|(sources, destinations)| (&sources[..], &destinations[..]));
        let shared = Arc::new(Shared::new((comm.rank(), comm.size()), tags, neighbours, on_complete));
        comm.engine().note(&shared);
        Ok(SparseExchange { comm: comm.clone(), shared, begun: false, tags: taken })
    }

    /// Begins a round; other ranks may still be in the round before. If the earlier round was leaked by `mem::forget`,
    /// first completes it and discards its messages.
    ///
    /// # Errors
    /// [`SparseError::Poisoned`], the errors of the earlier round, and [`SparseError::InRound`] after
    /// [`begin_with`](SparseExchange::begin_with).
    pub fn begin(&mut self) -> Result<Round<'_>, SparseError> {
        let number = self.begin_round()?;
        Ok(Round::new(self, number))
    }

    /// Begins a round of these messages, each paired with its receiver, for programs that cannot hold a [`Round`]:
    /// nothing is borrowed. [`end`](SparseExchange::end) ends it. Messages for one receiver arrive in their order here.
    /// No others can be inserted later. Does not block, except as [`begin`](SparseExchange::begin) does.
    ///
    /// Dropping the exchange before the end does what dropping a [`Round`] does.
    ///
    /// ```
    /// use haloport::{SparseExchange, run_ranks};
    ///
    /// let received = run_ranks(2, |comm| {
    ///     let mut exchange = SparseExchange::new(&comm)?;
    ///     exchange.begin_with([(1 - comm.rank(), vec![comm.rank() as u8])])?;
    ///     while !exchange.is_ready() {
    ///         // other work
    ///     }
    ///     Ok(exchange.end()?)
    /// })?;
    /// assert_eq!(received, [[(1, vec![1])], [(0, vec![0])]]);
    /// # Ok::<(), haloport::comm::RanksError>(())
    /// ```
    ///
    /// # Errors
    /// [`SparseError::InRound`] if a round was begun before and not ended; [`SparseError::NotADestination`] and, within
    /// [`SparseError::Transport`], [`TransportError::NoSuchRank`](crate::TransportError::NoSuchRank) and
    /// [`TransportError::WrongThread`](crate::TransportError::WrongThread): no round is begun then. All other errors as for
    /// [`begin`](SparseExchange::begin).
    pub fn begin_with(
        &mut self,
        messages: impl IntoIterator<Item = (usize, Vec<u8>)>,
    ) -> Result<(), SparseError> {
        self.check_no_round()?;
        self.comm.check_thread()?;
        let messages: Vec<(usize, Vec<u8>)> = messages.into_iter().collect();
        messages.iter().try_for_each(|(peer, _)| self.shared.check_receiver(*peer))?;
        let number = self.begin_round()?;
        for (peer, bytes) in messages {
            self.shared.insert(number, peer, bytes)?;
        }
        self.shared.finish();
        self.begun = true;
        self.serve();
        Ok(())
    }

    /// Makes progress, and returns whether [`end`](SparseExchange::end) would return without waiting; also `true` if no
    /// round is under way or the round has failed. Does not block.
    pub fn is_ready(&self) -> bool {
        self.serve();
        !self.shared.is_travelling()
    }

    /// Ends the round that [`begin_with`](SparseExchange::begin_with) began: waits until it is complete, and returns the
    /// messages that have come, in the order of [`Round::wait`].
    ///
    /// # Errors
    /// [`SparseError::NotInRound`] if no round was begun; within [`SparseError::Transport`],
    /// [`TransportError::WrongThread`](crate::TransportError::WrongThread): the round goes on, for another thread to end.
    /// All other errors as for [`Round::wait`]; the round has then ended.
    pub fn end(&mut self) -> Result<Vec<(usize, Vec<u8>)>, SparseError> {
        if !self.begun {
            return Err(SparseError::NotInRound);
        }
        self.comm.check_thread()?;
        self.begun = false;
        self.end_round()
    }

    /// Whether a round was begun by [`begin_with`](SparseExchange::begin_with) and not ended.
    pub fn is_in_round(&self) -> bool {
        self.begun
    }

    /// Returns an error if a round was begun without a borrow and not ended.
    pub(crate) fn check_no_round(&self) -> Result<(), SparseError> {
        if self.begun { Err(SparseError::InRound) } else { Ok(()) }
    }

    /// Begins a round and returns its number. Completes a round that was leaked.
    fn begin_round(&mut self) -> Result<u64, SparseError> {
        self.check_no_round()?;
        self.comm.check_open()?;
        if self.shared.is_open() {
            self.end_round()?;
        }
        let number = self.shared.begin()?;
        self.comm.engine().add(&self.shared);
        self.comm.drive_if_asked();
        Ok(number)
    }

    /// Makes progress with all exchanges of this rank, if this thread may: those of halos would fail on another one.
    fn serve(&self) {
        self.comm.progress();
    }

    /// The communicator.
    pub fn comm(&self) -> &Communicator {
        &self.comm
    }
}

impl Drop for SparseExchange {
    fn drop(&mut self) {
        if self.begun {
            self.drop_round();
        }
        self.tags.end(self.shared.completed());
        let transport = &**self.comm.transport();
        self.shared.abandon(transport, SparseError::Poisoned("it was dropped".into()));
        self.comm.engine().remove(&self.shared);
        self.shared.discard(transport);
    }
}

fn sorted(mut ranks: Vec<usize>) -> Vec<usize> {
    ranks.sort_unstable();
    ranks
}

/// Collective: checks that all neighbours exist and expect each other.
fn check_neighbours(
    comm: &Communicator,
    sources: &[usize],
    destinations: &[usize],
) -> Result<(), SparseError> {
    let size = comm.size();
    let flaw =
        [("sources", sources), ("destinations", destinations)].into_iter().find_map(|(what, ranks)| {
            let beyond = ranks.iter().find(|&&rank| rank >= size).map(|rank| {
                format!("its {what} have rank {rank}, but there are {size} ranks, numbered from 0")
            });
            let twice = ranks.windows(2).find(|pair| pair[0] == pair[1]);
            beyond.or(twice.map(|pair| format!("its {what} have rank {} twice", pair[0])))
        });
    comm.agree(flaw)?.map_err(SparseError::Refused)?;
    let calls = destinations.iter().map(|&destination| (destination, Vec::new())).collect();
    let callers: Vec<usize> =
        comm.sparse_exchange_bytes(calls)?.into_iter().map(|(sender, _)| sender).collect();
    let silent = sources.iter().find(|source| callers.binary_search(source).is_err());
    let uncalled = callers.iter().find(|caller| sources.binary_search(caller).is_err());
    let flaw = silent
        .map(|source| format!("it expects messages from rank {source}, which does not send to it"))
        .or(uncalled
            .map(|caller| format!("it does not expect messages from rank {caller}, which sends to it")));
    comm.agree(flaw)?.map_err(SparseError::Refused)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn the_engine_serves_an_exchange_once_however_many_rounds_are_forgotten() {
        run_ranks(1, |comm| {
            let mut exchange = SparseExchange::new(&comm)?;
            for _ in 0..5 {
                let round = exchange.begin()?;
                round.finish();
                while !round.is_ready() {}
                std::mem::forget(round);
            }
            // The exchange's own, one of each forgotten round, and the engine's.
            assert_eq!(Arc::strong_count(&exchange.shared), 1 + 5 + 1);
            Ok(())
        })
        .unwrap();
    }
}
