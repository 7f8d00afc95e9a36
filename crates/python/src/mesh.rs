//! Unstructured meshes.

use std::sync::Arc;

use haloport::{HaloCells, IndexSet, Pattern};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyTuple};

use crate::arguments::type_name;
use crate::arguments::{check_memory, count, entries, number, pair, shown};
use crate::comm::Communicator;
use crate::domains::{Domains, OwnedDomains};
use crate::error::OrRaise;
use crate::plan::{Plan, PlanArguments};
use crate::redistribution::{Redistribution, redistribute};

/// A mesh that is distributed over the ranks: the cells of this rank and of its halo, by their global ids. Collective.
///
/// The cells may be edges or vertices, each kind with a mesh of its own. Axis 0 of an array runs along the cells in the
/// order of `ids`; arrays may have more rows than there are cells.
///
/// Parameters
/// ----------
/// ids : array_like of int
///     The global id of each cell, owned and in the halo, from 0 on, in any order.
/// owned : array_like of bool, or int
///     For each cell whether this rank owns it; or how many of the first cells it owns.
/// owners : array_like of int, optional
///     The rank that owns each cell, if the program knows it; only those of halo cells are read. If all ranks pass it,
///     no owners are looked for.
/// fill : array_like of int, optional
///     The ids of the halo cells that exchanges fill, such as those of one level of the halo; by default all.
/// comm : mpi4py.MPI.Comm, int, Communicator or None
///     The ranks; see `Communicator`.
///
/// Raises
/// ------
/// RefusedError
///     On all ranks, if no rank owns a cell of a halo, or two ranks own the same cell.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct Mesh {
    domains: Arc<Domains>,
}

#[pymethods]
impl Mesh {
    #[new]
    #[pyo3(signature = (ids, owned, owners=None, *, fill=None, comm=None))]
    fn py_new(
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        owned: &Bound<'_, PyAny>,
        owners: Option<&Bound<'_, PyAny>>,
        fill: Option<&Bound<'_, PyAny>>,
        comm: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Mesh> {
        let comm = Communicator::of(comm, py)?;
        let checked = index_set(ids, owned, owners).and_then(|set| Ok((vec![set], halo_cells(fill)?)));
        Mesh::make(py, comm, checked)
    }

    /// A mesh of which this rank has several domains, or none. A field is then a list of arrays. Collective.
    ///
    /// Parameters
    /// ----------
    /// domains : sequence of (ids, owned)
    ///     As `ids` and `owned` of `Mesh`, for each domain.
    /// fill, comm
    ///     As for `Mesh`.
    #[staticmethod]
    #[pyo3(signature = (domains, *, fill=None, comm=None))]
    fn of_domains(
        py: Python<'_>,
        domains: &Bound<'_, PyAny>,
        fill: Option<&Bound<'_, PyAny>>,
        comm: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Mesh> {
        let comm = Communicator::of(comm, py)?;
        const EXPECTED: &str = "a sequence of (ids, owned), one for each domain";
        let sets = entries(domains, "domains", EXPECTED).and_then(|domains| {
            domains
                .map(|domain| {
                    let domain = domain?;
                    match pair(&domain)? {
                        Some([ids, owned]) => index_set(&ids, &owned, None),
                        None => Err(PyTypeError::new_err(format!(
                            "domains: expected {EXPECTED}, found {} in place of one",
                            shown(&domain)
                        ))),
                    }
                })
                .collect::<PyResult<Vec<_>>>()
        });
        Mesh::make(py, comm, sets.and_then(|sets| Ok((sets, halo_cells(fill)?))))
    }

    /// A mesh from lists that the program has made itself. Collective.
    ///
    /// Parameters
    /// ----------
    /// cells : int
    ///     The number of cells of this rank, with the halo.
    /// sends, receives : mapping of int to array_like of int
    ///     For each neighbour rank the local indices of the cells that go there, and of those that come from there. Cell
    ///     number ``k`` of the one list fills cell number ``k`` of the other.
    /// comm : mpi4py.MPI.Comm, int, Communicator or None
    ///     The ranks; see `Communicator`.
    #[staticmethod]
    #[pyo3(signature = (cells, sends, receives, *, comm=None))]
    fn from_lists(
        py: Python<'_>,
        cells: &Bound<'_, PyAny>,
        sends: &Bound<'_, PyAny>,
        receives: &Bound<'_, PyAny>,
        comm: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Mesh> {
        let comm = Communicator::of(comm, py)?;
        let checked = || {
            let cells = count(cells, "cells")?;
            // Of more than there can be, the call below says so.
            check_memory(if cells >> 32 == 0 { cells * CELL_BYTES } else { 0 }, "cells")?;
            Ok((cells, lists(sends, "sends")?, lists(receives, "receives")?))
        };
        let checked = checked();
        let (cells, sends, receives) = comm.agree(py, checked)?;
        let core = comm.get()?;
        let pattern = py.detach(|| Pattern::from_lists(core, cells, &sends, &receives)).or_raise()?;
        Ok(Mesh::of_pattern(comm, pattern))
    }

    /// The ranks.
    #[getter]
    fn comm(&self) -> Communicator {
        self.domains.comm.clone()
    }

    /// The number of cells of this rank, with the halo.
    #[getter]
    fn cells(&self) -> PyResult<usize> {
        Ok(self.domains.cells(self.domains.single()?).with_halo().extent(0))
    }

    /// The global id of each cell.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let set = self.set()?;
        Ok(PyArray1::from_slice(py, set.ids()).into_any())
    }

    /// For each cell whether this rank owns it: ``u[mesh.owned]``.
    #[getter]
    fn owned<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let set = self.set()?;
        Ok(PyArray1::from_slice(py, set.owned()).into_any())
    }

    /// The owned cells that can be computed while halos travel, and the others.
    ///
    /// Parameters
    /// ----------
    /// neighbours : array_like of int, shape (cells, n)
    ///     For each cell the local indices of the cells that its stencil reads; negative ones are ignored.
    ///
    /// Returns
    /// -------
    /// interior, boundary : numpy.ndarray of int64
    ///     Local indices, ascending.
    fn split<'py>(
        &self,
        py: Python<'py>,
        neighbours: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let domain = self.domains.single()?;
        let cells = self.domains.cells(domain).with_halo().extent(0);
        let array = py.import("numpy")?.call_method1("asarray", (neighbours,))?;
        let shape: Vec<usize> = array.getattr("shape")?.extract()?;
        let Some(&count) = shape.first() else {
            return Err(PyTypeError::new_err(format!(
                "neighbours: expected a row for each of {cells} cells, found {}",
                shown(neighbours)
            )));
        };
        if count < cells {
            return Err(PyValueError::new_err(format!(
                "neighbours: expected a row for each of {cells} cells, found {count}"
            )));
        }
        let flat = integers(&array.call_method1("reshape", (-1,))?, "neighbours")?;
        let width = flat.len().checked_div(count).unwrap_or(0);
        let reads = |cell: usize| {
            let row = flat.get(cell * width..(cell + 1) * width).unwrap_or(&[]);
            row.iter().filter_map(|&index| usize::try_from(index).ok()).collect::<Vec<_>>()
        };
        let regions = self.domains.pattern()?.cell_regions(domain, reads).unwrap_or_default();
        let list = |cells: Vec<u32>| PyArray1::from_iter(py, cells.into_iter().map(i64::from)).into_any();
        Ok((list(regions.interior), list(regions.boundary)))
    }

    /// A new array of zeros for this rank's cells; see `Grid.empty`.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray or Array
    ///     Of shape ``(cells,)`` or ``(cells, levels)``.
    #[pyo3(signature = (dtype=None, levels=None, *, device=None))]
    #[pyo3(text_signature = "($self, dtype='float64', levels=None, *, device=None)")]
    fn empty(
        &self,
        py: Python<'_>,
        dtype: Option<&Bound<'_, PyAny>>,
        levels: Option<&Bound<'_, PyAny>>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.domains.empty(py, dtype, levels, device)
    }

    /// Prepares an exchange of arrays like these; see `Grid.plan`. Collective.
    #[pyo3(
        signature = (*fields, axes=None, fixed=None, share=None, in_flight=None, path=None, accumulate=None, zero_halo=None, grids=None),
        text_signature = "($self, *fields, axes=None, fixed=False, share=False, in_flight=1, path='quickest', accumulate=None, zero_halo=False, grids=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "Python passes each by its name")]
    fn plan(
        &self,
        fields: &Bound<'_, PyTuple>,
        axes: Option<&Bound<'_, PyAny>>,
        fixed: Option<&Bound<'_, PyAny>>,
        share: Option<&Bound<'_, PyAny>>,
        in_flight: Option<&Bound<'_, PyAny>>,
        path: Option<&Bound<'_, PyAny>>,
        accumulate: Option<&Bound<'_, PyAny>>,
        zero_halo: Option<&Bound<'_, PyAny>>,
        grids: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Plan> {
        let given =
            PlanArguments { axes, vector: None, fixed, share, in_flight, path, accumulate, zero_halo };
        Plan::of_fields(&self.domains, grids, fields, given)
    }

    /// Prepares to take cells from their owners in this mesh to their owners in another one of the same ids, or in a grid whose
    /// cells have their numbers as ids; see `Grid.redistribute`. Collective.
    #[pyo3(signature = (target, *, fill_halo=None), text_signature = "($self, target, *, fill_halo=False)")]
    fn redistribute(
        &self,
        target: &Bound<'_, PyAny>,
        fill_halo: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Redistribution> {
        redistribute(&self.domains, target, fill_halo)
    }

    /// For `redistribute` of grids and meshes.
    #[getter]
    fn _domains(&self) -> OwnedDomains {
        OwnedDomains(Arc::clone(&self.domains))
    }

    fn __repr__(&self) -> PyResult<String> {
        let comm = self.domains.comm.get()?;
        let cells: usize =
            (0..self.domains.count()).map(|domain| self.domains.cells(domain).with_halo().extent(0)).sum();
        Ok(format!("<haloport.Mesh: {cells} cells with the halo, rank {} of {}>", comm.rank(), comm.size()))
    }
}

impl Mesh {
    fn make(
        py: Python<'_>,
        comm: Communicator,
        checked: PyResult<(Vec<IndexSet>, HaloCells)>,
    ) -> PyResult<Mesh> {
        let (sets, fill) = comm.agree(py, checked)?;
        let core = comm.get()?;
        let pattern = py.detach(|| Pattern::unstructured(core, &sets, &fill)).or_raise()?;
        Ok(Mesh::of_pattern(comm, pattern))
    }

    fn of_pattern(comm: Communicator, pattern: Pattern) -> Mesh {
        Mesh { domains: Arc::new(Domains::new(comm, pattern)) }
    }

    fn set(&self) -> PyResult<&IndexSet> {
        let domain = self.domains.single()?;
        self.domains
            .pattern()?
            .index_sets()
            .get(domain)
            .ok_or_else(|| PyValueError::new_err("there is no domain"))
    }
}

fn index_set(
    ids: &Bound<'_, PyAny>,
    owned: &Bound<'_, PyAny>,
    owners: Option<&Bound<'_, PyAny>>,
) -> PyResult<IndexSet> {
    let ids = integers(ids, "ids")?;
    let owned = marks(owned, ids.len())?;
    let set = IndexSet::in_order(ids, owned);
    let Some(owners) = owners else { return Ok(set) };
    let owners = integers(owners, "owners")?;
    if owners.len() != set.len() {
        let (cells, found) = (set.len(), owners.len());
        return Err(PyValueError::new_err(format!(
            "owners: expected one for each of the {cells} cells, found {found}; only those of halo cells are read"
        )));
    }
    let of_halo = owners.iter().zip(set.owned()).filter(|(_, owned)| !**owned);
    let ranks: Result<Vec<usize>, _> = of_halo.map(|(&rank, _)| usize::try_from(rank)).collect();
    let ranks = ranks
        .map_err(|_| PyValueError::new_err("owners: expected numbers of ranks, found a negative one"))?;
    Ok(set.with_owners(ranks))
}

/// For each of `cells` cells whether it is owned.
fn marks(owned: &Bound<'_, PyAny>, cells: usize) -> PyResult<Vec<bool>> {
    let counted = |count: &Bound<'_, PyAny>| {
        let count = count.extract().ok().filter(|count: &usize| *count <= cells);
        let count = count.ok_or_else(|| {
            PyValueError::new_err(format!(
                "owned: expected a number of cells from 0 to {cells}, found {owned}"
            ))
        })?;
        Ok((0..cells).map(|cell| cell < count).collect())
    };
    if owned.is_instance_of::<PyInt>() && !owned.is_instance_of::<PyBool>() {
        return counted(owned);
    }
    let array = owned.py().import("numpy")?.call_method1("asarray", (owned,))?;
    let (kind, size): (String, usize) =
        (array.getattr("dtype")?.getattr("kind")?.extract()?, array.getattr("size")?.extract()?);
    // A number of NumPy, or an array of one, such as the sum of a mask.
    if matches!(kind.as_str(), "i" | "u") && array.getattr("ndim")?.eq(0)? {
        return counted(&array.call_method0("item")?);
    }
    if kind != "b" && size > 0 {
        return Err(PyTypeError::new_err(format!(
            "owned: expected booleans, one for each cell, or the number of owned cells, found {}",
            array.getattr("dtype")?
        )));
    }
    if size != cells {
        return Err(PyValueError::new_err(format!(
            "owned: expected a value for each of {cells} cells, found {size}"
        )));
    }
    array.call_method1("reshape", (-1,))?.call_method0("tolist")?.extract()
}

fn halo_cells(fill: Option<&Bound<'_, PyAny>>) -> PyResult<HaloCells> {
    Ok(match fill {
        None => HaloCells::All,
        Some(fill) => HaloCells::Ids(integers(fill, "fill")?),
    })
}

/// Numbers as a list. Floats are refused, even whole ones.
fn integers(numbers: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<i64>> {
    let numpy = numbers.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (numbers,))?;
    let (kind, size): (String, usize) =
        (array.getattr("dtype")?.getattr("kind")?.extract()?, array.getattr("size")?.extract()?);
    if !matches!(kind.as_str(), "i" | "u") && size > 0 {
        return Err(PyTypeError::new_err(format!(
            "{name}: expected integers, found {} of {}",
            type_name(numbers),
            array.getattr("dtype")?
        )));
    }
    let axes: usize = array.getattr("ndim")?.extract()?;
    if axes != 1 {
        return Err(PyValueError::new_err(format!("{name}: expected one axis, found {axes}")));
    }
    // Unsigned numbers would wrap around.
    if kind == "u" && size > 0 && array.call_method0("max")?.gt(i64::MAX)? {
        return Err(PyValueError::new_err(format!(
            "{name}: expected integers below 2^63, found {}",
            array.call_method0("max")?
        )));
    }
    let options = PyDict::new(numbers.py());
    options.set_item("dtype", "int64")?;
    let array = numpy.call_method("ascontiguousarray", (array,), Some(&options))?;
    Ok(array.cast_into::<PyArray1<i64>>()?.to_vec()?)
}

/// The memory that a pattern needs for each cell at the least, in bytes: the id, whether it is owned, and its source.
const CELL_BYTES: usize = 16;

type Lists = Vec<(usize, Vec<u32>)>;

/// For each rank a list of local indices.
fn lists(lists: &Bound<'_, PyAny>, name: &str) -> PyResult<Lists> {
    let items = lists.call_method0("items").map_err(|_| {
        PyTypeError::new_err(format!(
            "{name}: expected a mapping of ranks to indices, found {}",
            type_name(lists)
        ))
    })?;
    let mut found = Vec::new();
    for item in items.try_iter()? {
        let item = item?;
        let Some([rank, cells]) = pair(&item)? else {
            return Err(PyTypeError::new_err(format!(
                "{name}: expected a mapping of ranks to indices, found the item {}",
                shown(&item)
            )));
        };
        let rank = number(&rank, name, "the number of a rank")?;
        let cells: Result<Vec<u32>, _> = integers(&cells, name)?.into_iter().map(u32::try_from).collect();
        let cells = cells.map_err(|_| {
            PyValueError::new_err(format!("{name}: expected local indices from 0 to 2^32, found others"))
        })?;
        found.push((rank, cells));
    }
    Ok(found)
}
