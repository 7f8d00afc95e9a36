//! A rank's view of all ranks: its transport, its pending exchanges and its time limit.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, TryLockError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Reach, Reduction, Transport, TransportError, TransportInfo};
use crate::exchange::{Driven, Engine, Progress, drive};
use crate::trace::{self, Trace};

/// How long a rank waits for others unless told otherwise.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Tags that no exchange uses: they are for callers of [`Communicator::raw_transport`].
pub const FREE_TAGS: Range<u32> = 0..100;

/// Rounds of waiting between two looks at the clock.
const ROUNDS_PER_CLOCK: u32 = 64;

/// A group of ranks, seen from one of them. Cloning gives another handle to the same.
///
/// Collective calls are made by all ranks in the same order. While one of them, or the end of an exchange, waits,
/// the rank serves all its pending exchanges, so that ranks may end theirs in different orders.
#[derive(Clone)]
pub struct Communicator {
    inner: Arc<Inner>,
}

struct Inner {
    transport: Arc<dyn Transport>,
    engine: Engine,
    next_tag: AtomicU32,
    /// In nanoseconds; `u64::MAX` for none.
    time_limit: AtomicU64,
    /// A [`Progress`].
    progress: AtomicU8,
    /// Whether the transport serves other threads.
    any_thread: bool,
    /// Whether other ranks are threads of this process.
    has_threads: bool,
    /// Collectives are not interleaved. Holds the error of the first that failed: from then on the ranks may be at
    /// different ones, so there is no further.
    collective: Mutex<Option<TransportError>>,
    trace: OnceLock<Trace>,
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator({}, rank {} of {})", self.info().name, self.rank(), self.size())
    }
}

impl Communicator {
    /// A communicator over a transport, which it owns from now on, with the [`DEFAULT_TIME_LIMIT`].
    pub fn new(transport: impl Transport + 'static) -> Communicator {
        let transport: Arc<dyn Transport> = Arc::new(transport);
        // Asked once: what it says has texts.
        let info = transport.info();
        let made = Communicator {
            inner: Arc::new(Inner {
                any_thread: info.any_thread,
                has_threads: transport.size() > 1 && info.reach == Reach::Process,
                transport,
                engine: Engine::default(),
                next_tag: AtomicU32::new(FREE_TAGS.end),
                time_limit: AtomicU64::new(0),
                progress: AtomicU8::new(Progress::Auto as u8),
                collective: Mutex::new(None),
                trace: OnceLock::new(),
            }),
        };
        made.set_time_limit(Some(DEFAULT_TIME_LIMIT));
        made
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.inner.transport.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.inner.transport.size()
    }

    /// What the transport is and can do.
    pub fn info(&self) -> TransportInfo {
        self.inner.transport.info()
    }

    /// How long this rank waits for others before it gives up with an error; `None` for ever.
    pub fn time_limit(&self) -> Option<Duration> {
        match self.inner.time_limit.load(Ordering::Relaxed) {
            u64::MAX => None,
            nanoseconds => Some(Duration::from_nanos(nanoseconds)),
        }
    }

    /// Sets the [`time_limit`](Communicator::time_limit) of this rank.
    pub fn set_time_limit(&self, limit: Option<Duration>) {
        let nanoseconds =
            limit.map_or(u64::MAX, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX - 1));
        self.inner.time_limit.store(nanoseconds, Ordering::Relaxed);
    }

    /// Sets who drives this rank's exchanges of asynchronous devices from now on; [`Progress::Auto`] if not said. Ranks
    /// may differ.
    ///
    /// # Errors
    /// [`TransportError::WrongThread`] where a thread is asked for that the transport does not serve.
    pub fn set_progress(&self, progress: Progress) -> Result<(), TransportError> {
        let info = self.info();
        if progress == Progress::Thread && !info.any_thread {
            return Err(TransportError::WrongThread {
                what: format!("the transport {} ({})", info.name, info.implementation),
                advice: "initialise MPI with MPI_THREAD_MULTIPLE, or let the caller make progress",
            });
        }
        self.inner.progress.store(progress as u8, Ordering::Relaxed);
        Ok(())
    }

    /// Makes whatever progress this rank's exchanges can make now. Does not block. Their errors come at their own calls.
    pub fn progress(&self) {
        self.inner.drive();
    }

    /// Begins the [time line](crate::trace) of this rank, of at most `spans` spans, unless it was begun. Exchanges that are
    /// bound from now on, and collective calls, write into it. Ranks may differ.
    pub fn begin_trace(&self, spans: usize) -> &Trace {
        self.inner.trace.get_or_init(|| Trace::new(spans))
    }

    /// The time line of this rank. Where it was not begun, nothing is kept there.
    pub fn trace(&self) -> &Trace {
        self.inner.trace.get().unwrap_or(&trace::OFF)
    }

    /// Collective: waits until every rank has come here.
    ///
    /// # Errors
    /// [`TransportError::TimeLimit`], [`TransportError::PeerFailed`], and what the layer below says.
    pub fn barrier(&self) -> Result<(), TransportError> {
        self.collective("all ranks at a barrier", |transport, idle| transport.barrier(idle))
    }

    /// Collective: the largest `value` of all ranks, in the order of [`f64::total_cmp`].
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier).
    pub fn all_max(&self, value: f64) -> Result<f64, TransportError> {
        let mut ordered = [ordered_from(value)];
        self.all_reduce(&mut ordered, Reduction::Max)?;
        Ok(float_from(ordered[0]))
    }

    /// Collective: replaces each value by its reduction over all ranks. The lists have the same length on every rank.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier).
    pub fn all_reduce(&self, values: &mut [u64], reduction: Reduction) -> Result<(), TransportError> {
        self.collective("all ranks at a reduction", |transport, idle| {
            transport.all_reduce(values, reduction, idle)
        })
    }

    /// Collective: gives every rank the value of rank `root`.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier), and [`TransportError::NoSuchRank`].
    pub fn broadcast<T: Serialize + DeserializeOwned>(
        &self,
        root: usize,
        value: &T,
    ) -> Result<T, TransportError> {
        if root >= self.size() {
            return Err(TransportError::NoSuchRank { peer: root, size: self.size() });
        }
        let mut bytes = if self.rank() == root { encode(value, root)? } else { Vec::new() };
        self.collective("all ranks at a broadcast", |transport, idle| {
            transport.broadcast(root, &mut bytes, idle)
        })?;
        decode(root, &bytes)
    }

    /// Collective: sends each message to the rank beside it, and returns the messages for this rank with their
    /// senders, in the order of the senders. Receivers need not know who sends.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier), [`TransportError::NoSuchRank`] and [`TransportError::Malformed`].
    pub fn sparse_exchange<T: Serialize + DeserializeOwned>(
        &self,
        messages: &[(usize, T)],
    ) -> Result<Vec<(usize, T)>, TransportError> {
        let me = self.rank();
        let encoded = messages.iter().map(|(peer, message)| Ok((*peer, encode(message, me)?)));
        let received = self.sparse_exchange_bytes(encoded.collect::<Result<_, TransportError>>()?)?;
        received.iter().map(|(sender, bytes)| Ok((*sender, decode(*sender, bytes)?))).collect()
    }

    /// Collective: as [`sparse_exchange`](Communicator::sparse_exchange), of bytes as they are.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier), and [`TransportError::NoSuchRank`].
    pub fn sparse_exchange_bytes(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        let size = self.size();
        if let Some(&(peer, _)) = messages.iter().find(|(peer, _)| *peer >= size) {
            return Err(TransportError::NoSuchRank { peer, size });
        }
        self.collective("all ranks at a sparse exchange", |transport, idle| {
            transport.sparse_exchange(messages, idle)
        })
    }

    /// Collective: ends with the same result on every rank: `Ok` where all ranks are content, else the complaint of
    /// the lowest rank that has one.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier). The inner result is the agreed one.
    pub fn agree(&self, complaint: Option<String>) -> Result<Result<(), String>, TransportError> {
        let mut lowest = [if complaint.is_some() { self.rank() as u64 } else { u64::MAX }];
        self.all_reduce(&mut lowest, Reduction::Min)?;
        match lowest[0] {
            u64::MAX => Ok(Ok(())),
            rank => {
                let rank = rank as usize;
                let text = self.broadcast(rank, &complaint.unwrap_or_default())?;
                Ok(Err(format!("rank {rank}: {text}")))
            }
        }
    }

    /// Whether this rank and `peer`, another process of the same node, can map memory that the other one shares.
    pub fn is_near(&self, peer: usize) -> bool {
        self.inner.transport.is_near(peer)
    }

    /// The transport: for tests of a transport, measurements, and transports that pass their calls on to this one.
    ///
    /// # Safety
    /// Through this handle and its clones
    /// - channels are opened, windows published and attached, and messages sent, received, counted and discarded with
    ///   [`FREE_TAGS`] alone, unless no exchange of this communicator lives meanwhile, on any rank;
    /// - no channel is used but those opened through it;
    /// - collectives are called by all ranks, and while no other collective of this communicator is under way: binding and
    ///   making patterns are collectives, too.
    pub unsafe fn raw_transport(&self) -> &Arc<dyn Transport> {
        self.transport()
    }

    /// The transport.
    pub(crate) fn transport(&self) -> &Arc<dyn Transport> {
        &self.inner.transport
    }

    /// Has the thread of the process drive what is in flight; `false` where the caller has to.
    pub(crate) fn drive(&self) -> bool {
        static SAID: Once = Once::new();
        if self.inner.progress.load(Ordering::Relaxed) == Progress::Caller as u8 {
            return false;
        }
        if !self.inner.any_thread {
            SAID.call_once(|| {
                tracing::warn!(
                    "the transport serves no other thread: `finish` on a stream waits for messages"
                );
            });
            return false;
        }
        drive(Arc::clone(&self.inner) as Arc<dyn Driven>)
    }

    /// Whether other ranks are threads of this process, and may use the same streams.
    pub(crate) fn has_threads(&self) -> bool {
        self.inner.has_threads
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Takes `count` tags, the same on every rank as long as ranks bind in the same order.
    pub(crate) fn take_tags(&self, count: u32) -> u32 {
        self.inner.next_tag.fetch_add(count, Ordering::Relaxed)
    }

    /// Serves the pending exchanges until `done` says so, fails, or the time limit is over.
    pub(crate) fn wait(
        &self,
        what: impl Fn() -> String,
        mut done: impl FnMut() -> Result<bool, TransportError>,
    ) -> Result<(), TransportError> {
        let mut patience = Patience::new(self.time_limit());
        loop {
            if done()? {
                return Ok(());
            }
            self.inner.engine.serve(&*self.inner.transport);
            if done()? {
                return Ok(());
            }
            self.inner.transport.relax(patience.round)?;
            patience.next(&what)?;
        }
    }

    fn collective<R>(
        &self,
        what: &'static str,
        call: impl FnOnce(&dyn Transport, super::Idle<'_>) -> Result<R, TransportError>,
    ) -> Result<R, TransportError> {
        let mut failed = match self.inner.collective.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(TransportError::Busy),
        };
        if let Some(error) = &*failed {
            return Err(TransportError::Broken(error.to_string()));
        }
        let transport = &*self.inner.transport;
        let mut patience = Patience::new(self.time_limit());
        let wait = || {
            call(transport, &mut || {
                self.inner.engine.serve(transport);
                transport.relax(patience.round)?;
                patience.next(|| what.to_string())
            })
        };
        let outcome = match self.trace().recording() {
            Some(recording) => recording.wait(what, None, wait, Result::is_err),
            None => wait(),
        };
        // A call that was refused never came to the others.
        let refused =
            matches!(outcome, Err(TransportError::WrongThread { .. } | TransportError::NoSuchRank { .. }));
        if !refused {
            *failed = outcome.as_ref().err().cloned();
        }
        outcome
    }
}

impl Driven for Inner {
    fn drive(&self) {
        self.engine.serve(&*self.transport);
    }

    fn is_idle(&self) -> bool {
        self.engine.is_idle()
    }
}

/// Counts the rounds of waiting and looks at the clock now and then.
struct Patience {
    round: u32,
    limit: Option<Duration>,
    began: Option<Instant>,
}

impl Patience {
    fn new(limit: Option<Duration>) -> Patience {
        Patience { round: 0, limit, began: None }
    }

    fn next(&mut self, what: impl Fn() -> String) -> Result<(), TransportError> {
        self.round = self.round.saturating_add(1);
        let Some(limit) = self.limit else { return Ok(()) };
        if self.round % ROUNDS_PER_CLOCK == 1 || self.round == u32::MAX {
            let now = Instant::now();
            if now.duration_since(*self.began.get_or_insert(now)) > limit {
                return Err(TransportError::TimeLimit { what: what(), limit });
            }
        }
        Ok(())
    }
}

pub(crate) fn encode<T: Serialize>(value: &T, sender: usize) -> Result<Vec<u8>, TransportError> {
    postcard::to_stdvec(value).map_err(|error| TransportError::Malformed { sender, why: error.to_string() })
}

pub(crate) fn decode<T: DeserializeOwned>(sender: usize, bytes: &[u8]) -> Result<T, TransportError> {
    postcard::from_bytes(bytes).map_err(|error| TransportError::Malformed { sender, why: error.to_string() })
}

/// An integer that is ordered as the float is by [`f64::total_cmp`].
fn ordered_from(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn float_from(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_keep_their_order_as_integers() {
        let values = [f64::NEG_INFINITY, -2.5, -0.0, 0.0, f64::MIN_POSITIVE, 1.0, 1e300, f64::INFINITY];
        for pair in values.windows(2) {
            assert!(ordered_from(pair[0]) < ordered_from(pair[1]), "{pair:?}");
        }
        for value in values {
            assert_eq!(float_from(ordered_from(value)).to_bits(), value.to_bits());
        }
    }
}
