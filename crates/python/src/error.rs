//! The exceptions of the package, and how the errors of Haloport become exceptions.

use haloport::comm::{RanksError, TransportError};
use haloport::device::{DeviceError, SelectError};
use haloport::domain::GridError;
use haloport::exchange::{BindError, ExchangeError as CoreExchangeError};
use haloport::field::FieldError;
use haloport::interop::{InteropError, PythonException};
use haloport::pattern::PatternError;
use haloport::sparse::SparseError;
use pyo3::exceptions::{
    PyBufferError, PyMemoryError, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyErr, create_exception};

use crate::interrupt;

create_exception!(
    haloport,
    ExchangeError,
    PyRuntimeError,
    "A neighbour failed, the exchange was given up before, a thread may not call MPI, or MPI is missing."
);
create_exception!(
    haloport,
    InFlightError,
    PyRuntimeError,
    "The plan, or an array, takes part in an exchange that has not ended: finish that one first."
);
create_exception!(
    haloport,
    RefusedError,
    PyValueError,
    "The ranks disagree, or one of them has an invalid argument. Every rank gets the same text."
);
create_exception!(
    haloport,
    TimeLimitError,
    PyTimeoutError,
    "Other ranks did not answer within the time limit. `ranks` are those that are missing, as far as they are known."
);

/// An error of Haloport as an exception.
pub(crate) trait IntoException {
    fn exception(self) -> PyErr;
}

/// The results of Haloport's calls as those of Python's.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: IntoException> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(IntoException::exception)
    }
}

impl IntoException for InteropError {
    fn exception(self) -> PyErr {
        let text = self.to_string();
        match self.exception {
            PythonException::TypeError => PyTypeError::new_err(text),
            PythonException::BufferError => PyBufferError::new_err(text),
            PythonException::ValueError => PyValueError::new_err(text),
        }
    }
}

impl IntoException for FieldError {
    fn exception(self) -> PyErr {
        match self {
            FieldError::Array(error) => error.exception(),
            FieldError::Device(error) => error.exception(),
            FieldError::InFlight => InFlightError::new_err(self.to_string()),
            error => PyValueError::new_err(error.to_string()),
        }
    }
}

impl IntoException for DeviceError {
    fn exception(self) -> PyErr {
        let text = self.to_string();
        match self {
            DeviceError::OutOfMemory { .. } => PyMemoryError::new_err(text),
            DeviceError::InvalidArgument { .. } => PyValueError::new_err(text),
            _ => ExchangeError::new_err(text),
        }
    }
}

impl IntoException for SelectError {
    fn exception(self) -> PyErr {
        match self {
            SelectError::Device(error) => error.exception(),
            error => PyValueError::new_err(error.to_string()),
        }
    }
}

impl IntoException for RanksError {
    fn exception(self) -> PyErr {
        PyValueError::new_err(self.to_string())
    }
}

impl IntoException for TransportError {
    fn exception(self) -> PyErr {
        let text = self.to_string();
        match self {
            TransportError::TimeLimit { ranks, .. } => time_limit(text, &ranks),
            TransportError::Interrupted { .. } => interrupted(text),
            TransportError::OutOfStep { .. } => RefusedError::new_err(text),
            TransportError::NoSuchRank { .. } => PyValueError::new_err(text),
            _ => ExchangeError::new_err(text),
        }
    }
}

impl IntoException for PatternError {
    fn exception(self) -> PyErr {
        match self {
            PatternError::Transport(error) => error.exception(),
            PatternError::Grid(error) => error.exception(),
            error => RefusedError::new_err(error.to_string()),
        }
    }
}

impl IntoException for GridError {
    fn exception(self) -> PyErr {
        PyValueError::new_err(self.to_string())
    }
}

impl IntoException for BindError {
    fn exception(self) -> PyErr {
        match self {
            BindError::Transport(error) => error.exception(),
            BindError::Device { error, .. } => error.exception(),
            error => RefusedError::new_err(error.to_string()),
        }
    }
}

impl IntoException for CoreExchangeError {
    fn exception(self) -> PyErr {
        use CoreExchangeError as Of;
        let text = self.to_string();
        match self {
            Of::TimeLimit { ranks, .. } => time_limit(text, &ranks),
            Of::Transport(error) => error.exception(),
            Of::Device(error) => error.exception(),
            Of::Poisoned(reason) => ExchangeError::new_err(format!(
                "the plan was given up, as an exchange of it failed: {reason}; make the plan again, on all ranks"
            )),
            Of::AllInFlight { most: 1 } => InFlightError::new_err(
                "the plan is in flight: finish the exchange that was started first, or make a plan with a larger `in_flight`",
            ),
            Of::AllInFlight { most } => InFlightError::new_err(format!(
                "the exchange of the plan that was started {most} before this one was not finished: finish it first, or make \
                 a plan with a larger `in_flight`"
            )),
            Of::NotInFlight | Of::InFlightElsewhere => InFlightError::new_err(text),
            Of::AddressCount { .. }
            | Of::Address { .. }
            | Of::FieldCount { .. }
            | Of::FieldDiffers { .. } => PyValueError::new_err(text),
            Of::ForeignStream { .. } => PyValueError::new_err(text),
            _ => ExchangeError::new_err(text),
        }
    }
}

/// Whether a plan that returns this error is as it was before the call.
pub(crate) fn leaves_as_it_was(error: &CoreExchangeError) -> bool {
    use CoreExchangeError as Of;
    matches!(
        error,
        Of::AllInFlight { .. }
            | Of::NotInFlight
            | Of::InFlightElsewhere
            | Of::AddressCount { .. }
            | Of::Address { .. }
            | Of::FieldCount { .. }
            | Of::FieldDiffers { .. }
            | Of::ForeignStream { .. }
            | Of::NoStream { .. }
            | Of::Poisoned(_)
    ) || is_wrong_thread(error)
}

/// Whether the exchange was refused because this thread may not call MPI. One that was to end is then still in flight.
pub(crate) fn is_wrong_thread(error: &CoreExchangeError) -> bool {
    matches!(error, CoreExchangeError::Transport(TransportError::WrongThread { .. }))
}

impl IntoException for SparseError {
    fn exception(self) -> PyErr {
        let text = self.to_string();
        match self {
            SparseError::Transport(error) => error.exception(),
            SparseError::TimeLimit { ranks, .. } => time_limit(text, &ranks),
            SparseError::InRound => {
                InFlightError::new_err("a round was started and not finished: finish it first")
            }
            SparseError::NotInRound => InFlightError::new_err(text),
            SparseError::NotADestination { .. } => PyValueError::new_err(text),
            SparseError::Refused(_) => RefusedError::new_err(text),
            _ => ExchangeError::new_err(text),
        }
    }
}

fn time_limit(text: String, ranks: &[usize]) -> PyErr {
    Python::attach(|py| {
        let error = TimeLimitError::new_err(text);
        let ranks = PyTuple::new(py, ranks);
        match ranks.and_then(|ranks| error.value(py).setattr("ranks", ranks)) {
            Ok(()) => error,
            Err(other) => other,
        }
    })
}

/// The exception that interrupted a wait of this thread, usually `KeyboardInterrupt`.
fn interrupted(text: String) -> PyErr {
    interrupt::take().unwrap_or_else(|| ExchangeError::new_err(text))
}
