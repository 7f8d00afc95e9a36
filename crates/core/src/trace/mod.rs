//! The time line of a rank: when kernels ran, when halos were packed, travelled and were unpacked, and when the host
//! waited.
//!
//! A rank begins it with [`Communicator::begin_trace`](crate::Communicator::begin_trace). It belongs to the
//! communicator, so a library that binds exchanges there takes part without further calls. Exchanges that are bound
//! from then on write to it, and so do collective calls that wait; a program adds its kernels by [`Trace::kernel`],
//! which only runs them if no time line was begun. [`Trace::write`] writes the time lines of all ranks to one file,
//! which Perfetto (<https://ui.perfetto.dev>) and Chrome show.
//!
//! The phases:
//! - **kernel**, **packing**, **unpacking**: from the beginning of the work on the device to its end, in the row of the
//!   stream. The times come from events, or on synchronous devices from the host's clock. A copy straight from a
//!   neighbour's field counts as unpacking;
//! - **wire**: from the post of a message until the rank finds it complete, in a row for each neighbour and direction.
//!   An incoming message counts from the time when this rank has sent its own, since no work waits for it before
//!   that. A field that is lent to a neighbour counts until it is returned; a message in shared memory is complete at
//!   once for its sender;
//! - **waiting**: as long as a call blocks the host, in the row of the host. On synchronous devices the host does the
//!   copies of an exchange itself, also while it waits.
//!
//! Read in this order: this file; `span_log`, the spans of a rank while the program runs; `span_list` and `rows`;
//! `clock`, the time axis, and `timer`, which brings a device's times to it; `file`, the file format.
//!
//! # One time axis for all ranks
//! Times of a rank come from its machine's monotonic clock, at one moment of which the wall clock was read. Ranks of
//! one process share both clocks; processes of one machine differ by about a microsecond, and by corrections of the
//! wall clock between their starts. Between machines, rows are as far apart as the wall clocks: milliseconds with NTP.
//! Lengths of spans, and times hidden behind kernels of the same rank, do not depend on it.

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

/// A usual number of spans for [`Communicator::begin_trace`](crate::Communicator::begin_trace): 64 MB at most.
pub const DEFAULT_SPANS: usize = 1_000_000;

/// The kind of activity in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// A kernel of the program.
    Kernel,
    /// Packing of cells.
    Packing,
    /// A message or a window on its way to a neighbour or from one.
    Wire,
    /// Filling of halos.
    Unpacking,
    /// A call that blocks the host.
    Waiting,
}

impl Phase {
    /// All phases.
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

/// One activity with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its row in the time line.
    pub row: Row,
    /// The kind of activity.
    pub phase: Phase,
    /// The name of the kernel, of the copy or of the call.
    pub name: &'static str,
    /// The number of the exchange, from 0 in the order in which the rank bound them.
    pub exchange: Option<u32>,
    /// The beginning, since the UNIX epoch.
    pub begin: Duration,
    /// The end, not before the beginning.
    pub end: Duration,
    /// The bytes that it moved; 0 if none, or if the number is not known.
    pub bytes: u64,
    /// Whether it ended by a failure.
    pub failed: bool,
}

/// The time line of one rank. A clone is another handle to the same time line.
///
/// ```
/// use haloport::cpu::CpuDevice;
/// use haloport::device::Device;
/// use haloport::trace::DEFAULT_SPANS;
/// use haloport::{Field, Grid, Halo, Pattern, Split, run_ranks};
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
///     exchange.run()?;
///     trace.kernel("step", &device, &stream, || {
///         exchange.fields_mut().view_mut(0).map(|mut cells| cells.fill_with(|_, _| 1.0))
///     })?;
///     assert!(trace.spans().iter().any(|span| span.name == "step"));
///
///     let mut file = Vec::new(); // filled on rank 0
///     trace.write(&comm, &mut file)?;
///     Ok(())
/// })?;
/// # Ok::<(), haloport::comm::RanksError>(())
/// ```
#[derive(Clone, Default)]
pub struct Trace {
    log: Option<Arc<SpanLog>>,
}

/// A time line that stores nothing, for a rank that has not begun one.
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
    /// Makes a time line of at most `limit` spans.
    pub(crate) fn new(limit: usize) -> Trace {
        Trace { log: Some(Arc::new(SpanLog::new(limit))) }
    }

    /// Its spans; `None` if it was not begun.
    pub(crate) fn log(&self) -> Option<&Arc<SpanLog>> {
        self.log.as_ref()
    }

    /// Whether it was begun.
    pub fn is_on(&self) -> bool {
        self.log.is_some()
    }

    /// Runs `launch`, which puts one or more kernels into `stream`, and stores their span there.
    ///
    /// Does not wait for the device. The first kernel on an asynchronous device without a bound exchange makes events,
    /// and waits for a stream of its own. If more than 1024 kernels are in the device's streams, further ones are
    /// [dropped](Trace::dropped).
    ///
    /// # Errors
    /// The error of `launch`.
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

    /// Runs `wait`, which blocks the host, and stores its span.
    pub fn waiting<R>(&self, name: &'static str, wait: impl FnOnce() -> R) -> R {
        match &self.log {
            Some(log) => log.wait(name, None, wait, |_| false),
            None => wait(),
        }
    }

    /// Returns all spans so far, in the order of their beginnings. Waits for work that is still in streams.
    pub fn spans(&self) -> Vec<Span> {
        let Some(log) = &self.log else { return Vec::new() };
        let (rows, spans) = log.collect();
        let spans = spans.iter().map(|span| Span {
            row: rows[span.label.row as usize].clone(),
            phase: span.label.phase,
            name: span.label.name,
            exchange: span.label.exchange,
            begin: Duration::from_nanos(clock::wall(span.begin)),
            end: Duration::from_nanos(clock::wall(span.end)),
            bytes: span.label.bytes,
            failed: span.failed,
        });
        spans.collect()
    }

    /// The number of spans that were not stored, because there was no room or their times were not known.
    pub fn dropped(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.dropped())
    }
}
