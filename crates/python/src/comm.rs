//! Communicators: the ranks that a program exchanges with.

use std::sync::{Arc, Mutex, PoisonError};

use haloport::cpu::{CpuDevice, threads_asked_for};
use haloport::mpi;
use haloport_core::launcher;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyInt};

use crate::arguments::{count, count_or, number, type_name};
use crate::error::{ExchangeError, OrRaise, RefusedError};
use crate::interrupt;
use crate::process::{self, Held};

/// The ranks of a program, seen from one of them.
///
/// Grids, meshes and exchanges take the same values as `comm`. Make a communicator yourself to set its times, or to make
/// many patterns on a communicator of your own: each one that is passed as an object of mpi4py is duplicated.
///
/// Parameters
/// ----------
/// comm : mpi4py.MPI.Comm, int, Communicator or None
///     A communicator of mpi4py, or the handle of an ``MPI_Comm`` as an integer: it is duplicated, which is collective.
///     MPI's world is duplicated once in each process, by the first call that needs it.
///     ``None``: MPI's world if mpi4py was imported and has initialised MPI, otherwise this process alone.
///
/// Raises
/// ------
/// TypeError
///     For any other object.
/// ExchangeError
///     If there is no MPI, if it is not initialised or was finalised, if this thread may not call it, or if a launcher
///     has started more processes than MPI has ranks.
#[pyclass(frozen, module = "haloport")]
#[derive(Clone)]
pub(crate) struct Communicator {
    inner: Arc<Inner>,
}

struct Inner {
    comm: Held<haloport::Communicator>,
    /// Of a Cartesian communicator of mpi4py.
    cartesian: Option<Cartesian>,
    /// The CPU as this rank uses it.
    cpu: Mutex<Option<CpuDevice>>,
    /// Whether it is one of all parts of the program: see `kept`.
    kept: bool,
}

/// The decomposition of a Cartesian communicator of mpi4py, along its dimensions.
#[derive(Debug, Clone)]
pub(crate) struct Cartesian {
    pub(crate) parts: Vec<usize>,
    pub(crate) periodic: Vec<bool>,
}

/// What ranks have agreed on.
pub(crate) enum Agreed<T> {
    /// Every rank has a value.
    Value(T),
    /// Some rank has a value that lacks something; others may have exceptions.
    Unless(PyResult<T>),
}

/// The communicator of MPI's world, which cannot be freed, so that it is duplicated once.
static WORLD: Mutex<Option<Communicator>> = Mutex::new(None);

/// The communicator of this process alone.
static ALONE: Mutex<Option<Communicator>> = Mutex::new(None);

/// Makes the communicators of ranks that are threads of this process, one for each thread.
///
/// Move each to a thread of its own, in which it is passed as `comm`. Once the last use of a rank's communicator is gone,
/// or it is closed, other ranks that wait for this rank get an `ExchangeError` that names it.
///
/// Parameters
/// ----------
/// ranks : int
///     The number of ranks, from 1 to 65536.
///
/// Returns
/// -------
/// list of Communicator
///     In the order of the ranks.
#[pyfunction]
pub(crate) fn threads(ranks: &Bound<'_, PyAny>) -> PyResult<Vec<Communicator>> {
    process::begin_use()?;
    let ranks = count(ranks, "ranks")?;
    haloport::comm::threads(ranks).or_raise()?.into_iter().map(|comm| Ok(Communicator::new(comm))).collect()
}

pub(crate) fn pickled(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    value.py().import("pickle")?.call_method1("dumps", (value, -1))?.extract()
}

pub(crate) fn unpickled<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    py.import("pickle")?.call_method1("loads", (PyBytes::new(py, bytes),))
}

impl Communicator {
    /// The argument `root` of a call.
    pub(crate) fn root(&self, root: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let (root, size) = (count_or(root, "root", 0)?, self.get()?.size());
        if root >= size {
            return Err(PyValueError::new_err(format!("root: expected a rank below {size}, found {root}")));
        }
        Ok(root)
    }

    fn new(comm: haloport::Communicator) -> Communicator {
        Communicator::made(comm, None, false)
    }

    fn made(comm: haloport::Communicator, cartesian: Option<Cartesian>, kept: bool) -> Communicator {
        comm.set_interrupt(Some(interrupt::check()));
        Communicator {
            inner: Arc::new(Inner { comm: Held::new(comm), cartesian, cpu: Mutex::default(), kept }),
        }
    }

    /// Whether other parts of the program have it, too, since it is that of MPI's world, or of this process alone.
    pub(crate) fn is_kept(&self) -> bool {
        self.inner.kept
    }

    /// The decomposition, if it was made of a Cartesian communicator of mpi4py.
    pub(crate) fn cartesian(&self) -> Option<&Cartesian> {
        self.inner.cartesian.as_ref()
    }

    /// The communicator that the argument `comm` of a call means.
    pub(crate) fn of(comm: Option<&Bound<'_, PyAny>>, py: Python<'_>) -> PyResult<Communicator> {
        process::begin_use()?;
        match comm {
            None => Communicator::of_program(py),
            Some(comm) => match comm.cast::<Communicator>() {
                Ok(known) => Ok(known.get().clone()),
                Err(_) => Communicator::duplicate(comm),
            },
        }
    }

    /// Whether both are handles to one communicator.
    pub(crate) fn is_same(&self, other: &Communicator) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn get(&self) -> PyResult<&haloport::Communicator> {
        process::check()?;
        self.inner.comm.get()
    }

    /// The CPU, with one thread for each rank unless `RAYON_NUM_THREADS` is set.
    pub(crate) fn cpu(&self) -> PyResult<CpuDevice> {
        let mut cpu = self.inner.cpu.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cpu) = &*cpu {
            return Ok(cpu.clone());
        }
        let made = CpuDevice::with_threads(threads_asked_for().unwrap_or(1));
        Ok(cpu.insert(made.or_raise()?).clone())
    }

    /// Collective: the value of `mine` on every rank, or an exception on every rank if `mine` is one on some: on the
    /// rank that has it the exception itself, on the others a `RefusedError` that names the rank.
    pub(crate) fn agree<T>(&self, py: Python<'_>, mine: PyResult<T>) -> PyResult<T> {
        match self.agree_unless(py, mine, |_| false)? {
            Agreed::Value(value) => Ok(value),
            Agreed::Unless(mine) => mine,
        }
    }

    /// Collective: as [`agree`](Communicator::agree), unless some rank has a value that `lacks` something which others can give,
    /// and no lower rank has an exception.
    pub(crate) fn agree_unless<T>(
        &self,
        py: Python<'_>,
        mine: PyResult<T>,
        lacks: impl Fn(&T) -> bool,
    ) -> PyResult<Agreed<T>> {
        const LACKS: &str = "this rank has no arrays that tell the types of the fields";
        let comm = self.get()?;
        let complaint = match &mine {
            Err(error) => Some(error.value(py).to_string()),
            Ok(value) => lacks(value).then(|| LACKS.to_string()),
        };
        let agreed = py.detach(|| comm.agree(complaint));
        match (mine, agreed) {
            (mine, Ok(Err(text))) if text.ends_with(LACKS) => Ok(Agreed::Unless(mine)),
            (Err(error), _) => Err(error),
            (Ok(_), Err(error)) => Err(error).or_raise(),
            (Ok(_), Ok(Err(text))) => Err(RefusedError::new_err(text)),
            (Ok(value), Ok(Ok(()))) => Ok(Agreed::Value(value)),
        }
    }

    /// MPI's world if the program uses MPI, else this process alone.
    fn of_program(py: Python<'_>) -> PyResult<Communicator> {
        let modules = py.import("sys")?.getattr("modules")?;
        let mpi = modules.get_item("mpi4py.MPI").ok();
        if let Some(mpi) = &mpi
            && is_running(mpi)?
        {
            return Communicator::duplicate(&mpi.getattr("COMM_WORLD")?);
        }
        kept(py, &ALONE, || {
            match mpi {
                Some(_) => {
                    check_launcher(1, "this process, in which MPI is not initialised or was finalised,")?
                }
                None => check_launcher(1, "this process, which has not imported mpi4py.MPI,")?,
            }
            let mut ranks = haloport::comm::threads(1).or_raise()?;
            ranks.pop().ok_or_else(|| PyValueError::new_err("there is no rank"))
        })
    }

    /// Duplicates a communicator of MPI: an object of mpi4py, or a handle.
    fn duplicate(comm: &Bound<'_, PyAny>) -> PyResult<Communicator> {
        let py = comm.py();
        if comm.is_instance_of::<PyInt>() && !comm.is_instance_of::<pyo3::types::PyBool>() {
            let handle: i64 = number(comm, "comm", "the handle of an MPI_Comm")?;
            check_handle(handle)?;
            return Communicator::new(from_handle(py, handle)?).watched(py);
        }
        let Some((handle, world)) = handle_of(comm)? else {
            return Err(PyTypeError::new_err(format!(
                "comm: expected a communicator of mpi4py, the handle of an MPI_Comm, a rank of haloport.threads or None, \
                 found {}",
                type_name(comm)
            )));
        };
        if comm.eq(&world)? {
            kept(py, &WORLD, || from_handle(py, handle))?.watched(py)
        } else {
            let cartesian = Cartesian::of(comm)?;
            Communicator::made(from_handle(py, handle)?, cartesian, false).watched(py)
        }
    }

    /// The same: an exception that ends this rank ends the others, too.
    fn watched(self, py: Python<'_>) -> PyResult<Communicator> {
        if self.get()?.size() > 1 {
            py.import("haloport._abort")?.call_method0("_put_in_place")?;
        }
        Ok(self)
    }
}

impl Cartesian {
    /// `None` for other communicators.
    fn of(comm: &Bound<'_, PyAny>) -> PyResult<Option<Cartesian>> {
        if !(comm.hasattr("Get_topo")? && comm.hasattr("Get_cart_rank")?) {
            return Ok(None);
        }
        let parts = comm.getattr("dims")?.extract()?;
        let periodic = comm.getattr("periods")?.try_iter()?.map(|one| one?.is_truthy());
        Ok(Some(Cartesian { parts, periodic: periodic.collect::<PyResult<_>>()? }))
    }
}

/// The communicator that was made first. Threads that ask for it at once wait for the first of them, while others run: to
/// duplicate a communicator is collective, so each rank does it once.
fn kept(
    py: Python<'_>,
    place: &Mutex<Option<Communicator>>,
    make: impl FnOnce() -> PyResult<haloport::Communicator>,
) -> PyResult<Communicator> {
    let mut known = place.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*known {
        return Ok(known.clone());
    }
    let made = Communicator::made(make()?, None, true);
    Ok(known.insert(made).clone())
}

/// Whether MPI is initialised and not finalised, as mpi4py knows it.
fn is_running(mpi: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is = |name| mpi.call_method0(name)?.extract::<bool>();
    Ok(is("Is_initialized")? && !is("Is_finalized")?)
}

/// The handle of a communicator of mpi4py, and MPI's world; `None` for other objects.
fn handle_of<'py>(comm: &Bound<'py, PyAny>) -> PyResult<Option<(i64, Bound<'py, PyAny>)>> {
    let py = comm.py();
    let Ok(mpi) = py.import("sys")?.getattr("modules")?.get_item("mpi4py.MPI") else { return Ok(None) };
    if !comm.is_instance(&mpi.getattr("Comm")?)? {
        return Ok(None);
    }
    // MPI ends a process that asks it for a size before or after.
    if !is_running(&mpi)? {
        return Err(ExchangeError::new_err(
            "comm: expected a communicator of MPI while it runs, found MPI not initialised, or finalised; make Haloport's \
             objects between `MPI.Init` and `MPI.Finalize`",
        ));
    }
    let world = mpi.getattr("COMM_WORLD")?;
    check_launcher(world.call_method0("Get_size")?.extract()?, "MPI's world")?;
    let handle = mpi.call_method1("_handleof", (comm,))?;
    // An address above 2^63 wraps around, as it does within.
    let handle = handle.extract::<u64>().map(u64::cast_signed).or_else(|_| handle.extract::<i64>())?;
    Ok(Some((handle, world)))
}

/// Refuses numbers that are a handle in no MPI, such as those of ranks: following one as an address would end the process.
fn check_handle(handle: i64) -> PyResult<()> {
    const NO_ADDRESSES: u64 = 1 << 16;
    // Null in some, or a predefined handle of the standard ABI.
    let is_known = handle == 0 || (0x100..=0x102).contains(&handle);
    if handle.unsigned_abs() < NO_ADDRESSES && !is_known {
        return Err(PyValueError::new_err(format!(
            "comm: expected the handle of an MPI_Comm, found {handle}; pass a communicator of mpi4py"
        )));
    }
    Ok(())
}

/// Duplicates the communicator with this handle. Other threads of Python run meanwhile.
fn from_handle(py: Python<'_>, handle: i64) -> PyResult<haloport::Communicator> {
    // SAFETY: the handle is that of a communicator of mpi4py, which the caller holds, or a valid one by the contract of
    // `Communicator`; the thread of the caller does not finalise MPI meanwhile.
    py.detach(|| unsafe { mpi::from_raw(handle) }).or_raise()
}

/// Checks that no launcher has started more processes than there are ranks, which would run alone without noticing.
fn check_launcher(ranks: usize, what: &str) -> PyResult<()> {
    let variable = |name: &str| std::env::var(name).ok();
    let started =
        launcher::SIZES.into_iter().find_map(|name| Some((name, launcher::number(variable, name)?)));
    match started {
        Some((name, started)) if ranks == 1 && started > 1 => Err(ExchangeError::new_err(format!(
            "{what} has 1 rank, but the launcher has started {started} processes ({name}={started}): each would run \
             alone. Import mpi4py.MPI first, built for the MPI of the launcher, which initialises MPI, or start the program with the launcher \
             of mpi4py's MPI; if each is meant to run alone, pass comm=haloport.threads(1)[0]"
        ))),
        _ => Ok(()),
    }
}
