//! Haloport from Python: the module `haloport._haloport`.

use pyo3::prelude::*;

/// The compiled part of Haloport. Import its names from `haloport`.
#[pymodule(gil_used = false)]
mod _haloport {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
