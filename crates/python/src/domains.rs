//! The domains of a rank: what a grid and a mesh have in common.

use haloport::Pattern;
use haloport::field::ArrayCells;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::arguments::count;
use crate::arrays::element::dtype_of;
use crate::comm::Communicator;
use crate::device::Device;
use crate::memory::Array;
use crate::process::Held;

/// The domains of this rank, and the pattern of the cells that travel between them and those of other ranks.
pub(crate) struct Domains {
    pub(crate) comm: Communicator,
    pattern: Held<Pattern>,
    cells: Vec<ArrayCells>,
    /// For errors: such as ", domain 1".
    names: Vec<String>,
}

impl Domains {
    pub(crate) fn new(comm: Communicator, pattern: Pattern) -> Domains {
        let cells = ArrayCells::of(&pattern);
        let names = match cells.len() {
            1 => vec![String::new()],
            count => (0..count).map(|domain| format!(", domain {domain}")).collect(),
        };
        Domains { comm, pattern: Held::new(pattern), cells, names }
    }

    pub(crate) fn pattern(&self) -> PyResult<&Pattern> {
        self.pattern.get()
    }

    pub(crate) fn count(&self) -> usize {
        self.cells.len()
    }

    pub(crate) fn cells(&self, domain: usize) -> &ArrayCells {
        &self.cells[domain]
    }

    /// The name of a domain for errors, such as ", domain 1"; nothing if there is one.
    pub(crate) fn name(&self, domain: usize) -> &str {
        &self.names[domain]
    }

    /// The one domain of this rank.
    pub(crate) fn single(&self) -> PyResult<usize> {
        match self.count() {
            1 => Ok(0),
            count => Err(PyValueError::new_err(format!(
                "expected one domain on this rank, found {count}; ask for those of each domain by `domains`"
            ))),
        }
    }

    /// See `Grid.empty`.
    pub(crate) fn empty(
        &self,
        py: Python<'_>,
        dtype: Option<&Bound<'_, PyAny>>,
        levels: Option<&Bound<'_, PyAny>>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let dtype = match dtype {
            Some(dtype) => dtype_of(dtype)?,
            None => dtype_of(PyString::new(py, "float64").as_any())?,
        };
        let device = match device {
            Some(device) => Device::of(device)?,
            None => Device::cpu(&self.comm)?,
        };
        let levels = levels.map(|levels| count(levels, "levels")).transpose()?;
        let mut arrays = Array::of_pattern(py, self.pattern()?, &device, &dtype, levels)?;
        match arrays.len() {
            0 => self.without_cells(&dtype, levels),
            1 => Ok(arrays.remove(0)),
            _ => Ok(PyList::new(py, arrays)?.into_any().unbind()),
        }
    }

    /// An array of NumPy for a rank without domains: plans learn the type from it.
    fn without_cells(&self, dtype: &Bound<'_, PyAny>, levels: Option<usize>) -> PyResult<Py<PyAny>> {
        let own = self.pattern()?.grid().map_or(1, |grid| grid.axes());
        let shape: Vec<usize> = std::iter::repeat_n(0, own).chain(levels).collect();
        Ok(dtype.py().import("numpy")?.call_method1("zeros", (shape, dtype))?.unbind())
    }

    /// The arrays of a field, one for each domain. `name` names the field in errors.
    pub(crate) fn blocks<'py>(
        &self,
        field: &Bound<'py, PyAny>,
        name: &str,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        if self.count() == 1 {
            return Ok(vec![field.clone()]);
        }
        let blocks: Vec<Bound<'py, PyAny>> = match field.try_iter() {
            // One more than there are domains is too many: the iterator may have no end.
            Ok(blocks) if !field.hasattr("shape")? => {
                blocks.take(self.count() + 1).collect::<PyResult<_>>()?
            }
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "{name}: expected a sequence of arrays, one for each of {} domains of this rank",
                    self.count()
                )));
            }
        };
        if blocks.len() != self.count() {
            return Err(PyValueError::new_err(format!(
                "{name}: expected an array for each of {} domains of this rank, found {}",
                self.count(),
                if blocks.len() > self.count() { "more".into() } else { blocks.len().to_string() }
            )));
        }
        Ok(blocks)
    }
}
