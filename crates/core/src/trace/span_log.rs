//! The spans of a rank while the program runs, and the clocks of its devices.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::rows::{Row, Rows};
use super::span_list::{Budget, SpanLabel, SpanList, StoredSpan};
use super::timer::{Anchor, PendingTimes, Timer};
use super::{Phase, now};
use crate::device::{Device, DeviceError};
use crate::lock::lock;
use crate::log;

/// The most kernels in a device's streams whose times have not been read yet.
const KERNELS: usize = 1024;

/// The spans of a rank, its rows, and the timers that add spans.
pub(crate) struct SpanLog {
    budget: Arc<Budget>,
    rows: Mutex<Rows>,
    lists: Mutex<Vec<Arc<SpanList>>>,
    unread: Mutex<Vec<Arc<dyn PendingTimes>>>,
    /// A [`DeviceClock`] for each device.
    clocks: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    exchanges: AtomicU32,
    host: Arc<SpanList>,
    host_row: u32,
}

/// Brings a device's times to the time axis, and times its kernels.
struct DeviceClock<D: Device> {
    device: D,
    /// `None` on a synchronous device.
    anchor: Option<Arc<Anchor<D>>>,
    kernels: Arc<Timer<D>>,
}

impl SpanLog {
    /// Makes a log of at most `limit` spans.
    pub(super) fn new(limit: usize) -> SpanLog {
        let budget = Arc::new(Budget::new(limit));
        let host = Arc::new(SpanList::new(&budget));
        let mut rows = Rows::default();
        SpanLog {
            budget,
            host_row: rows.of(Row::Host),
            rows: Mutex::new(rows),
            lists: Mutex::new(vec![Arc::clone(&host)]),
            unread: Mutex::default(),
            clocks: Mutex::default(),
            exchanges: AtomicU32::new(0),
            host,
        }
    }

    /// See [`Trace::kernel`](super::Trace::kernel).
    pub(super) fn kernel<D: Device, R, E>(
        &self,
        name: &'static str,
        device: &D,
        stream: &D::Stream,
        launch: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        match self.clock(device) {
            Ok(clock) => {
                let row = self.row_of_stream(device, stream);
                let label = SpanLabel { phase: Phase::Kernel, name, row, exchange: None, bytes: 0 };
                clock.kernels.time(label, device, stream, launch)
            }
            Err(error) => {
                log::warning(format_args!("a kernel is missing in the time line: {error}"));
                self.budget.drop_one();
                launch()
            }
        }
    }

    /// Runs `wait`, which blocks the host, and stores its span, maybe as one of an exchange. `failed` returns whether
    /// the result is an error.
    pub(crate) fn wait<R>(
        &self,
        name: &'static str,
        exchange: Option<u32>,
        wait: impl FnOnce() -> R,
        failed: impl FnOnce(&R) -> bool,
    ) -> R {
        let begin = now();
        let result = wait();
        let label = SpanLabel { phase: Phase::Waiting, name, row: self.host_row, exchange, bytes: 0 };
        self.host.push(label, begin, now(), failed(&result));
        result
    }

    /// The number of a new exchange.
    pub(crate) fn next_exchange(&self) -> u32 {
        self.exchanges.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a timer for one writer. Up to `pairs` pieces of work may have times that have not been read yet.
    pub(crate) fn timer<D: Device>(&self, device: &D, pairs: usize) -> Result<Arc<Timer<D>>, DeviceError> {
        let anchor = self.clock(device)?.anchor.clone();
        self.timer_by(anchor.as_ref(), pairs)
    }

    /// The number of a neighbour's row.
    pub(crate) fn row(&self, row: Row) -> u32 {
        lock(&self.rows).of(row)
    }

    /// The number of a stream's row. The first call prepares the stream for events with timing.
    pub(crate) fn row_of_stream<D: Device>(&self, device: &D, stream: &D::Stream) -> u32 {
        lock(&self.rows).of_stream(device, stream, || prepare(device, stream))
    }

    /// The number of the row of a new stream of an exchange. Prepares the stream for events with timing.
    pub(crate) fn row_of_own_stream<D: Device>(&self, device: &D, stream: &D::Stream, purpose: &str) -> u32 {
        prepare(device, stream);
        lock(&self.rows).of_own_stream(device, stream, purpose)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.budget.dropped()
    }

    /// Returns the rows and all spans in the order of their beginnings. Waits for work that is still in streams.
    pub(super) fn collect(&self) -> (Vec<Row>, Vec<StoredSpan>) {
        let unread = lock(&self.unread).clone();
        unread.iter().for_each(|timer| timer.read_all());
        let mut spans = Vec::new();
        lock(&self.lists).iter().for_each(|list| list.copy_to(&mut spans));
        spans.sort_by_key(|span| (span.begin, std::cmp::Reverse(span.end)));
        (lock(&self.rows).all(), spans)
    }

    fn timer_by<D: Device>(
        &self,
        anchor: Option<&Arc<Anchor<D>>>,
        pairs: usize,
    ) -> Result<Arc<Timer<D>>, DeviceError> {
        let list = Arc::new(SpanList::new(&self.budget));
        let timer = Arc::new(Timer::new(Arc::clone(&list), anchor, pairs)?);
        lock(&self.lists).push(list);
        lock(&self.unread).push(Arc::clone(&timer) as Arc<dyn PendingTimes>);
        Ok(timer)
    }

    /// Returns the clock of a device, which the first call makes.
    fn clock<D: Device>(&self, device: &D) -> Result<Arc<DeviceClock<D>>, DeviceError> {
        let mut clocks = lock(&self.clocks);
        let known = clocks.iter().find_map(|clock| {
            Arc::clone(clock)
                .downcast::<DeviceClock<D>>()
                .ok()
                .filter(|clock| clock.device.id() == device.id())
        });
        if let Some(clock) = known {
            return Ok(clock);
        }
        let anchor = if device.info().asynchronous { Some(Arc::new(Anchor::new(device)?)) } else { None };
        let kernels = self.timer_by(anchor.as_ref(), KERNELS)?;
        let clock = Arc::new(DeviceClock { device: device.clone(), anchor, kernels });
        clocks.push(Arc::clone(&clock) as Arc<dyn Any + Send + Sync>);
        Ok(clock)
    }
}

impl fmt::Debug for SpanLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpanLog({} dropped)", self.dropped())
    }
}

/// Records an event with timing in a stream, for which the driver may allocate more than the event.
fn prepare<D: Device>(device: &D, stream: &D::Stream) {
    // If it fails, so does the first timing.
    let _ = device.create_event(true).and_then(|event| device.record(&event, stream));
}
