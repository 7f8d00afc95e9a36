//! What an exchange tells the time line of its rank. Where there is none, each call looks whether there is one, and that is
//! all.

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

/// Waits of the host for an exchange.
#[derive(Debug)]
pub(crate) struct Waits(Option<ExchangeTrace>);

/// The work of one device in an exchange.
pub(crate) struct PartTrace<D: Device>(Option<Traced<D>>);

struct Traced<D: Device> {
    exchange: ExchangeTrace,
    timer: Arc<Timer<D>>,
    /// The streams of the part, and their row.
    own: ([usize; 2], u32),
}

/// A message or a window that is under way, again and again.
pub(crate) struct Wire(Option<Box<Way>>);

/// To or from a neighbour.
struct Way {
    list: Arc<SpanList>,
    what: SpanLabel,
    /// Whether it is of an exchange that is in flight, and has not come to its end.
    is_open: bool,
    since: Option<u64>,
}

/// How many exchanges a device may be behind the host: it is one at most, and the times of older ones are read.
const EXCHANGES: usize = 8;

impl ExchangeTrace {
    /// For one more exchange, if the time line was begun.
    pub(crate) fn next(trace: &Trace) -> Option<ExchangeTrace> {
        let log = Arc::clone(trace.log()?);
        Some(ExchangeTrace { number: log.next_exchange(), log })
    }

    fn what(&self, phase: Phase, name: &'static str, row: u32, bytes: usize) -> SpanLabel {
        SpanLabel { phase, name, row, exchange: Some(self.number), bytes: bytes as u64 }
    }
}

impl Waits {
    pub(crate) fn new(exchange: Option<ExchangeTrace>) -> Waits {
        Waits(exchange)
    }

    /// Runs `wait`, in the call of this name, which blocks the host unless it `is_over`.
    pub(crate) fn during<T, E>(
        &self,
        name: &'static str,
        is_over: impl FnOnce() -> bool,
        wait: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        match &self.0 {
            Some(ExchangeTrace { log, number }) if !is_over() => {
                log.wait(name, Some(*number), wait, Result::is_err)
            }
            _ => wait(),
        }
    }
}

impl<D: Device> PartTrace<D> {
    /// For a part with `streams` of its own, which puts so many pieces of work into streams in one exchange. Makes their
    /// events.
    pub(crate) fn new(
        exchange: Option<&ExchangeTrace>,
        device: &D,
        streams: &OwnStreams<D>,
        pieces: usize,
    ) -> Result<PartTrace<D>, DeviceError> {
        let Some(exchange) = exchange else { return Ok(PartTrace(None)) };
        let timer = exchange.log.timer(device, EXCHANGES * pieces)?;
        let name = format!("exchange {}", exchange.number);
        let row = exchange.log.row_of_own_stream(device, streams.now(), &name);
        Ok(PartTrace(Some(Traced { exchange: exchange.clone(), timer, own: (streams.handles(), row) })))
    }

    /// Runs `work`, which puts what moves so many bytes into `stream`, and keeps when that is done. Nothing moves no bytes.
    pub(crate) fn time<R, E>(
        &self,
        (phase, name, bytes): (Phase, &'static str, usize),
        device: &D,
        stream: &D::Stream,
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        match &self.0 {
            Some(traced) if bytes > 0 => {
                let (own, row) = traced.own;
                let is_own = own.contains(&stream.handle());
                let row = if is_own { row } else { traced.exchange.log.row_of_stream(device, stream) };
                let what = traced.exchange.what(phase, name, row, bytes);
                traced.timer.time(what, device, stream, work)
            }
            _ => work(),
        }
    }

    /// Makes what it takes to time work in `stream`, where a gate is about to be closed.
    pub(crate) fn meet(&self, device: &D, stream: &D::Stream) {
        if let Some(traced) = &self.0 {
            traced.exchange.log.row_of_stream(device, stream);
        }
    }

    /// Runs `wait`, in the call of this name, which blocks the host.
    pub(crate) fn wait<T, E>(&self, name: &'static str, wait: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        match &self.0 {
            Some(Traced { exchange: ExchangeTrace { log, number }, .. }) => {
                log.wait(name, Some(*number), wait, Result::is_err)
            }
            None => wait(),
        }
    }

    /// For what so many bytes go to a neighbour by, or come from one.
    pub(crate) fn wire(&self, row: Row, name: &'static str, bytes: usize) -> Wire {
        Wire(self.0.as_ref().map(|traced| {
            let what = traced.exchange.what(Phase::Wire, name, traced.exchange.log.row(row), bytes);
            Box::new(Way { list: Arc::clone(traced.timer.list()), what, is_open: false, since: None })
        }))
    }
}

impl Wire {
    /// An exchange is started.
    pub(crate) fn open(&mut self) {
        if let Some(way) = &mut self.0 {
            (way.is_open, way.since) = (true, None);
        }
    }

    /// It is under way from now on, unless it has come to its end, or was under way.
    pub(crate) fn begin(&mut self) {
        if let Some(way) = self.0.as_mut().filter(|way| way.is_open) {
            way.since.get_or_insert_with(now);
        }
    }

    /// It has come to its end.
    pub(crate) fn end(&mut self) {
        if let Some(way) = &mut self.0 {
            way.close(false);
        }
    }

    /// It is given up, if it was under way.
    pub(crate) fn fail(&mut self) {
        if let Some(way) = self.0.as_mut().filter(|way| way.since.is_some()) {
            way.close(true);
        }
    }
}

impl Way {
    fn close(&mut self, failed: bool) {
        if self.is_open {
            let end = now();
            self.list.push(self.what, self.since.unwrap_or(end), end, failed);
            self.is_open = false;
        }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.as_ref().map(|way| (way.is_open, way.since));
        write!(f, "Wire({since:?})")
    }
}
