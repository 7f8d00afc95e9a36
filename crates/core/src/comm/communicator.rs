//! A rank's view of all ranks: its transport, its pending exchanges and its time limit.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::Collectives;
use super::engine::Engine;
use super::progress::{Driven, Progress, drive};
use super::wait::{WaitClock, WaitLimits};
use crate::trace::{self, Trace};
use crate::transport::{Reach, Transport, TransportError, TransportInfo};

/// Tags that no exchange uses: they are for callers of [`Communicator::raw_transport`].
pub const FREE_TAGS: Range<u32> = 0..100;

/// Rounds of waiting between two looks at the clock.
const ROUNDS_PER_CLOCK: u32 = 64;

/// A group of ranks, seen from one of them. Cloning gives another handle to the same.
///
/// While a collective call, or the end of an exchange, waits, the rank serves all its pending exchanges, so that ranks may
/// end theirs in different orders.
///
/// # Collective calls
///
/// All ranks make the same collective calls in the same order: those of this type, and the making of patterns, exchanges
/// and lines. Each begins by telling the other ranks what it is about: the kind of call, the pattern that is bound (by its
/// [number](crate::Pattern::number)), the root of a broadcast, or the length of a reduction. If ranks come to different
/// calls, all of them get [`TransportError::OutOfStep`] at once, which names two of the calls, and nothing is exchanged;
/// the communicator can still be used. A call that a rank leaves out or repeats is noticed where it meets another one; if
/// none follows, the others end at the time limit. Two calls that are alike, such as two barriers, cannot be told apart.
///
/// That costs one small reduction for each call of several steps, such as [`bind`](crate::Pattern::bind), for each
/// [`broadcast`](Communicator::broadcast), each sparse exchange, and each reduction that is a sum or has more than 6
/// values. It costs nothing in a [`barrier`](Communicator::barrier), an [`agree`](Communicator::agree) or any other
/// reduction: what they are about travels with their values.
///
/// # Waiting
///
/// A rank that waits for others for 60 s ([`warn_after`](Communicator::warn_after)) warns, once in each wait, and names
/// those that it waits for as far as they are known. After 30 minutes ([`time_limit`](Communicator::time_limit)) the wait
/// ends with an error that names them. The environment variables `HALOPORT_WARN_AFTER` and `HALOPORT_TIME_LIMIT` set
/// both for communicators that are made from then on: in seconds, or `none`.
#[derive(Clone)]
pub struct Communicator {
    inner: Arc<Inner>,
}

struct Inner {
    transport: Arc<dyn Transport>,
    engine: Engine,
    next_tag: AtomicU32,
    /// In nanoseconds; `u64::MAX` for never.
    warn_after: AtomicU64,
    /// In nanoseconds; `u64::MAX` for never.
    time_limit: AtomicU64,
    /// A [`Progress`].
    progress: AtomicU8,
    /// Whether the transport serves other threads.
    any_thread: bool,
    /// Whether other ranks are threads of this process.
    has_threads: bool,
    collectives: Mutex<Collectives>,
    trace: OnceLock<Trace>,
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator({}, rank {} of {})", self.info().name, self.rank(), self.size())
    }
}

impl Communicator {
    /// A communicator over a transport, which it owns from now on. If an environment variable that sets a limit of waiting
    /// cannot be read, warns and takes the defaults.
    pub fn new(transport: impl Transport + 'static) -> Communicator {
        let limits = WaitLimits::from_environment().unwrap_or_else(|error| {
            tracing::warn!("{error}; the default is used");
            WaitLimits::default()
        });
        Communicator::with_limits(transport, limits)
    }

    /// As [`new`](Communicator::new), but refuses values of environment variables that cannot be understood.
    ///
    /// # Errors
    /// [`TransportError::Variable`].
    pub fn try_new(transport: impl Transport + 'static) -> Result<Communicator, TransportError> {
        Ok(Communicator::with_limits(transport, WaitLimits::from_environment()?))
    }

    pub(crate) fn with_limits(transport: impl Transport + 'static, limits: WaitLimits) -> Communicator {
        let transport: Arc<dyn Transport> = Arc::new(transport);
        // Asked once: what it says has texts.
        let info = transport.info();
        Communicator {
            inner: Arc::new(Inner {
                any_thread: info.any_thread,
                has_threads: transport.size() > 1 && info.reach == Reach::Process,
                transport,
                engine: Engine::default(),
                next_tag: AtomicU32::new(FREE_TAGS.end),
                warn_after: AtomicU64::new(nanoseconds(limits.warn_after)),
                time_limit: AtomicU64::new(nanoseconds(limits.time_limit)),
                progress: AtomicU8::new(Progress::Auto as u8),
                collectives: Mutex::default(),
                trace: OnceLock::new(),
            }),
        }
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

    /// How long this rank waits for others before it gives up with an error; `None` for ever. 30 minutes by default, or
    /// what the environment variable `HALOPORT_TIME_LIMIT` says.
    pub fn time_limit(&self) -> Option<Duration> {
        duration(&self.inner.time_limit)
    }

    /// Sets the [`time_limit`](Communicator::time_limit) of this rank, for waits that begin from now on.
    pub fn set_time_limit(&self, limit: Option<Duration>) {
        self.inner.time_limit.store(nanoseconds(limit), Ordering::Relaxed);
    }

    /// How long this rank waits for others before it warns, once in each wait; `None` for never. 60 s by default, or what
    /// the environment variable `HALOPORT_WARN_AFTER` says.
    pub fn warn_after(&self) -> Option<Duration> {
        duration(&self.inner.warn_after)
    }

    /// Sets [`warn_after`](Communicator::warn_after) of this rank, for waits that begin from now on.
    pub fn set_warn_after(&self, time: Option<Duration>) {
        self.inner.warn_after.store(nanoseconds(time), Ordering::Relaxed);
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

    /// Takes `count` tags, the same on every rank: called within calls of several steps, on which ranks have agreed.
    pub(crate) fn take_tags(&self, count: u32) -> u32 {
        self.inner.next_tag.fetch_add(count, Ordering::Relaxed)
    }

    pub(super) fn collectives(&self) -> &Mutex<Collectives> {
        &self.inner.collectives
    }

    /// The limits of waits that begin now.
    pub(crate) fn limits(&self) -> WaitLimits {
        WaitLimits { warn_after: self.warn_after(), time_limit: self.time_limit() }
    }

    /// Serves the pending exchanges until `done` says so, fails, or the time limit is over.
    pub(crate) fn wait(
        &self,
        what: impl Fn() -> String,
        mut done: impl FnMut() -> Result<bool, TransportError>,
    ) -> Result<(), TransportError> {
        let mut waiting = BlockingWait::new(self);
        loop {
            if done()? {
                return Ok(());
            }
            self.inner.engine.serve(&*self.inner.transport);
            if done()? {
                return Ok(());
            }
            waiting.round(&what)?;
        }
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

/// One wait: counts its rounds, and looks at the clock now and then.
pub(super) struct BlockingWait<'c> {
    comm: &'c Communicator,
    round: u32,
    clock: WaitClock,
}

impl<'c> BlockingWait<'c> {
    pub(super) fn new(comm: &'c Communicator) -> BlockingWait<'c> {
        BlockingWait { comm, round: 0, clock: WaitClock::new(comm.limits()) }
    }

    /// Waits a little for `what`.
    pub(super) fn round(&mut self, what: impl Fn() -> String) -> Result<(), TransportError> {
        self.comm.inner.transport.relax(self.round)?;
        self.round = self.round.saturating_add(1);
        if self.round % ROUNDS_PER_CLOCK != 1 && self.round < u32::MAX {
            return Ok(());
        }
        match self.clock.is_over(self.comm.rank(), &what) {
            None => Ok(()),
            Some(limit) => Err(TransportError::TimeLimit { what: what(), limit }),
        }
    }
}

fn nanoseconds(time: Option<Duration>) -> u64 {
    time.map_or(u64::MAX, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX - 1))
}

fn duration(nanoseconds: &AtomicU64) -> Option<Duration> {
    let nanoseconds = nanoseconds.load(Ordering::Relaxed);
    (nanoseconds < u64::MAX).then(|| Duration::from_nanos(nanoseconds))
}

pub(crate) fn encode<T: Serialize>(value: &T, sender: usize) -> Result<Vec<u8>, TransportError> {
    postcard::to_stdvec(value).map_err(|error| TransportError::Malformed { sender, why: error.to_string() })
}

pub(crate) fn decode<T: DeserializeOwned>(sender: usize, bytes: &[u8]) -> Result<T, TransportError> {
    postcard::from_bytes(bytes).map_err(|error| TransportError::Malformed { sender, why: error.to_string() })
}
