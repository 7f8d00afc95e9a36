//! Messages of any size: sparse exchanges, and exchanges along a line of ranks.

use std::sync::Mutex;

use haloport::SparseExchange as CoreSparse;
use haloport::comm::TransportError;
use haloport::line::{Line, LineExchange as CoreLine, Payloads};
use haloport::sparse::SparseError;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyRange, PyTuple};

use crate::arguments::type_name;
use crate::comm::Communicator;
use crate::error::{InFlightError, IntoException, OrRaise};
use crate::payload::{Receiver, bytes_of};
use crate::process::{self, Held};
use crate::steps::{Awaited, Steps};

/// Messages of any size between any ranks, in rounds: a destination need not know its sources in advance. Collective.
///
/// ``exchange(messages, *, into=None, stream=None)`` is one round: it sends messages, and returns those that have come. It blocks until the round is
/// complete. All ranks go through the same number of rounds.
///
/// Parameters
/// ----------
/// sources, destinations : iterable of int, optional
///     The ranks from which messages come to this rank and to which it sends, if they are fixed; then no rank waits for distant
///     ones. If one rank fixes them, all do.
/// comm : mpi4py.MPI.Comm, int, Communicator or None
///     The ranks; see `Communicator`.
///
/// Parameters of a call
/// --------------------
/// messages : iterable of (int, bytes-like or array)
///     The destination of each message, which may be this rank, and the bytes; or a mapping of destinations to messages.
///     Arrays may be on devices, and are contiguous.
/// into : callable, optional
///     ``into(source, nbytes)`` returns an array of that many bytes, on any device, or a writable buffer; the message is put
///     there. It is called for each message that has come, when the round ends. If it fails, the messages of the round are
///     lost.
/// stream : stream-like, optional
///     Arrays on devices are read and written in this stream, as for a plan. The call blocks until that is done.
///
/// Returns
/// -------
/// list of (int, bytes)
///     The source of each message, ascending, and the bytes, or what `into` returned; messages of one source are in order.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct SparseExchange {
    comm: Communicator,
    rounds: Mutex<Held<CoreSparse>>,
}

/// Payloads that pass along a line of ranks, each of which owns consecutive items, such as rows of a sorted table.
/// Collective.
///
/// ``line(*, left=None, right=None, into=None, stream=None)`` is one round, in which all ranks take part: it passes payloads to
/// the two ranks beside this one, and returns those that come from them. It blocks until the round is complete.
///
/// Parameters
/// ----------
/// items : int or range
///     The number of items of all ranks, which then have equal shares; or those that this rank owns: consecutive numbers,
///     which continue those of the rank before.
/// comm : mpi4py.MPI.Comm, int, Communicator or None
///     The ranks; see `Communicator`.
///
/// Parameters of a call
/// --------------------
/// left, right : bytes-like or array, optional
///     The payload for the rank before this one, and for the one after it. At the ends of the line it is dropped. Arrays may be
///     on devices, and are contiguous.
/// into, stream
///     As for a `SparseExchange`; the source is the rank that the payload comes from.
///
/// Returns
/// -------
/// left, right : bytes or None
///     The payload from the rank before this one, and from the one after it, or what `into` returned.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct LineExchange {
    comm: Communicator,
    line: Line,
    rounds: Mutex<Held<CoreLine>>,
}

/// A round of messages that was started. ``await`` returns what has come, and lets other tasks run meanwhile.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct PendingMessages {
    exchange: Exchange,
    receiver: Receiver,
    ended: Mutex<bool>,
}

/// The exchange of a round.
enum Exchange {
    Sparse(Py<SparseExchange>),
    Line(Py<LineExchange>),
}

#[pymethods]
impl SparseExchange {
    #[new]
    #[pyo3(signature = (*, sources=None, destinations=None, comm=None))]
    fn py_new(
        py: Python<'_>,
        sources: Option<&Bound<'_, PyAny>>,
        destinations: Option<&Bound<'_, PyAny>>,
        comm: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<SparseExchange> {
        let comm = Communicator::of(comm, py)?;
        let checked = match (sources, destinations) {
            (None, None) => Ok(None),
            (Some(sources), Some(destinations)) => ranks(sources, "sources")
                .and_then(|sources| Ok(Some((sources, ranks(destinations, "destinations")?)))),
            _ => Err(PyValueError::new_err(
                "expected both `sources` and `destinations`, found one; fix both or none",
            )),
        };
        let neighbours = comm.agree(py, checked)?;
        let core = comm.get()?;
        let made = py.detach(|| match &neighbours {
            None => CoreSparse::new(core),
            Some((sources, destinations)) => CoreSparse::between(core, sources, destinations),
        });
        let rounds = Mutex::new(Held::new(made.or_raise()?));
        Ok(SparseExchange { comm, rounds })
    }

    /// The ranks.
    #[getter]
    fn comm(&self) -> Communicator {
        self.comm.clone()
    }

    // Python shows no text of a slot: that of the type describes calls.
    #[pyo3(signature = (messages, *, into=None, stream=None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        messages: &Bound<'py, PyAny>,
        into: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let receiver = Receiver::new(into, stream)?;
        self.begin(py, messages, stream)?;
        self.end(py, &receiver, &mut false)
    }

    /// Sends messages, and returns without waiting for others.
    ///
    /// Parameters
    /// ----------
    /// messages, into, stream
    ///     As for a call.
    ///
    /// Returns
    /// -------
    /// PendingMessages
    ///     Finish it, or await it.
    #[pyo3(signature = (messages, *, into=None, stream=None))]
    fn start(
        slf: &Bound<'_, Self>,
        messages: &Bound<'_, PyAny>,
        into: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PendingMessages> {
        let receiver = Receiver::new(into, stream)?;
        slf.get().begin(slf.py(), messages, stream)?;
        Ok(PendingMessages::new(Exchange::Sparse(slf.clone().unbind()), receiver))
    }

    fn __repr__(&self) -> PyResult<String> {
        let comm = self.comm.get()?;
        Ok(format!("<haloport.SparseExchange: rank {} of {}>", comm.rank(), comm.size()))
    }
}

impl SparseExchange {
    fn begin(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        process::check()?;
        let messages = messages_of(messages, |message| bytes_of(message, stream, &self.comm))?;
        with_rounds(&self.rounds, py, |rounds| rounds.begin_with(messages))
    }

    /// Sets `goes_on` if the round does, as this thread may not call MPI.
    fn end<'py>(
        &self,
        py: Python<'py>,
        receiver: &Receiver,
        goes_on: &mut bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let came = with_rounds(&self.rounds, py, |rounds| noting(rounds.end(), goes_on))?;
        let list = came.into_iter().map(|(source, message)| {
            let message = receiver.receive(py, &self.comm, source, &message)?;
            PyTuple::new(py, [source.into_pyobject(py)?.into_any(), message])
        });
        Ok(PyList::new(py, list.collect::<PyResult<Vec<_>>>()?)?.into_any())
    }
}

#[pymethods]
impl LineExchange {
    #[new]
    #[pyo3(signature = (items, *, comm=None))]
    fn py_new(
        py: Python<'_>,
        items: &Bound<'_, PyAny>,
        comm: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<LineExchange> {
        let comm = Communicator::of(comm, py)?;
        let items = comm.agree(py, Items::of(items))?;
        let core = comm.get()?;
        let made = py.detach(|| {
            let line = match items {
                Items::Shared(count) => Line::even(core, count),
                Items::Mine(begin, end) => Line::new(core, begin..end),
            }?;
            Ok((CoreLine::new(&line)?, line))
        });
        let (exchange, line) = made.map_err(|error: SparseError| error.exception())?;
        Ok(LineExchange { comm, line, rounds: Mutex::new(Held::new(exchange)) })
    }

    /// The ranks.
    #[getter]
    fn comm(&self) -> Communicator {
        self.comm.clone()
    }

    /// The items that this rank owns.
    #[getter]
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyRange>> {
        let mine = self.line.mine();
        PyRange::new(py, mine.start as isize, mine.end as isize)
    }

    /// The rank before this one on the line, or None. It may own no items.
    #[getter]
    fn left(&self) -> Option<usize> {
        self.line.left()
    }

    /// The rank after this one on the line, or None. It may own no items.
    #[getter]
    fn right(&self) -> Option<usize> {
        self.line.right()
    }

    // As above: the text of the type describes calls.
    #[pyo3(signature = (*, left=None, right=None, into=None, stream=None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        left: Option<&Bound<'py, PyAny>>,
        right: Option<&Bound<'py, PyAny>>,
        into: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let receiver = Receiver::new(into, stream)?;
        self.begin(py, [left, right], stream)?;
        self.end(py, &receiver, &mut false)
    }

    /// As a call, without waiting for others.
    ///
    /// Returns
    /// -------
    /// PendingMessages
    ///     Finish it, or await it.
    #[pyo3(signature = (*, left=None, right=None, into=None, stream=None))]
    fn start(
        slf: &Bound<'_, Self>,
        left: Option<&Bound<'_, PyAny>>,
        right: Option<&Bound<'_, PyAny>>,
        into: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PendingMessages> {
        let receiver = Receiver::new(into, stream)?;
        slf.get().begin(slf.py(), [left, right], stream)?;
        Ok(PendingMessages::new(Exchange::Line(slf.clone().unbind()), receiver))
    }

    fn __repr__(&self) -> String {
        format!("<haloport.LineExchange: items {:?}>", self.line.mine())
    }
}

impl LineExchange {
    fn begin(
        &self,
        py: Python<'_>,
        [left, right]: [Option<&Bound<'_, PyAny>>; 2],
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        process::check()?;
        let payload = |side: Option<&Bound<'_, PyAny>>| {
            side.map(|payload| bytes_of(payload, stream, &self.comm)).transpose()
        };
        let pass = Payloads { left: payload(left)?, right: payload(right)? };
        with_rounds(&self.rounds, py, |rounds| rounds.begin(pass))
    }

    /// Sets `goes_on` if the round does, as this thread may not call MPI.
    fn end<'py>(
        &self,
        py: Python<'py>,
        receiver: &Receiver,
        goes_on: &mut bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let came = with_rounds(&self.rounds, py, |rounds| noting(rounds.end(), goes_on));
        let Payloads { left, right } = came?;
        let side = |payload: Option<Vec<u8>>, source: Option<usize>| match payload.zip(source) {
            Some((payload, source)) => receiver.receive(py, &self.comm, source, &payload),
            None => Ok(py.None().into_bound(py)),
        };
        Ok(PyTuple::new(py, [side(left, self.line.left())?, side(right, self.line.right())?])?.into_any())
    }
}

impl PendingMessages {
    fn new(exchange: Exchange, receiver: Receiver) -> PendingMessages {
        PendingMessages { exchange, receiver, ended: Mutex::new(false) }
    }
}

#[pymethods]
impl PendingMessages {
    /// Blocks until the round is complete, and returns what a call of the exchange returns.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        process::check()?;
        let has_ended = std::mem::replace(&mut *self.ended.lock().unwrap_or_else(|it| it.into_inner()), true);
        if has_ended {
            return Err(InFlightError::new_err(
                "the round has ended, and its messages were returned; start another one",
            ));
        }
        // Another thread may be in a call of the exchange, so that this one does not get to the round.
        let mut goes_on = true;
        let came = match &self.exchange {
            Exchange::Sparse(exchange) => exchange.get().end(py, &self.receiver, &mut goes_on),
            Exchange::Line(exchange) => exchange.get().end(py, &self.receiver, &mut goes_on),
        };
        *self.ended.lock().unwrap_or_else(|it| it.into_inner()) = !goes_on;
        came
    }

    /// Makes progress, and returns whether `finish` would return without waiting. Does not block. Raises `ExchangeError` on a
    /// thread that may not call MPI.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        process::check()?;
        if *self.ended.lock().unwrap_or_else(|it| it.into_inner()) {
            return Ok(true);
        }
        // Another thread may be at it.
        py.detach(|| match &self.exchange {
            Exchange::Sparse(exchange) => exchange.get().rounds.try_lock().map_or(Ok(false), |rounds| {
                let rounds = rounds.get()?;
                rounds.comm().check_thread().or_raise()?;
                Ok(rounds.is_ready())
            }),
            Exchange::Line(exchange) => exchange.get().rounds.try_lock().map_or(Ok(false), |rounds| {
                let rounds = rounds.get()?;
                rounds.line().comm().check_thread().or_raise()?;
                Ok(rounds.is_ready())
            }),
        })
    }

    fn __await__(slf: Bound<'_, Self>) -> Steps {
        Steps::new(slf.unbind())
    }
}

impl Awaited for Py<PendingMessages> {
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        self.get().is_ready(py)
    }

    fn finish(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.get().finish(py)?.unbind())
    }
}

/// The items of a line.
#[derive(Debug, Clone, Copy)]
enum Items {
    Shared(u64),
    Mine(u64, u64),
}

impl Items {
    fn of(items: &Bound<'_, PyAny>) -> PyResult<Items> {
        if let Ok(count) = items.extract::<u64>() {
            return Ok(Items::Shared(count));
        }
        let Ok(range) = items.cast::<PyRange>() else {
            return Err(PyTypeError::new_err(format!(
                "items: expected a number or a range, found {}",
                type_name(items)
            )));
        };
        let member = |name: &str| range.getattr(name)?.extract::<i64>();
        let (begin, end, step) = (member("start")?, member("stop")?, member("step")?);
        match (u64::try_from(begin), u64::try_from(end)) {
            (Ok(begin), Ok(end)) if begin <= end && step == 1 => Ok(Items::Mine(begin, end)),
            _ => Err(PyValueError::new_err(format!(
                "items: expected consecutive numbers from 0 on, found {items}"
            ))),
        }
    }
}

/// Calls the exchange, detached from Python.
fn with_rounds<E: Send, T: Send>(
    rounds: &Mutex<Held<E>>,
    py: Python<'_>,
    call: impl FnOnce(&mut E) -> Result<T, SparseError> + Send,
) -> PyResult<T> {
    let called = py.detach(|| {
        let Ok(mut rounds) = rounds.try_lock() else { return Ok(None) };
        Ok::<_, PyErr>(Some(call(rounds.get_mut()?)))
    });
    match called? {
        Some(result) => result.or_raise(),
        None => {
            Err(InFlightError::new_err("the exchange is in use by another thread; make one for each thread"))
        }
    }
}

/// Notes whether a round that was to end goes on.
fn noting<T>(ended: Result<T, SparseError>, goes_on: &mut bool) -> Result<T, SparseError> {
    *goes_on = matches!(&ended, Err(SparseError::Transport(TransportError::WrongThread { .. })));
    ended
}

fn ranks(ranks: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<usize>> {
    let list = ranks.try_iter().and_then(|ranks| ranks.map(|rank| rank?.extract()).collect());
    list.map_err(|_| {
        PyTypeError::new_err(format!("{name}: expected numbers of ranks, found {}", type_name(ranks)))
    })
}

/// Pairs of a destination and a message, whose bytes `bytes_of` gives.
fn messages_of(
    messages: &Bound<'_, PyAny>,
    bytes_of: impl Fn(&Bound<'_, PyAny>) -> PyResult<Vec<u8>>,
) -> PyResult<Vec<(usize, Vec<u8>)>> {
    let wrong = || PyTypeError::new_err("messages: expected pairs of a rank and its message");
    let pairs = match messages.hasattr("items")? {
        true => messages.call_method0("items")?,
        false => messages.clone(),
    };
    let pair = |pair: PyResult<Bound<'_, PyAny>>| {
        let (rank, message): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract().map_err(|_| wrong())?;
        Ok((rank.extract().map_err(|_| wrong())?, bytes_of(&message)?))
    };
    pairs.try_iter().map_err(|_| wrong())?.map(pair).collect()
}
