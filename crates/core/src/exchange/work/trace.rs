//! The time line of an exchange. If the rank records none, each call merely checks for it.

use std::fmt;
use std::sync::Arc;

use super::streams::OwnStreams;
use crate::device::{Device, DeviceError, Stream as _};
use crate::trace::{Phase, Row, SpanLabel, SpanList, SpanLog, Timer, Trace, now};

/// The time line of the rank, and the number of an exchange there.
#[derive(Debug, Clone)]
pub(crate) struct ExchangeTrace {
    log: Arc<SpanLog>,
    number: u32,
}

/// Records the waits of the host for an exchange.
#[derive(Debug)]
pub(crate) struct HostWaits(Option<ExchangeTrace>);

/// Records the work of one device in an exchange.
pub(crate) struct PartTrace<D: Device>(Option<Traced<D>>);

struct Traced<D: Device> {
    exchange: ExchangeTrace,
    timer: Arc<Timer<D>>,
    /// The handles of the part's own streams, and their row.
    own: ([usize; 2], u32),
}

/// Records the spans in which a message or a window is under way, one in each exchange.
pub(crate) struct TransferTrace(Option<Box<Transfer>>);

/// A transfer to or from a neighbour.
struct Transfer {
    list: Arc<SpanList>,
    label: SpanLabel,
    /// Whether it belongs to an exchange in flight and has not ended.
    is_open: bool,
    since: Option<u64>,
}

/// The number of exchanges for which there are events. A device is at most one exchange behind the host; the times of
/// earlier ones are read by then.
const EXCHANGES_BEHIND: usize = 8;

impl ExchangeTrace {
    /// Numbers one more exchange, if the rank records a time line.
    pub(crate) fn next(trace: &Trace) -> Option<ExchangeTrace> {
        let log = Arc::clone(trace.log()?);
        Some(ExchangeTrace { number: log.next_exchange(), log })
    }

    fn wait<T, E>(&self, name: &'static str, wait: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.log.wait(name, Some(self.number), wait, Result::is_err)
    }

    fn label(&self, phase: Phase, name: &'static str, row: u32, bytes: usize) -> SpanLabel {
        SpanLabel { phase, name, row, exchange: Some(self.number), bytes: bytes as u64 }
    }
}

impl HostWaits {
    pub(crate) fn new(exchange: Option<ExchangeTrace>) -> HostWaits {
        HostWaits(exchange)
    }

    pub(crate) fn are_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// Runs `wait` and records it as a wait in the call `name`, unless it `is_over` already.
    pub(crate) fn during<T, E>(
        &self,
        name: &'static str,
        is_over: impl FnOnce() -> bool,
        wait: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        match &self.0 {
            Some(exchange) if !is_over() => exchange.wait(name, wait),
            _ => wait(),
        }
    }
}

impl<D: Device> PartTrace<D> {
    /// Creates the events for a part with these `streams` that puts at most `launches` lists into streams in one
    /// exchange.
    pub(crate) fn new(
        exchange: Option<&ExchangeTrace>,
        device: &D,
        streams: &OwnStreams<D>,
        launches: usize,
    ) -> Result<PartTrace<D>, DeviceError> {
        let Some(exchange) = exchange else { return Ok(PartTrace(None)) };
        let timer = exchange.log.timer(device, EXCHANGES_BEHIND * launches)?;
        let name = format!("exchange {}", exchange.number);
        let row = exchange.log.row_of_own_stream(device, streams.now(), &name);
        if let Some(moves) = &streams.moves {
            exchange.log.row_of_own_stream(device, &moves.stream, &format!("{name}, moves"));
        }
        Ok(PartTrace(Some(Traced { exchange: exchange.clone(), timer, own: (streams.handles(), row) })))
    }

    /// Runs `work`, which puts work into `stream`, and records its span. Records nothing if `bytes` is 0.
    #[inline]
    pub(crate) fn time<R, E>(
        &self,
        phase: Phase,
        name: &'static str,
        bytes: usize,
        device: &D,
        stream: &D::Stream,
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        match &self.0 {
            Some(traced) if bytes > 0 => {
                traced.timer.time(traced.label(phase, name, bytes, device, stream), device, stream, work)
            }
            _ => work(),
        }
    }

    /// Creates the row of `stream` and prepares the stream for events with timing. To be done before a gate in it is
    /// closed.
    pub(crate) fn prepare_row(&self, device: &D, stream: &D::Stream) {
        if let Some(traced) = &self.0 {
            traced.exchange.log.row_of_stream(device, stream);
        }
    }

    /// Runs `wait` and records it as a wait in the call `name`.
    pub(crate) fn wait<T, E>(&self, name: &'static str, wait: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        match &self.0 {
            Some(traced) => traced.exchange.wait(name, wait),
            None => wait(),
        }
    }

    /// Creates the record of a transfer of `bytes` to or from the neighbour of `row`.
    pub(crate) fn transfer(&self, row: Row, name: &'static str, bytes: usize) -> TransferTrace {
        TransferTrace(self.0.as_ref().map(|traced| {
            let label = traced.exchange.label(Phase::Wire, name, traced.exchange.log.row(row), bytes);
            Box::new(Transfer { list: Arc::clone(traced.timer.list()), label, is_open: false, since: None })
        }))
    }
}

impl<D: Device> Traced<D> {
    /// The label of work that is put into `stream`.
    #[cold]
    fn label(
        &self,
        phase: Phase,
        name: &'static str,
        bytes: usize,
        device: &D,
        stream: &D::Stream,
    ) -> SpanLabel {
        let (own, row) = self.own;
        let is_own = own.contains(&stream.handle());
        let row = if is_own { row } else { self.exchange.log.row_of_stream(device, stream) };
        self.exchange.label(phase, name, row, bytes)
    }
}

impl TransferTrace {
    pub(crate) fn open(&mut self) {
        if let Some(transfer) = &mut self.0 {
            (transfer.is_open, transfer.since) = (true, None);
        }
    }

    /// Begins the span now, unless it has begun or ended already.
    pub(crate) fn begin(&mut self) {
        if let Some(transfer) = self.0.as_mut().filter(|transfer| transfer.is_open) {
            transfer.since.get_or_insert_with(now);
        }
    }

    pub(crate) fn end(&mut self) {
        if let Some(transfer) = &mut self.0 {
            transfer.close(false);
        }
    }

    /// Ends the span as failed, if it has begun.
    pub(crate) fn fail(&mut self) {
        if let Some(transfer) = self.0.as_mut().filter(|transfer| transfer.since.is_some()) {
            transfer.close(true);
        }
    }
}

impl Transfer {
    fn close(&mut self, failed: bool) {
        if self.is_open {
            let end = now();
            self.list.push(self.label, self.since.unwrap_or(end), end, failed);
            self.is_open = false;
        }
    }
}

impl fmt::Debug for TransferTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.as_ref().map(|transfer| (transfer.is_open, transfer.since));
        write!(f, "Wire({since:?})")
    }
}
