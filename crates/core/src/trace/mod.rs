//! The time line of a rank: when kernels ran, when halos were packed, on their way and unpacked, and when the host waited.
//!
//! A rank begins it with [`Communicator::begin_trace`](crate::Communicator::begin_trace): it belongs to the communicator, so
//! that whatever binds an exchange there, also a library, need not be told. Exchanges that are bound from then on write into
//! it, and so do the waits of collective calls; a program adds its kernels by [`Trace::kernel`], which does nothing more than
//! to run them where no time line was begun. [`Trace::write`] collects the time lines of all ranks in one file, which Perfetto
//! (<https://ui.perfetto.dev>) and Chrome show.
//!
//! What the phases say:
//! - **kernel**, **packing**, **unpacking**: from when the device began until it was done, in the row of the stream. The times
//!   come from events, or from the host's clock on devices that are done when a call returns. A copy straight from a
//!   neighbour's field counts as unpacking;
//! - **wire**: from the post of a message until it is seen to be complete, in a row for each neighbour and direction. What
//!   comes counts from when this rank has sent its own, since before that nothing is waited for. A field that is lent to a
//!   neighbour counts until it is given back; a message in shared memory is there at once, for who sent it;
//! - **waiting**: from when a call blocks the host until it goes on, in the row of the host. On devices that are done when a
//!   call returns the host does the copies of an exchange itself, also while it waits.
//!
//! Read in this order: this file; `log`, what a rank has of it while it goes on; `list`, where spans are kept, and
//! `rows`; `axis`, the axis of time, and `timer`, which brings a device's times to it; `file`, what is written.
//!
//! # One axis for all ranks
//! Times of a rank are those of its machine's monotonic clock, of which one moment is known by the wall clock. Ranks of one
//! process share both; processes of one machine differ by about a microsecond, and by as much as the wall clock was
//! corrected between their beginnings. Between machines, rows are as far apart as their wall clocks are: milliseconds with
//! NTP. Lengths, and what was hidden behind kernels of the same rank, do not depend on it.

mod clock;
mod file;
mod rows;
mod span_list;
mod span_log;
mod timer;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use file::{FORMAT, TraceError};
pub use rows::Row;

pub(crate) use clock::now;
pub(crate) use file::{RankTrace, TraceWriter};
pub(crate) use span_list::{SpanLabel, SpanList};
pub(crate) use span_log::SpanLog;
pub(crate) use timer::Timer;

use crate::device::Device;

/// How many spans a rank keeps unless told otherwise: 64 MB at most.
pub const DEFAULT_SPANS: usize = 1_000_000;

/// What is done in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// A kernel of the program.
    Kernel,
    /// Cells are packed.
    Packing,
    /// Something is under way to a neighbour or from one.
    Wire,
    /// Halos are filled.
    Unpacking,
    /// The host is blocked.
    Waiting,
}

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 5] =
        [Phase::Kernel, Phase::Packing, Phase::Wire, Phase::Unpacking, Phase::Waiting];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Phase::Kernel => "kernel",
            Phase::Packing => "packing",
            Phase::Wire => "wire",
            Phase::Unpacking => "unpacking",
            Phase::Waiting => "waiting",
        })
    }
}

/// Something that took its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Where it belongs.
    pub row: Row,
    /// What is done.
    pub phase: Phase,
    /// The name of the kernel, of the copy or of the call.
    pub name: &'static str,
    /// The number of the exchange, from 0 in the order in which the rank bound them.
    pub exchange: Option<u32>,
    /// When it began, since the UNIX epoch.
    pub begin: Duration,
    /// When it ended, no sooner than it began.
    pub end: Duration,
    /// Bytes that were moved; 0 where none were, or they are not known.
    pub bytes: u64,
    /// Whether it ended because something had failed.
    pub failed: bool,
}

/// The time line of one rank. Cloning gives another handle to the same.
///
/// ```
/// use haloport_core::device::Device;
/// use haloport_core::trace::DEFAULT_SPANS;
/// use haloport_core::{Field, Grid, Halo, Pattern, Schedule, Split, run_ranks};
/// use haloport_cpu::CpuDevice;
///
/// run_ranks(2, |comm| {
///     let trace = comm.begin_trace(DEFAULT_SPANS);
///     let grid = Grid::new([8])?.periodic([true])?;
///     let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no part")?;
///     let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
///     let device = CpuDevice::with_threads(1)?;
///     let stream = device.default_stream();
///     let mut exchange = pattern.bind(Field::<f64, _>::new(&device, &pattern)?)?;
///
///     exchange.run(Schedule::DefaultStream)?;
///     trace.kernel("step", &device, &stream, || {
///         exchange.fields_mut().view_mut(0).map(|mut cells| cells.fill_with(|_, _| 1.0))
///     })?;
///     assert!(trace.spans().iter().any(|span| span.name == "step"));
///
///     let mut file = Vec::new(); // filled on rank 0
///     trace.write(&comm, &mut file)?;
///     Ok(())
/// })?;
/// # Ok::<(), haloport_core::RanksError>(())
/// ```
#[derive(Clone, Default)]
pub struct Trace {
    log: Option<Arc<SpanLog>>,
}

/// The time line of a rank that has none.
pub(crate) static OFF: Trace = Trace { log: None };

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_on() {
            true => write!(f, "Trace({} dropped)", self.dropped()),
            false => f.write_str("Trace(off)"),
        }
    }
}

impl Trace {
    /// A time line of at most so many spans.
    pub(crate) fn new(limit: usize) -> Trace {
        Trace { log: Some(Arc::new(SpanLog::new(limit))) }
    }

    /// What there is of it; `None` where it was not begun.
    pub(crate) fn log(&self) -> Option<&Arc<SpanLog>> {
        self.log.as_ref()
    }

    /// Whether it was begun.
    pub fn is_on(&self) -> bool {
        self.log.is_some()
    }

    /// Runs `launch`, which puts one or more kernels into `stream`, and keeps when they began and ended there.
    ///
    /// Does not wait for the device. The first kernel on an asynchronous device that no exchange is bound on yet makes
    /// events, and waits for a stream of its own. A device may be 1024 kernels behind; further ones are
    /// [dropped](Trace::dropped).
    ///
    /// # Errors
    /// That of `launch`, passed on.
    pub fn kernel<D: Device, R, E>(
        &self,
        name: &'static str,
        device: &D,
        stream: &D::Stream,
        launch: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        match &self.log {
            Some(log) => log.kernel(name, device, stream, launch),
            None => launch(),
        }
    }

    /// Runs `wait`, and keeps for how long it blocked the host.
    pub fn waiting<R>(&self, name: &'static str, wait: impl FnOnce() -> R) -> R {
        match &self.log {
            Some(log) => log.wait(name, None, wait, |_| false),
            None => wait(),
        }
    }

    /// All spans so far, in the order in which they began. Waits for work that is still in streams.
    pub fn spans(&self) -> Vec<Span> {
        let Some(log) = &self.log else { return Vec::new() };
        let (rows, kept) = log.collect();
        let spans = kept.iter().map(|kept| Span {
            row: rows[kept.label.row as usize].clone(),
            phase: kept.label.phase,
            name: kept.label.name,
            exchange: kept.label.exchange,
            begin: Duration::from_nanos(clock::wall(kept.begin)),
            end: Duration::from_nanos(clock::wall(kept.end)),
            bytes: kept.label.bytes,
            failed: kept.failed,
        });
        spans.collect()
    }

    /// How many spans there was no room for, or could not be timed.
    pub fn dropped(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.dropped())
    }
}
