//! The domains of a rank: what a grid and a mesh have in common.

use std::sync::Arc;

use haloport::domain::MAX_AXES;
use haloport::field::ArrayCells;
use haloport::{Pattern, PatternSet, Redistribution};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::arguments::{count, entries, type_name};
use crate::arrays::element::dtype_of;
use crate::comm::Communicator;
use crate::device::Device;
use crate::error::OrRaise;
use crate::memory::Array;
use crate::process::Held;

/// The arrays of a field, one for each domain of this rank, and the field: the one array, or a list.
pub(crate) type Arrays<'py> = (Vec<Bound<'py, PyAny>>, Bound<'py, PyAny>);

/// The numbers of domains of this rank for the fields of a plan, in turn: one for all, those of the source and of the target of a
/// redistribution, or one for each field of several grids.
#[derive(Debug, Clone)]
pub(crate) struct DomainCounts(Arc<[usize]>);

impl DomainCounts {
    /// For the array or the list of arrays with this number.
    pub(crate) fn of(&self, field: usize) -> usize {
        self.0[field % self.0.len()]
    }

    /// Whether each field has one domain on this rank.
    pub(crate) fn are_one(&self) -> bool {
        self.0.iter().all(|&count| count == 1)
    }

    /// The number of the field and that of the domain of a block, which are counted across all fields.
    pub(crate) fn locate(&self, block: usize) -> (usize, usize) {
        let all = self.0.iter().sum::<usize>().max(1);
        let (mut field, mut rest) = (block / all * self.0.len(), block % all);
        for &count in self.0.iter() {
            if rest < count {
                break;
            }
            (field, rest) = (field + 1, rest - count);
        }
        (field, rest)
    }
}

/// The domains of the arrays of a plan: of a redistribution those of the source and of the target in turn, of several grids one for
/// each field, otherwise the same ones.
pub(crate) struct ArrayDomains<'d> {
    in_turn: Vec<&'d Domains>,
    pub(crate) redistribution: Option<&'d Redistribution>,
    pub(crate) grids: Option<&'d GridsOfFields>,
}

impl<'d> ArrayDomains<'d> {
    pub(crate) fn alike(domains: &'d Domains) -> ArrayDomains<'d> {
        ArrayDomains { in_turn: vec![domains], redistribution: None, grids: None }
    }

    pub(crate) fn in_turn(
        source: &'d Domains,
        target: &'d Domains,
        redistribution: &'d Redistribution,
    ) -> ArrayDomains<'d> {
        ArrayDomains { in_turn: vec![source, target], redistribution: Some(redistribution), grids: None }
    }

    pub(crate) fn of_grids(grids: &'d GridsOfFields) -> ArrayDomains<'d> {
        let in_turn = grids.each.iter().map(|domains| &**domains).collect();
        ArrayDomains { in_turn, redistribution: None, grids: Some(grids) }
    }

    /// Those of the array or the list of arrays with this number.
    pub(crate) fn of(&self, field: usize) -> &'d Domains {
        self.in_turn[field % self.in_turn.len()]
    }

    pub(crate) fn counts(&self) -> DomainCounts {
        DomainCounts(self.in_turn.iter().map(|domains| domains.count()).collect())
    }

    pub(crate) fn comm(&self) -> &'d Communicator {
        &self.in_turn[0].comm
    }
}

/// The grids and meshes of the fields of a plan, and the set of their patterns.
pub(crate) struct GridsOfFields {
    /// One for each field, at least one.
    each: Vec<Arc<Domains>>,
    /// The number in the set of the pattern of each field.
    pub(crate) numbers: Vec<usize>,
    pub(crate) set: PatternSet,
}

impl GridsOfFields {
    /// Collective: those that the argument `grids` of a plan of this many fields names. `own` are the domains of the grid whose plan
    /// it is.
    pub(crate) fn of(own: &Domains, grids: &Bound<'_, PyAny>, fields: usize) -> PyResult<GridsOfFields> {
        let py = grids.py();
        let each = own.comm.agree(py, each_of(own, grids, fields))?;
        let mut once: Vec<&Arc<Domains>> = Vec::new();
        let mut numbers = Vec::new();
        for domains in &each {
            let known = once.iter().position(|known| Arc::ptr_eq(known, domains));
            numbers.push(known.unwrap_or(once.len()));
            if known.is_none() {
                once.push(domains);
            }
        }
        let patterns: Vec<&Pattern> =
            once.iter().map(|domains| domains.pattern()).collect::<PyResult<_>>()?;
        let set = py.detach(|| PatternSet::new(&patterns)).or_raise()?;
        Ok(GridsOfFields { each, numbers, set })
    }
}

/// The domains of the grid or the mesh of each field, on the communicator of `own`.
fn each_of(own: &Domains, grids: &Bound<'_, PyAny>, fields: usize) -> PyResult<Vec<Arc<Domains>>> {
    let found = entries(grids, "grids", "a Grid or a Mesh for each field")?.take(fields + 1);
    let found = found.map(|grid| OwnedDomains::of(&grid?, "grids")).collect::<PyResult<Vec<_>>>()?;
    if found.len() != fields || fields == 0 {
        let found = if found.len() > fields { "more".into() } else { found.len().to_string() };
        return Err(PyValueError::new_err(format!(
            "grids: expected a Grid or a Mesh for each of {fields} fields, found {found}"
        )));
    }
    if !found.iter().all(|domains| domains.comm.is_same(&own.comm)) {
        return Err(PyValueError::new_err(
            "grids: expected grids of one communicator, found others; make all with one `haloport.Communicator`",
        ));
    }
    Ok(found)
}

/// The domains of a grid or a mesh, as its attribute `_domains`.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct OwnedDomains(pub(crate) Arc<Domains>);

impl OwnedDomains {
    /// Those of an argument, a grid or a mesh.
    pub(crate) fn of(argument: &Bound<'_, PyAny>, name: &str) -> PyResult<Arc<Domains>> {
        let domains = argument.getattr("_domains").ok();
        let domains = domains.as_ref().and_then(|domains| domains.cast::<OwnedDomains>().ok());
        domains.map(|domains| Arc::clone(&domains.get().0)).ok_or_else(|| {
            let found = type_name(argument);
            PyTypeError::new_err(format!("{name}: expected a Grid or a Mesh, found {found}"))
        })
    }
}

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
        self.field_of(py, (&dtype, levels.as_slice()), &device).map(|(_, field)| field.unbind())
    }

    /// A field of zeros on the CPU, with further axes of these extents: its arrays, and what `empty` returns for them.
    pub(crate) fn zeros<'py>(
        &self,
        py: Python<'py>,
        dtype: &Bound<'py, PyAny>,
        further: &[usize],
    ) -> PyResult<Arrays<'py>> {
        if self.axes()? + further.len() <= MAX_AXES {
            return self.field_of(py, (dtype, further), &Device::cpu(&self.comm)?);
        }
        // Arrays may have components, too, but memory of Haloport has no further axes.
        let arrays = self.cells.iter().map(|cells| {
            let cells = cells.with_halo();
            zeros_of(dtype, (0..cells.axes()).map(|axis| cells.extent(axis)), further)
        });
        let arrays = arrays.collect::<PyResult<Vec<_>>>()?;
        let field = self.as_field(&arrays, dtype, further)?;
        Ok((arrays, field))
    }

    fn field_of<'py>(
        &self,
        py: Python<'py>,
        (dtype, further): (&Bound<'py, PyAny>, &[usize]),
        device: &Device,
    ) -> PyResult<Arrays<'py>> {
        let arrays = Array::of_pattern(py, self.pattern()?, device, dtype, further)?;
        let arrays: Vec<Bound<'py, PyAny>> = arrays.into_iter().map(|array| array.into_bound(py)).collect();
        let field = self.as_field(&arrays, dtype, further)?;
        Ok((arrays, field))
    }

    /// The arrays of this rank as `empty` returns them.
    fn as_field<'py>(
        &self,
        arrays: &[Bound<'py, PyAny>],
        dtype: &Bound<'py, PyAny>,
        further: &[usize],
    ) -> PyResult<Bound<'py, PyAny>> {
        match arrays {
            // For a rank without domains: plans learn the type from it.
            [] => zeros_of(dtype, std::iter::repeat_n(0, self.axes()?), further),
            [array] => Ok(array.clone()),
            _ => Ok(PyList::new(dtype.py(), arrays)?.into_any()),
        }
    }

    /// The number of axes of the pattern.
    fn axes(&self) -> PyResult<usize> {
        Ok(self.pattern()?.grid().map_or(1, |grid| grid.axes()))
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

/// An array of NumPy with these extents.
fn zeros_of<'py>(
    dtype: &Bound<'py, PyAny>,
    cells: impl Iterator<Item = usize>,
    further: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let shape: Vec<usize> = cells.chain(further.iter().copied()).collect();
    dtype.py().import("numpy")?.call_method1("zeros", (shape, dtype))
}
