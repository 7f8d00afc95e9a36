//! The methods of communicators in Python.

use std::time::Duration;

use haloport::Reduction;
use haloport::comm::{ExactSum, Progress};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::{number, one_of, shown};
use crate::comm::{Communicator, pickled, unpickled};
use crate::error::OrRaise;
use crate::sums::exact_sums;

/// The words for what makes progress.
const PROGRESS: [(&str, Progress); 3] =
    [("auto", Progress::Auto), ("thread", Progress::Thread), ("caller", Progress::Caller)];

#[pymethods]
impl Communicator {
    #[new]
    #[pyo3(signature = (comm=None))]
    fn py_new(comm: Option<&Bound<'_, PyAny>>, py: Python<'_>) -> PyResult<Communicator> {
        Communicator::of(comm, py)
    }

    /// The number of this rank, from 0.
    #[getter]
    fn rank(&self) -> PyResult<usize> {
        Ok(self.get()?.rank())
    }

    /// The number of ranks.
    #[getter]
    fn size(&self) -> PyResult<usize> {
        Ok(self.get()?.size())
    }

    /// The kind of ranks and what connects them, such as the version of MPI.
    #[getter]
    fn name(&self) -> PyResult<String> {
        let info = self.get()?.info();
        Ok(format!("{} ({})", info.name, info.implementation))
    }

    /// The time in seconds after which a wait for other ranks ends with `TimeLimitError`; ``None`` for never. By
    /// default the environment variable ``HALOPORT_TIME_LIMIT``, or 1800.
    #[getter]
    fn time_limit(&self) -> PyResult<Option<f64>> {
        Ok(self.get()?.time_limit().map(|time| time.as_secs_f64()))
    }

    #[setter]
    fn set_time_limit(&self, seconds: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.get()?.set_time_limit(duration(seconds, "time_limit")?);
        Ok(())
    }

    /// The time in seconds after which a wait for other ranks logs a warning; ``None`` for never. By default the
    /// environment variable ``HALOPORT_WARN_AFTER``, or 60.
    #[getter]
    fn warn_after(&self) -> PyResult<Option<f64>> {
        Ok(self.get()?.warn_after().map(|time| time.as_secs_f64()))
    }

    #[setter]
    fn set_warn_after(&self, seconds: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.get()?.set_warn_after(duration(seconds, "warn_after")?);
        Ok(())
    }

    /// What makes progress between the start of an exchange, or of a round of messages, and its end; for those that this rank
    /// starts from now on. ``"auto"``, the default: for arrays on devices with streams a thread of the library, if it may call
    /// MPI; for those of the host and for rounds the calls of the program. ``"thread"``: that thread for all of them; it takes
    /// some of the time of a core, and `ExchangeError` is raised if it may not call MPI. ``"caller"``: the calls of the program
    /// alone, such as `Pending.is_ready`. Many MPI libraries transfer large messages only within their calls.
    #[getter]
    fn progress(&self) -> PyResult<&'static str> {
        let by = self.get()?.asked_progress();
        Ok(PROGRESS.iter().find(|(_, known)| *known == by).map_or("auto", |(word, _)| *word))
    }

    #[setter]
    fn set_progress(&self, by: &Bound<'_, PyAny>) -> PyResult<()> {
        self.get()?.set_progress(one_of(by, "progress", &PROGRESS)?).or_raise()
    }

    /// Waits until all ranks have called it. Collective.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        let comm = self.get()?;
        py.detach(|| comm.barrier()).or_raise()
    }

    /// The sum, the smallest or the largest of the values of all ranks. All ranks get the same bits, in every run: floats
    /// are added in the order of the ranks. Collective.
    ///
    /// Parameters
    /// ----------
    /// value : int or float
    ///     An int below 2^63 in size, or a float, on all ranks. If a rank has a NaN, so is the result.
    /// op : str
    ///     ``"sum"``, ``"min"`` or ``"max"``.
    ///
    /// Returns
    /// -------
    /// int or float
    ///     The sum of ints is modulo 2^64.
    #[pyo3(signature = (value, op=None), text_signature = "($self, value, op='sum')")]
    fn all_reduce<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
        op: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let comm = self.get()?;
        let checked = op.map_or(Ok(Reduction::Sum), reduction).and_then(|op| Ok((op, Term::of(value)?)));
        match self.agree(py, checked)? {
            (op, Term::Int(value)) => {
                Ok(py.detach(|| comm.all_reduce(value, op)).or_raise()?.into_pyobject(py)?.into_any())
            }
            (op, Term::Float(value)) => {
                Ok(py.detach(|| comm.all_reduce(value, op)).or_raise()?.into_pyobject(py)?.into_any())
            }
        }
    }

    /// The exact sum of the floats of all ranks, rounded once, to the nearest float: the same bits on any number of ranks,
    /// however they share the values. Collective.
    ///
    /// Parameters
    /// ----------
    /// values : float, array, or a list or tuple of these
    ///     Arrays of float64 or float32, of any shape, which may be empty and differ by rank, and which nothing changes
    ///     meanwhile. A list or tuple is several sums, in one message; all ranks pass the same number. Arrays with gaps are
    ///     copied. An array on a device has no gaps; it is copied to the host, after the work in the stream of its package. An
    ///     int is rounded to a float first.
    /// weights : the same
    ///     If given, values are multiplied by these, pair by pair, without rounding the products. Of the same shapes. An array
    ///     of bool chooses the values that are summed.
    ///
    /// Returns
    /// -------
    /// float or list of float
    ///     NaN if there is a NaN, or if there are infinities of both signs.
    #[pyo3(signature = (values, weights=None), text_signature = "($self, values, weights=None)")]
    fn sum_exact<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyAny>,
        weights: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let comm = self.get()?;
        let (mut sums, is_list) = self.agree(py, exact_sums(values, weights, self))?;
        py.detach(|| comm.all_reduce_exact(&mut sums)).or_raise()?;
        let sums: Vec<f64> = sums.iter().map(ExactSum::to_f64).collect();
        match sums[..] {
            [sum] if !is_list => sum.into_bound_py_any(py),
            _ => sums.into_bound_py_any(py),
        }
    }

    /// The object of rank `root`, on all ranks, which get copies of it by ``pickle``. Collective.
    #[pyo3(signature = (value, root=None), text_signature = "($self, value, root=0)")]
    fn broadcast<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
        root: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let comm = self.get()?;
        let checked = self.root(root).and_then(|root| {
            let own = if root == comm.rank() { pickled(value)? } else { Vec::new() };
            Ok((root, own))
        });
        let (root, own) = self.agree(py, checked)?;
        let found = py.detach(|| comm.broadcast(root, &own)).or_raise()?;
        unpickled(py, &found)
    }

    /// A list of the objects of all ranks, in the order of the ranks, copied by ``pickle``; ``None`` on other ranks than `root`.
    /// Collective.
    #[pyo3(signature = (value, root=None), text_signature = "($self, value, root=0)")]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
        root: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let comm = self.get()?;
        let checked = self.root(root).and_then(|root| Ok((root, pickled(value)?)));
        let (root, own) = self.agree(py, checked)?;
        let found = py.detach(|| comm.gather(root, &own)).or_raise()?;
        found.map(|all| all.iter().map(|bytes| unpickled(py, bytes)).collect()).transpose()
    }

    /// Ends the use of this communicator by this rank, although grids and plans still refer to it: they then raise
    /// `ExchangeError` where they would exchange. Exchanges in flight fail. If ranks are threads, waits of others for this
    /// one end with an `ExchangeError` that names it, as when its last use is gone. MPI's world and the communicator of this
    /// process alone, which other parts of the program use as well, stay open. A ``with`` block closes at its end.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let comm = self.get()?;
        if self.is_kept() { Ok(()) } else { py.detach(|| comm.close()).or_raise() }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// Tells the other ranks that this one has failed, and why, if they are threads: their waits for other ranks then end
    /// with an `ExchangeError` that has this text. Does nothing under MPI.
    fn fail(&self, why: &Bound<'_, PyAny>) -> PyResult<()> {
        let why: String = number(why, "why", "a str")?;
        self.get()?.fail(&why);
        Ok(())
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<haloport.Communicator: rank {} of {}, {}>", self.rank()?, self.size()?, self.name()?))
    }
}

/// A value that takes part in a reduction.
enum Term {
    Int(i64),
    Float(f64),
}

impl Term {
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Term> {
        const EXPECTED: &str = "an int below 2^63 in size, or a float";
        if value.hasattr("__index__")? {
            return number(value, "value", EXPECTED).map(Term::Int);
        }
        number(value, "value", EXPECTED).map(Term::Float)
    }
}

fn reduction(op: &Bound<'_, PyAny>) -> PyResult<Reduction> {
    const EXPECTED: &str = "'sum', 'min' or 'max'";
    match number::<String>(op, "op", EXPECTED)?.as_str() {
        "sum" => Ok(Reduction::Sum),
        "min" => Ok(Reduction::Min),
        "max" => Ok(Reduction::Max),
        _ => Err(PyValueError::new_err(format!("op: expected {EXPECTED}, found {}", shown(op)))),
    }
}

fn duration(seconds: Option<&Bound<'_, PyAny>>, name: &str) -> PyResult<Option<Duration>> {
    const EXPECTED: &str = "a number of seconds above 0, or None";
    let Some(seconds) = seconds else { return Ok(None) };
    match Duration::try_from_secs_f64(number(seconds, name, EXPECTED)?) {
        Ok(time) if !time.is_zero() => Ok(Some(time)),
        _ => Err(PyValueError::new_err(format!("{name}: expected {EXPECTED}, found {}", shown(seconds)))),
    }
}
