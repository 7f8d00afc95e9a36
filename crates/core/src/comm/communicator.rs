//! One rank's view of all ranks: its transport, its exchanges in flight and its limits of waiting.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::Collectives;
use super::engine::Engine;
use super::handover::Handovers;
use super::kept::KeptByDevice;
use super::progress::{Driven, Progress, drive};
use super::tags::{self, Blocks, Tags};
use super::wait::{CheckTimer, InterruptCheck, Missing, WaitClock, WaitLimits};
use crate::callback::panic_text;
use crate::log;
use crate::trace::{self, Trace};
use crate::transport::{Reach, Reduction, Transport, TransportError, TransportInfo};

/// The first rounds of a wait, which do not read the clock. Later ones do: in each of them the thread may sleep for some
/// milliseconds.
const FIRST_ROUNDS: u32 = 32;

/// A group of ranks, seen from one of them. A clone is another handle to the same communicator.
///
/// While a rank waits, in a collective call or at the end of an exchange, it makes progress with all its exchanges, so
/// ranks may end theirs in different orders.
///
/// # Collective calls
///
/// All ranks make the same collective calls in the same order: those of this type, and the making of patterns,
/// exchanges and lines. Each begins by comparing the calls of all ranks: the kind of call, the
/// [number](crate::Pattern::number) of the pattern that is bound, the root of a broadcast or a gather, and the kind,
/// type and length of a reduction. If the calls differ, all ranks get [`TransportError::OutOfStep`] at once, which
/// names two of the calls; nothing is exchanged, and the communicator can still be used. If a rank leaves out or
/// repeats a call, the next call that differs shows it; if none follows, the other ranks end at the time limit. Two
/// equal calls, such as two barriers, cannot be distinguished.
///
/// The comparison costs one small reduction for each call of several steps, such as [`bind`](crate::Pattern::bind), for
/// each [`broadcast`](Communicator::broadcast), [`gather`](Communicator::gather) and sparse exchange, and for each
/// reduction that is a sum or has more than 6 values. It costs nothing in a [`barrier`](Communicator::barrier), an
/// [`agree`](Communicator::agree) or any other reduction, where it travels with the values.
///
/// # Waiting
///
/// A rank that waits for others for 60 s ([`warn_after`](Communicator::warn_after)) logs a warning, once in each wait,
/// which names the missing ranks as far as they are known. After 30 minutes ([`time_limit`](Communicator::time_limit))
/// the wait ends with an error that names them. The environment variables `HALOPORT_WARN_AFTER` and
/// `HALOPORT_TIME_LIMIT` set the two times for new communicators: in seconds, or `none`. A program can also end waits
/// itself, for example when its user presses Ctrl-C: see [`set_interrupt`](Communicator::set_interrupt).
#[derive(Clone)]
pub struct Communicator {
    inner: Arc<Inner>,
}

struct Inner {
    /// Dropped before the transport, whose drop tells other ranks that this one has ended.
    kept: KeptByDevice,
    transport: Arc<dyn Transport>,
    engine: Engine,
    handovers: Handovers,
    tags: Arc<Mutex<Blocks>>,
    /// Of what ranks number together.
    next_number: AtomicU32,
    /// In nanoseconds; `u64::MAX` for never.
    warn_after: AtomicU64,
    /// In nanoseconds; `u64::MAX` for never.
    time_limit: AtomicU64,
    interrupt: Mutex<Option<InterruptCheck>>,
    /// A [`Progress`].
    progress: AtomicU8,
    /// Whether any thread may call the transport.
    any_thread: bool,
    /// Whether other ranks are threads of this process.
    has_threads: bool,
    closed: AtomicBool,
    collectives: Mutex<Collectives>,
    trace: OnceLock<Trace>,
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator({}, rank {} of {})", self.info().name, self.rank(), self.size())
    }
}

impl Communicator {
    /// Makes a communicator that owns a transport. If an environment variable with a limit of waiting cannot be read,
    /// logs a warning and takes the defaults.
    pub fn new(transport: impl Transport + 'static) -> Communicator {
        let limits = WaitLimits::from_environment().unwrap_or_else(|error| {
            log::warning(format_args!("{error}; Haloport uses the defaults"));
            WaitLimits::default()
        });
        Communicator::with_limits(transport, limits)
    }

    /// As [`new`](Communicator::new), but an environment variable that cannot be read is an error.
    ///
    /// # Errors
    /// [`TransportError::Variable`].
    pub fn try_new(transport: impl Transport + 'static) -> Result<Communicator, TransportError> {
        Ok(Communicator::with_limits(transport, WaitLimits::from_environment()?))
    }

    pub(crate) fn with_limits(transport: impl Transport + 'static, limits: WaitLimits) -> Communicator {
        let transport: Arc<dyn Transport> = Arc::new(transport);
        // Cached: `info()` allocates.
        let info = transport.info();
        Communicator {
            inner: Arc::new(Inner {
                kept: KeptByDevice::default(),
                any_thread: info.any_thread,
                has_threads: transport.size() > 1 && info.reach == Reach::Process,
                tags: Arc::new(Mutex::new(Blocks::new(transport.largest_tag()))),
                transport,
                closed: AtomicBool::new(false),
                engine: Engine::default(),
                handovers: Handovers::default(),
                next_number: AtomicU32::new(1),
                warn_after: AtomicU64::new(nanoseconds(limits.warn_after)),
                time_limit: AtomicU64::new(nanoseconds(limits.time_limit)),
                interrupt: Mutex::default(),
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

    /// Describes the transport and its abilities.
    pub fn info(&self) -> TransportInfo {
        self.inner.transport.info()
    }

    /// The time after which a wait for other ranks ends with an error; `None` for never. By default the value of the
    /// environment variable `HALOPORT_TIME_LIMIT`, or 30 minutes.
    pub fn time_limit(&self) -> Option<Duration> {
        duration(&self.inner.time_limit)
    }

    /// Sets the [`time_limit`](Communicator::time_limit) of this rank, for waits that begin from now on.
    pub fn set_time_limit(&self, limit: Option<Duration>) {
        self.inner.time_limit.store(nanoseconds(limit), Ordering::Relaxed);
    }

    /// The time after which a wait for other ranks logs a warning, once; `None` for never. By default the value of the
    /// environment variable `HALOPORT_WARN_AFTER`, or 60 s.
    pub fn warn_after(&self) -> Option<Duration> {
        duration(&self.inner.warn_after)
    }

    /// Sets [`warn_after`](Communicator::warn_after) of this rank, for waits that begin from now on.
    pub fn set_warn_after(&self, time: Option<Duration>) {
        self.inner.warn_after.store(nanoseconds(time), Ordering::Relaxed);
    }

    /// Sets a function that may end the waits of this rank for others, or removes it; also for waits under way. It
    /// applies to collective calls, exchanges, sparse exchanges and lines, and to their drops, which
    /// complete what is in flight.
    ///
    /// The thread that waits calls `check` about every 20 ms, first after about 20 ms. It holds no lock that any other
    /// call of Haloport waits for, so `check` may wait for other threads that use Haloport. If `check` returns `true`
    /// or panics, the wait ends with [`TransportError::Interrupted`]. As after the time limit, an exchange is then
    /// poisoned, and after a collective call this communicator refuses further ones. While `check` runs in a collective
    /// call, another one on this communicator returns [`TransportError::Busy`].
    ///
    /// Waits for a device are not interrupted.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// use haloport::comm::TransportError;
    /// use haloport::run_ranks;
    ///
    /// static STOP: AtomicBool = AtomicBool::new(true); // set by a signal handler
    ///
    /// run_ranks(2, |comm| {
    ///     comm.set_interrupt(Some(Arc::new(|| STOP.load(Ordering::Relaxed))));
    ///     if comm.rank() == 0 {
    ///         assert!(matches!(comm.barrier(), Err(TransportError::Interrupted { .. })));
    ///     } else {
    ///         std::thread::sleep(std::time::Duration::from_millis(200));
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), haloport::comm::RanksError>(())
    /// ```
    pub fn set_interrupt(&self, check: Option<InterruptCheck>) {
        let mut interrupt = self.inner.interrupt.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *interrupt, check);
        // Dropped without the lock: its drop is code of the program.
        drop(interrupt);
        drop(before);
    }

    /// Calls the function of [`set_interrupt`](Communicator::set_interrupt), and returns whether the wait should end.
    pub(crate) fn is_interrupted(&self) -> bool {
        // Called without the lock.
        let check = self.inner.interrupt.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(check) = check else { return false };
        // Unwind safe: the wait ends, and what it waits for fails for good.
        catch_unwind(AssertUnwindSafe(|| check())).unwrap_or_else(|panic| {
            let message = panic_text(&*panic);
            log::error(format_args!(
                "the function of `set_interrupt` panicked, which ends the wait: {message}"
            ));
            true
        })
    }

    /// Sets what makes progress with the exchanges and rounds of messages that this rank starts from now on. The default is
    /// [`Progress::Auto`]. Ranks may differ. Under MPI, with [`Progress::Thread`] and below `MPI_THREAD_MULTIPLE`, the program calls MPI
    /// by itself only while none of them is under way.
    ///
    /// # Errors
    /// [`TransportError::NoProgressThread`] for [`Progress::Thread`], if only one thread may call the transport. Nothing has changed
    /// then.
    pub fn set_progress(&self, progress: Progress) -> Result<(), TransportError> {
        let info = self.info();
        if progress == Progress::Thread && !info.any_thread {
            let transport = format!("the transport {} ({})", info.name, info.implementation);
            return Err(TransportError::NoProgressThread { transport });
        }
        self.inner.progress.store(progress as u8, Ordering::Relaxed);
        Ok(())
    }

    /// What the program has asked for with [`set_progress`](Communicator::set_progress); at first [`Progress::Auto`].
    pub fn asked_progress(&self) -> Progress {
        match self.inner.progress.load(Ordering::Relaxed) {
            by if by == Progress::Thread as u8 => Progress::Thread,
            by if by == Progress::Caller as u8 => Progress::Caller,
            _ => Progress::Auto,
        }
    }

    /// Makes progress with this rank's exchanges, if this thread may call the transport. Does not block. The calls of an
    /// exchange return its errors.
    pub fn progress(&self) {
        if self.check_thread().is_ok() {
            self.inner.drive();
        }
    }

    /// Tells the other ranks that this one has failed, and why, if they are threads of this process: waits for other ranks,
    /// of all of them, then end with [`TransportError::PeerFailed`]. The first failure counts. Does nothing under MPI,
    /// where the launcher ends a job of which a rank fails.
    ///
    /// [`run_ranks`](crate::run_ranks) does this for a rank that returns an error or panics; a program that has started the
    /// threads of [`threads`](crate::threads) does it itself.
    pub fn fail(&self, why: &str) {
        self.inner.transport.fail(why);
    }

    /// Ends the use of this communicator by this rank, although patterns and exchanges still have handles to it: collective
    /// calls and starts of exchanges of this rank then return [`TransportError::Closed`]. Exchanges in flight fail, here and
    /// on neighbours, and neighbours that start a bound one later. If ranks are threads, all other waits for this rank end
    /// with [`TransportError::PeerEnded`], as when the last handle is dropped. Closing again does nothing. Waits for no rank.
    ///
    /// # Errors
    /// [`TransportError::WrongThread`]: the communicator stays open.
    pub fn close(&self) -> Result<(), TransportError> {
        self.check_thread()?;
        if !self.inner.closed.swap(true, Ordering::Relaxed) {
            let transport = &*self.inner.transport;
            self.inner.engine.give_up_all(transport, &TransportError::Closed.to_string());
            transport.end();
        }
        Ok(())
    }

    /// Returns an error if this rank has [closed](Communicator::close) the communicator.
    pub(crate) fn check_open(&self) -> Result<(), TransportError> {
        if self.inner.closed.load(Ordering::Relaxed) { Err(TransportError::Closed) } else { Ok(()) }
    }

    /// Returns an error if nothing may be started here: see [`check_thread`](Communicator::check_thread) and
    /// [`close`](Communicator::close). Does not block.
    pub(crate) fn check_start(&self) -> Result<(), TransportError> {
        self.check_open()?;
        self.check_thread()
    }

    /// Begins the [time line](crate::trace) of this rank, of at most `spans` spans, and returns it; if it has begun,
    /// only returns it. Exchanges that are bound from now on and collective calls write to it. Ranks may differ.
    pub fn begin_trace(&self, spans: usize) -> &Trace {
        self.inner.trace.get_or_init(|| Trace::new(spans))
    }

    /// The time line of this rank. Before [`begin_trace`](Communicator::begin_trace), it stores nothing.
    pub fn trace(&self) -> &Trace {
        self.inner.trace.get().unwrap_or(&trace::OFF)
    }

    /// Whether this rank and `peer` are processes of the same node that can map each other's shared memory.
    pub fn is_near(&self, peer: usize) -> bool {
        self.inner.transport.is_near(peer)
    }

    /// The transport: for tests and measurements of transports, and for transports that wrap this one.
    ///
    /// # Safety
    /// Through this handle and its clones
    /// - the caller opens channels, publishes and attaches windows, and sends, receives, counts and discards messages
    ///   with [`FREE_TAGS`](super::FREE_TAGS) alone, unless no exchange of this communicator exists at the time, on any rank;
    /// - the caller uses only channels that were opened through it;
    /// - all ranks call a collective, while no other collective of this communicator is under way; binding fields and
    ///   making patterns are collectives, too.
    pub unsafe fn raw_transport(&self) -> &Arc<dyn Transport> {
        self.transport()
    }

    /// Whether both are handles to the same communicator.
    pub(crate) fn is_same(&self, other: &Communicator) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The transport.
    pub(crate) fn transport(&self) -> &Arc<dyn Transport> {
        &self.inner.transport
    }

    /// Returns an error on a thread that may not call the transport: waits there would fail. Does not block.
    ///
    /// # Errors
    /// [`TransportError::WrongThread`].
    pub fn check_thread(&self) -> Result<(), TransportError> {
        if self.inner.any_thread { Ok(()) } else { self.transport().check_thread() }
    }

    /// Lets the progress thread poll what is in flight. Returns `false` if the caller has to poll.
    pub(crate) fn drive(&self) -> bool {
        static WARNED: Once = Once::new();
        if self.asked_progress() == Progress::Caller {
            return false;
        }
        if !self.inner.any_thread {
            WARNED.call_once(|| {
                log::warning(format_args!(
                    "only one thread may call the transport, so `finish` on a stream waits for messages"
                ));
            });
            return false;
        }
        drive(Arc::clone(&self.inner) as Arc<dyn Driven>)
    }

    /// Lets the progress thread poll what is in flight if the program asks for that thread, whatever the device.
    pub(crate) fn drive_if_asked(&self) {
        if self.asked_progress() == Progress::Thread {
            drive(Arc::clone(&self.inner) as Arc<dyn Driven>);
        }
    }

    /// Whether the progress thread may poll the exchanges of this rank.
    pub(crate) fn may_be_driven(&self) -> bool {
        self.inner.any_thread && self.asked_progress() != Progress::Caller
    }

    /// Whether other ranks are threads of this process, and may use the same streams.
    pub(crate) fn has_threads(&self) -> bool {
        self.inner.has_threads
    }

    /// Identifies this rank among the ranks that are threads of this process; 0 if there are no others.
    pub(crate) fn rank_of_process(&self) -> usize {
        if self.has_threads() { Arc::as_ptr(&self.inner).addr() } else { 0 }
    }

    /// The values that the exchanges of this communicator share on each device.
    pub(crate) fn kept(&self) -> &KeptByDevice {
        &self.inner.kept
    }

    /// The distances between the cores of this rank and of others of its node, as far as they were measured.
    pub(crate) fn handovers(&self) -> &Handovers {
        &self.inner.handovers
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// A number that was not returned before, the same on every rank. Called within a call of several steps, at which all
    /// ranks are.
    pub(crate) fn next_number(&self) -> u32 {
        self.inner.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Collective: takes `count` tags, at least 1. Called within a call of several steps, at which all ranks are.
    ///
    /// # Errors
    /// [`TransportError::NoTags`], on all ranks.
    pub(crate) fn take_tags(&self, count: u32) -> Result<Tags, TransportError> {
        tags::take(&self.inner.tags, count, &mut |words| self.all_reduce(words, Reduction::Max))
    }

    pub(super) fn collectives(&self) -> &Mutex<Collectives> {
        &self.inner.collectives
    }

    /// The limits of waits that begin now.
    pub(crate) fn limits(&self) -> WaitLimits {
        WaitLimits { warn_after: self.warn_after(), time_limit: self.time_limit() }
    }

    /// Makes progress with all exchanges until `done` returns `true` or an error, until the time limit, or until the
    /// program ends the wait. `missing` is the reason of the wait. On a thread that may not call the transport, returns
    /// an error unless that is so at once: polling there would fail all exchanges of this rank.
    pub(crate) fn wait(
        &self,
        missing: impl Fn() -> Missing,
        mut done: impl FnMut() -> Result<bool, TransportError>,
    ) -> Result<(), TransportError> {
        if done()? {
            return Ok(());
        }
        self.check_thread()?;
        let mut waiting = BlockingWait::new(self);
        loop {
            self.inner.engine.serve(&*self.inner.transport);
            if done()? {
                return Ok(());
            }
            if let Err(error) = waiting.round(&missing) {
                // The progress thread may have completed it meanwhile.
                return if done()? { Ok(()) } else { Err(error) };
            }
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

/// One wait that blocks its caller.
pub(super) struct BlockingWait<'c> {
    comm: &'c Communicator,
    round: u32,
    clock: WaitClock,
    checks: CheckTimer,
}

impl<'c> BlockingWait<'c> {
    pub(super) fn new(comm: &'c Communicator) -> BlockingWait<'c> {
        BlockingWait { comm, round: 0, clock: WaitClock::new(comm.limits()), checks: CheckTimer::default() }
    }

    /// Waits a little. `missing` is the reason of the wait.
    pub(super) fn round(&mut self, missing: impl Fn() -> Missing) -> Result<(), TransportError> {
        self.comm.inner.transport.relax(self.round)?;
        self.round = self.round.saturating_add(1);
        if self.round < FIRST_ROUNDS {
            return Ok(());
        }
        if let Some(limit) = self.clock.is_over(self.comm.rank(), &missing) {
            let Missing { what, ranks } = missing();
            return Err(TransportError::TimeLimit { what, ranks, limit });
        }
        if self.checks.is_due() && self.comm.is_interrupted() {
            return Err(TransportError::Interrupted { what: missing().what });
        }
        Ok(())
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
