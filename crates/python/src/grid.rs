//! Structured grids.

use std::sync::Arc;

use haloport::{IndexBox, Pattern};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice, PyTuple};

use crate::arguments::{count, shown};
use crate::comm::Communicator;
use crate::domains::{Domains, OwnedDomains};
use crate::error::OrRaise;
use crate::grid_arguments::{Checked, CutAxes, core_grid, one_shape};
use crate::plan::{Plan, PlanArguments};
use crate::redistribution::{Redistribution, redistribute};
use crate::whole::{self, Options};

/// A structured grid that is distributed over the ranks. Collective.
///
/// Arrays have the cells of this rank and of its halo; axis ``k`` of an array runs along axis ``k`` of the grid, and
/// further axes, such as levels, come after those of the grid. Halo cells beyond an end of the grid that is not periodic
/// are left untouched.
///
/// Parameters
/// ----------
/// shape : sequence of int
///     The number of cells along each of 1 to 4 axes.
/// halo : int, sequence of int or sequence of (int, int)
///     The width of the halo in cells: everywhere, for each axis, or for the lower and the upper side of each axis. Here, in
///     ``periodic`` and in ``parts`` one value stands for all axes, and a sequence has exactly one for each.
/// periodic : bool or sequence of bool
///     Whether the grid is periodic, along all axes or along each, where 0 and 1 stand for False and True.
/// corners : bool
///     Whether halos have corners, as stencils with diagonals need; if not, exchanges are a little quicker.
/// parts : int or sequence of int, optional
///     The number of parts along all axes or along each; their product is the number of ranks. By default the split with
///     the least surface.
/// domains : sequence of (lower, upper), optional
///     The boxes of cells that this rank owns, in place of a split: the first cell, and one past the last, along each axis.
///     Those of all ranks cover the grid. With several, or none, a field is a list of arrays.
/// like : Grid, optional
///     Another grid, in place of a split: this one is cut as that one is, and ends elsewhere, as the nodes of a staggered grid
///     do, of which there is one more than cells along an axis.
/// clipped : bool
///     Whether halos have no cells beyond ends of the grid that are not periodic. The stencil of cells at such an end then
///     reaches beyond the array, although `interior` has them.
/// cubed_sphere : bool
///     Whether the grid is a cubed sphere: axis 0 are its six tiles, the last two axes have the same extent, and an axis of levels
///     may lie between. Halos cross the edges of tiles, where an axis of one tile may go on as another axis of the next, or in the other direction.
/// fold : str, optional
///     A tripolar grid: the upper end of the last axis but one, y, is folded onto itself along the last one, x, which is
///     then periodic: about centres of cells, ``"cell"`` (ORCA2, ORCA025, ORCA12), or about corners, ``"corner"`` (ORCA05,
///     ORCA1, MOM, POP).
/// points : str
///     Of a tripolar grid, the points of its fields: ``"cells"`` (T), ``"east-edges"`` (U), ``"north-edges"`` (V) or
///     ``"corners"`` (F).
/// comm : mpi4py.MPI.Comm, int, Communicator or None
///     The ranks; see `Communicator`. A Cartesian communicator of mpi4py, or a `Communicator` made of one, also says,
///     unless the call does, how the grid is cut along its first axes, and along which it is periodic. The number of its
///     handle does not.
///
/// Raises
/// ------
/// RefusedError
///     On all ranks, if they disagree.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct Grid {
    domains: Arc<Domains>,
    shape: Vec<usize>,
    periodic: Vec<bool>,
    halo: Vec<(usize, usize)>,
}

#[pymethods]
impl Grid {
    #[new]
    #[pyo3(
        signature = (
            shape, *more, halo=None, periodic=None, corners=None, parts=None, domains=None, like=None, clipped=None,
            cubed_sphere=None, fold=None, points=None, comm=None
        ),
        text_signature = "(shape, *, halo=1, periodic=False, corners=True, parts=None, domains=None, like=None, \
                          clipped=False, cubed_sphere=False, fold=None, points='cells', comm=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn py_new(
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        more: &Bound<'_, PyTuple>,
        halo: Option<&Bound<'_, PyAny>>,
        periodic: Option<&Bound<'_, PyAny>>,
        corners: Option<&Bound<'_, PyAny>>,
        parts: Option<&Bound<'_, PyAny>>,
        domains: Option<&Bound<'_, PyAny>>,
        like: Option<&Bound<'_, PyAny>>,
        clipped: Option<&Bound<'_, PyAny>>,
        cubed_sphere: Option<&Bound<'_, PyAny>>,
        fold: Option<&Bound<'_, PyAny>>,
        points: Option<&Bound<'_, PyAny>>,
        comm: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Grid> {
        let comm = Communicator::of(comm, py)?;
        let checked = one_shape(shape, more).and_then(|shape| {
            let cart = comm.cartesian().map(|cart| CutAxes::of(cart, py, shape.len())).transpose()?;
            let is_split = parts.is_none() && domains.is_none() && like.is_none();
            let parts = cart.as_ref().filter(|_| is_split).map(|cart| cart.parts.as_any()).or(parts);
            let periodic = periodic.or(cart.as_ref().map(|cart| cart.periodic.as_any()));
            let (grid, periodic) = core_grid(&shape, periodic, cubed_sphere, (fold, points))?;
            let like = like.map(Grid::domains_of).transpose()?;
            let checked =
                Checked::new(&comm, grid, (halo, corners, clipped), periodic, (parts, domains), like)?;
            Ok((shape, checked))
        });
        let (shape, checked) = comm.agree(py, checked)?;
        let Checked { grid, halo, widths, periodic, boxes } = checked;
        let core = comm.get()?;
        let pattern = py.detach(|| Pattern::structured(core, &grid, &boxes, &halo)).or_raise()?;
        Ok(Grid { domains: Arc::new(Domains::new(comm, pattern)), shape, periodic, halo: widths })
    }

    /// The ranks.
    #[getter]
    fn comm(&self) -> Communicator {
        self.domains.comm.clone()
    }

    /// The number of cells of the whole grid along each axis.
    #[getter]
    fn global_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// Whether each axis is periodic.
    #[getter]
    fn periodic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.periodic)
    }

    /// The width of the halo below and above, along each axis.
    #[getter]
    fn halo<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.halo)
    }

    /// The boxes of cells that this rank owns: for each the first cell, and one past the last, along each axis.
    #[getter]
    fn domains<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyTuple>, Bound<'py, PyTuple>)>> {
        (0..self.domains.count())
            .map(|domain| {
                let owned = self.domains.cells(domain).owned();
                Ok((PyTuple::new(py, owned.lower())?, PyTuple::new(py, owned.upper())?))
            })
            .collect()
    }

    /// The first cell that this rank owns, along each axis of the grid.
    #[getter]
    fn lower<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.domains.cells(self.domains.single()?).owned().lower())
    }

    /// One past the last cell that this rank owns, along each axis of the grid.
    #[getter]
    fn upper<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.domains.cells(self.domains.single()?).owned().upper())
    }

    /// The extents of this rank's arrays along the axes of the grid: its cells and the halo.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let cells = self.domains.cells(self.domains.single()?).with_halo();
        PyTuple::new(py, (0..cells.axes()).map(|axis| if cells.is_empty() { 0 } else { cells.extent(axis) }))
    }

    /// The slices of an array with the cells that this rank owns: ``u[grid.owned]``.
    #[getter]
    fn owned<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.slices(py, &self.domains.cells(self.domains.single()?).owned())
    }

    /// The slices of an array with the owned cells whose stencil, as wide as the halo, needs no cell that an exchange
    /// fills: they can be computed while halos travel.
    #[getter]
    fn interior<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let domain = self.domains.single()?;
        let owned = self.domains.cells(domain).owned();
        let regions = self.domains.pattern()?.regions(domain);
        let interior = regions.and_then(|regions| regions.interior);
        self.slices(py, &interior.unwrap_or_else(|| IndexBox::new(owned.lower(), owned.lower())))
    }

    /// The slices with the other owned cells, as disjoint boxes, at most two for each axis.
    #[getter]
    fn boundary<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let regions = self.domains.pattern()?.regions(self.domains.single()?);
        regions
            .into_iter()
            .flat_map(|regions| regions.boundary)
            .map(|cells| self.slices(py, &cells))
            .collect()
    }

    /// The indices in the whole grid of the cells of an array, with the halo, along each axis, for broadcasting:
    /// ``x, y = grid.indices()`` gives arrays of shape ``(m, 1)`` and ``(1, n)``. Beyond a periodic end they continue
    /// from the other.
    ///
    /// Parameters
    /// ----------
    /// domain : int, optional
    ///     The number of the domain, if this rank has several.
    ///
    /// Returns
    /// -------
    /// tuple of numpy.ndarray of int64
    #[pyo3(signature = (domain=None))]
    fn indices<'py>(
        &self,
        py: Python<'py>,
        domain: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let domain = domain.map_or_else(
            || self.domains.single(),
            |domain| {
                let domain = count(domain, "domain")?;
                if domain < self.domains.count() {
                    Ok(domain)
                } else {
                    Err(PyValueError::new_err(format!(
                        "domain: expected one of the {} domains of this rank, found {domain}",
                        self.domains.count()
                    )))
                }
            },
        )?;
        let cells = self.domains.cells(domain).with_halo();
        let numpy = py.import("numpy")?;
        let axes = cells.axes();
        let indices = (0..axes).map(|axis| {
            let (lower, upper) = (cells.lower()[axis], cells.upper()[axis]);
            let options = PyDict::new(py);
            options.set_item("dtype", "int64")?;
            let mut index = numpy.call_method("arange", (lower, upper), Some(&options))?;
            if self.periodic[axis] && self.shape[axis] > 0 {
                index = index.call_method1("__mod__", (self.shape[axis],))?;
            }
            let shape = (0..axes).map(|other| if other == axis { -1 } else { 1 });
            index.call_method1("reshape", (PyTuple::new(py, shape)?,))
        });
        PyTuple::new(py, indices.collect::<PyResult<Vec<_>>>()?)
    }

    /// A new array of zeros for this rank's cells and their halo. On the CPU it is an array of NumPy, in memory from which
    /// neighbours on this node can copy straight if a plan is made with ``fixed=True``. They do where that is quicker than
    /// packing, as it is for all but thin or short halos; `Plan.traffic` tells.
    ///
    /// Parameters
    /// ----------
    /// dtype : dtype-like
    ///     The type of an element.
    /// levels : int, optional
    ///     The extent of a further, last axis.
    /// device : str, Device or dpctl.SyclQueue, optional
    ///     The device; by default the CPU. On others the array is an `Array`.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray or Array
    ///     Of shape ``grid.shape``, and the levels. On a rank with several domains, a list of arrays; on one without
    ///     domains, an array without cells.
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

    /// Prepares an exchange of arrays like these. Collective; the ranks may have different strides.
    ///
    /// Parameters
    /// ----------
    /// *fields : arrays or Layout
    ///     The arrays, or their layouts.
    /// axes : sequence of int or str, optional
    ///     What each axis of the arrays is; see `Layout`.
    /// vector : sequence, optional
    ///     For each field None, or the axis of the grid along which each of its first components points: an int, or a
    ///     sequence of them. Across the edges of a cubed sphere and the fold of a tripolar grid, these components are
    ///     exchanged and change their signs. By default all fields are scalars.
    /// fixed : bool
    ///     Whether the plan keeps these arrays: neighbours on the same node can then copy straight from arrays of `empty`,
    ///     and the plan is called without arrays.
    /// share : bool
    ///     Whether neighbours on the same node may copy straight from other arrays of a fixed plan as well, such as those of
    ///     NumPy; not from arrays on a file, which are refused, or on a device. The plan moves the pages that hold nothing but an
    ///     array; addresses and content stay. While the plan is made or freed, no other thread writes the arrays or what lies
    ///     between their elements, and no other exchange of them is in flight. As long as it exists, no device or other package has
    ///     registered their memory.
    /// in_flight : int
    ///     How many exchanges can be started and not finished at once, from 1 to 64. They may be finished in any order,
    ///     but before each start the one that many starts earlier must have been.
    /// path : str
    ///     How data gets to other ranks: ``"direct"``, ``"shared"``, ``"messages"`` or ``"stream-messages"``; an error tells
    ///     why if that is not possible. ``"quickest"``, the default, is the quickest path that is. `Plan.describe` tells.
    /// accumulate : {"sum", "min", "max", "replace"}, optional
    ///     Turns the exchange round: each halo cell goes to its owner, where it is combined with the owner's value and those of
    ///     other halos, in a fixed order; with ``"replace"``, each owned cell has at most one halo cell. Until the exchange has
    ///     finished, the program leaves the halo as it is.
    /// zero_halo : bool
    ///     Whether the halo is set to zero after it was accumulated.
    /// grids : sequence of Grid or Mesh, optional
    ///     The grid or the mesh of each field, if not all are of this one: other points of a staggered or tripolar grid, other widths
    ///     of the halo, cells and edges of a mesh. All are of one communicator. All fields travel in one message to each neighbour.
    ///
    /// Returns
    /// -------
    /// Plan
    #[pyo3(
        signature = (*fields, axes=None, vector=None, fixed=None, share=None, in_flight=None, path=None, accumulate=None, zero_halo=None, grids=None),
        text_signature = "($self, *fields, axes=None, vector=None, fixed=False, share=False, in_flight=1, path='quickest', accumulate=None, zero_halo=False, grids=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "Python passes each by its name")]
    fn plan(
        &self,
        fields: &Bound<'_, PyTuple>,
        axes: Option<&Bound<'_, PyAny>>,
        vector: Option<&Bound<'_, PyAny>>,
        fixed: Option<&Bound<'_, PyAny>>,
        share: Option<&Bound<'_, PyAny>>,
        in_flight: Option<&Bound<'_, PyAny>>,
        path: Option<&Bound<'_, PyAny>>,
        accumulate: Option<&Bound<'_, PyAny>>,
        zero_halo: Option<&Bound<'_, PyAny>>,
        grids: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Plan> {
        let given = PlanArguments { axes, vector, fixed, share, in_flight, path, accumulate, zero_halo };
        Plan::of_fields(&self.domains, grids, fields, given)
    }

    /// Prepares to take cells from their owners in this grid to their owners in another one of as many cells along each axis: a
    /// transpose, fewer ranks for output, new parts for load balance. Whether the grids are periodic or folded, and their
    /// halos, may differ. In a mesh, the cells have their numbers in this grid as ids, as `numpy.ravel_multi_index` counts
    /// them: from 0, the last axis fastest. Collective.
    ///
    /// Parameters
    /// ----------
    /// target : Grid or Mesh
    ///     The other grid, or the mesh, on the same communicator.
    /// fill_halo : bool
    ///     Whether the halo of the target is filled as well. If not, it keeps its values. Not from a mesh to a grid: exchange
    ///     the halo afterwards.
    ///
    /// Returns
    /// -------
    /// Redistribution
    ///     Its `plan` takes arrays.
    ///
    /// Raises
    /// ------
    /// RefusedError
    ///     On all ranks, with a cell where there is one, if the two do not have the same cells.
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

    /// The owned cells of a field of all ranks as one array on one rank, for pictures and output. Collective. The halo of the field
    /// is not read. An array on a device is contiguous, and copied to the host after the work in the stream of its package; the call
    /// blocks until that is done.
    ///
    /// Cells move in slabs along the first axis of the grid. Beyond the arrays, each rank needs memory for its cells of one slab: of
    /// `limit` bytes, or of one row (one tile of a cubed sphere) if that is larger.
    ///
    /// Parameters
    /// ----------
    /// field : array, or sequence of arrays
    ///     The array of this rank, of shape ``grid.shape`` and further axes, which are the same on all ranks; on a rank with
    ///     several domains one for each, on one without domains anything.
    /// root : int
    ///     The rank that gets the array.
    /// into : numpy.ndarray, optional
    ///     On rank `root` an array to fill and return, of shape ``grid.global_shape`` and the further axes, of the dtype of the field
    ///     and with any strides; on other ranks it is ignored. By default a new array.
    /// limit : int
    ///     The most bytes of a slab of several rows, the same on all ranks.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray or None
    ///     Of shape ``grid.global_shape`` and the further axes; ``None`` on other ranks.
    ///
    /// Raises
    /// ------
    /// RefusedError
    ///     On all ranks, if an array of some rank does not fit; that rank gets its own exception.
    #[pyo3(
        signature = (field, *, root=None, into=None, limit=None),
        text_signature = "($self, field, *, root=0, into=None, limit=67108864)"
    )]
    fn gather<'py>(
        &self,
        field: &Bound<'py, PyAny>,
        root: Option<&Bound<'py, PyAny>>,
        into: Option<&Bound<'py, PyAny>>,
        limit: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        whole::gather(&self.domains, &self.shape, field, Options { root, into, limit })
    }

    /// A field with the cells of an array of one rank, for initial data. Collective. Cells move in slabs, as for `gather`.
    ///
    /// Parameters
    /// ----------
    /// whole : array or None
    ///     On rank `root` an array of shape ``grid.global_shape`` and further axes, contiguous if it is on a device; on other
    ///     ranks it is ignored.
    /// root : int
    ///     The rank that has the array.
    /// into : numpy.ndarray or sequence of numpy.ndarray, optional
    ///     A field of this grid to fill and return, of the further axes and the dtype of `whole` and with any strides; on a rank
    ///     without domains anything. Its halo keeps its values. By default a new field, whose halo is zeros.
    /// limit : int
    ///     The most bytes of a slab of several rows, the same on all ranks.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray or list of numpy.ndarray
    ///     `into`, or a field as of `empty`.
    ///
    /// Raises
    /// ------
    /// RefusedError
    ///     On all ranks, if an array of some rank does not fit; that rank gets its own exception.
    #[pyo3(
        signature = (whole, *, root=None, into=None, limit=None),
        text_signature = "($self, whole, *, root=0, into=None, limit=67108864)"
    )]
    fn scatter<'py>(
        &self,
        whole: &Bound<'py, PyAny>,
        root: Option<&Bound<'py, PyAny>>,
        into: Option<&Bound<'py, PyAny>>,
        limit: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        whole::scatter(&self.domains, &self.shape, whole, Options { root, into, limit })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let comm = self.domains.comm.get()?;
        let [shape, halo, periodic] = [self.global_shape(py)?, self.halo(py)?, self.periodic(py)?];
        let (rank, ranks) = (comm.rank(), comm.size());
        Ok(format!("<haloport.Grid {shape}, halo {halo}, periodic {periodic}, rank {rank} of {ranks}>"))
    }
}

impl Grid {
    /// The domains of the argument `like`.
    fn domains_of(like: &Bound<'_, PyAny>) -> PyResult<Arc<Domains>> {
        let grid = like
            .cast::<Grid>()
            .map_err(|_| PyTypeError::new_err(format!("like: expected a Grid, found {}", shown(like))))?;
        Ok(Arc::clone(&grid.get().domains))
    }

    /// Cells as slices of the array of the one domain.
    fn slices<'py>(&self, py: Python<'py>, cells: &IndexBox) -> PyResult<Bound<'py, PyTuple>> {
        let first = self.domains.cells(self.domains.single()?).with_halo();
        let slices = (0..cells.axes()).map(|axis| {
            let origin = first.lower()[axis];
            let (lower, upper) = (cells.lower()[axis] - origin, cells.upper()[axis] - origin);
            match cells.is_empty() {
                true => PySlice::new(py, 0, 0, 1),
                false => PySlice::new(py, lower as isize, upper as isize, 1),
            }
        });
        PyTuple::new(py, slices)
    }
}
