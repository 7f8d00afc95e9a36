//! Haloport from Python: the module `haloport._haloport`.
//!
//! From the top down:
//!
//! - `grid`, `mesh`: the two kinds of patterns, both on `domains`; `redistribution`: from one of them to another;
//! - `plan`, `prepared`, `pending`, `exchanges`, `retired`: exchanges of arrays that are passed at each call, or fixed;
//! - `messages`: sparse exchanges and exchanges along a line; `payload`: their bytes, of the host and of arrays on devices;
//! - `steps`: `await`, of exchanges and of messages;
//! - `whole`: the owned cells of all ranks as one array on one rank; `sums`: exact sums of arrays;
//! - `layout`, `memory`: the layouts of arrays, and arrays of Haloport's own;
//! - `kernel`, `event`, `order`, `stream`, `device`: devices, and the order of work on them;
//! - `arrays`: arrays of other packages, by any protocol;
//! - `arguments`: numbers and lists among the arguments of calls;
//! - `claims`: the memory that exchanges in flight use;
//! - `comm`, `communicator`, `process`, `error`, `interrupt`, `log`: ranks, forks, exceptions, signals, warnings.
//!
//! A call that waits, or that may free what others wait for, detaches from Python. No lock is held while a thread waits
//! for Python: the state of a plan is locked by `try_lock` alone.

mod arguments;
mod arrays;
mod claims;
mod comm;
mod communicator;
mod device;
mod domains;
mod error;
mod event;
mod exchanges;
mod grid;
mod grid_arguments;
mod interrupt;
mod kernel;
mod layout;
mod log;
mod memory;
mod mesh;
mod messages;
mod order;
mod payload;
mod pending;
mod plan;
mod prepared;
mod process;
mod redistribution;
mod retired;
mod slabs;
mod steps;
mod stream;
mod sums;
mod whole;

use pyo3::prelude::*;

/// The compiled part of Haloport. Import its names from `haloport`.
#[pymodule(gil_used = false)]
mod _haloport {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::comm::{Communicator, threads};
    #[pymodule_export]
    use crate::device::{Device, devices};
    #[pymodule_export]
    use crate::error::{InFlightError, RefusedError, TimeLimitError};
    #[pymodule_export]
    use crate::event::Event;
    #[pymodule_export]
    use crate::grid::Grid;
    #[pymodule_export]
    use crate::kernel::{BoundKernel, Kernel};
    #[pymodule_export]
    use crate::layout::Layout;
    #[pymodule_export]
    use crate::memory::Array;
    #[pymodule_export]
    use crate::mesh::Mesh;
    #[pymodule_export]
    use crate::messages::{LineExchange, PendingMessages, SparseExchange};
    #[pymodule_export]
    use crate::order::NamedOrder;
    #[pymodule_export]
    use crate::pending::Pending;
    #[pymodule_export]
    use crate::plan::Plan;
    #[pymodule_export]
    use crate::redistribution::Redistribution;
    #[pymodule_export]
    use crate::stream::{Stream, current_stream};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::process::watch_forks();
        let py = module.py();
        crate::log::begin(py)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("ExchangeError", py.get_type::<crate::error::ExchangeError>())?;
        let orders = module.py().get_type::<NamedOrder>();
        for name in ["DEFAULT", "BLOCK"] {
            module.add(name, orders.getattr(name)?)?;
        }
        py.get_type::<TimeLimitError>().setattr("ranks", pyo3::types::PyTuple::empty(py))
    }
}
