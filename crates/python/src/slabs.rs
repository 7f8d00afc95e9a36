//! Redistributions between the owners of the cells of a grid and one rank, in slabs along the first axis of the grid: memory for
//! packed cells is bounded, however large the grid is.

use haloport::device::Pointer;
use haloport::exchange::SourceTarget;
use haloport::field::{ArrayCells, ArrayShape, BlockLayout};
use haloport::interop::ArrayDescription;
use haloport::{AnyDevice, AnyField, ElementType, Grid, Halo, IndexBox, Pattern};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PySlice, PyTuple};

use crate::arrays::describe::describe;
use crate::comm::Communicator;
use crate::device::Device;
use crate::domains::Domains;
use crate::error::OrRaise;

/// Maximum size of a slab that has more than one row. Each rank packs at most its cells of one slab.
const SLAB_BYTES: usize = 64 << 20;

/// The direction in which cells move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToRoot,
    FromRoot,
}

/// The cells that move: their type, and the number of elements in each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CellType {
    pub(crate) element: ElementType,
    pub(crate) elements: usize,
}

/// The arrays of this rank, as NumPy shows them. Their first axes are those of the grid.
pub(crate) struct Ends<'a, 'py> {
    /// The owned cells of each domain.
    pub(crate) owned: &'a [Bound<'py, PyAny>],
    /// The cells of the whole grid, on rank `root` alone.
    pub(crate) whole: Option<&'a Bound<'py, PyAny>>,
}

/// An array that an exchange takes.
struct Block<'py> {
    /// The cells of the slab in the array of the caller.
    cells: Bound<'py, PyAny>,
    /// The same array, or a copy of it if no exchange takes its strides.
    taken: Bound<'py, PyAny>,
    first: Pointer,
    layout: BlockLayout,
}

/// Collective: moves all cells of a grid of this shape, which are the same on all ranks, between their owners and the rank that has
/// the whole grid.
pub(crate) fn move_cells<'py>(
    py: Python<'py>,
    domains: &Domains,
    shape: &[usize],
    cell: CellType,
    ends: &Ends<'_, 'py>,
    direction: Direction,
) -> PyResult<()> {
    let row_cells = shape[1..].iter().fold(1, |cells: usize, extent| cells.saturating_mul(*extent));
    let row_bytes = row_cells.saturating_mul(cell.elements).saturating_mul(cell.element.bytes());
    if row_bytes == 0 {
        return Ok(());
    }
    let rows = (SLAB_BYTES / row_bytes).max(1);
    let mut copied = Ok(());
    for first in (0..shape[0]).step_by(rows) {
        let (mut lower, mut upper) = (vec![0; shape.len()], shape.to_vec());
        (lower[0], upper[0]) = (first, first.saturating_add(rows).min(shape[0]));
        let signed = |corner: Vec<usize>| corner.into_iter().map(|index| index as i64).collect::<Vec<_>>();
        let slab = IndexBox::new(signed(lower), signed(upper));
        let filled = move_slab(py, domains, &slab, cell.element, ends, direction)?;
        // This rank alone may fail here, and goes on: others wait for it in the next slab.
        copied = copied.and(filled.iter().try_for_each(Block::copy_back));
    }
    copied
}

/// Collective: moves the cells of one slab. Returns the blocks that are filled.
fn move_slab<'py>(
    py: Python<'py>,
    domains: &Domains,
    slab: &IndexBox,
    element: ElementType,
    ends: &Ends<'_, 'py>,
    direction: Direction,
) -> PyResult<Vec<Block<'py>>> {
    let comm = &domains.comm;
    let own = (0..domains.count()).filter_map(|domain| domains.cells(domain).owned().intersection(slab));
    let own: Vec<IndexBox> = own.map(|cells| from_corner(&cells, slab)).collect();
    let all: Vec<IndexBox> = ends.whole.map(|_| from_corner(slab, slab)).into_iter().collect();
    let (owners, root) = patterns(py, comm, slab, [&own, &all])?;

    let made = (|| {
        let owned = (0..domains.count()).zip(ends.owned).filter_map(|(domain, array)| {
            let owned = domains.cells(domain).owned();
            Some(view(array, &from_corner(&owned.intersection(slab)?, &owned)))
        });
        let owned = blocks_of(owned, &owners, slab.axes())?;
        let whole = blocks_of(ends.whole.map(|array| view(array, slab)).into_iter(), &root, slab.axes())?;
        let device = Device::cpu(comm)?;
        let fields = (field_of(&owned, element, &device)?, field_of(&whole, element, &device)?);
        Ok((fields, owned, whole))
    })();
    let ((owned_field, whole_field), owned, whole) = comm.agree(py, made)?;
    match direction {
        Direction::ToRoot => run(py, (&owners, owned_field), (&root, whole_field))?,
        Direction::FromRoot => run(py, (&root, whole_field), (&owners, owned_field))?,
    }
    Ok(if direction == Direction::ToRoot { whole } else { owned })
}

/// Collective: the patterns of the owners of a slab and of the rank that has all of it, which differ in their boxes alone.
fn patterns(
    py: Python<'_>,
    comm: &Communicator,
    slab: &IndexBox,
    [own, all]: [&[IndexBox]; 2],
) -> PyResult<(Pattern, Pattern)> {
    let core = comm.get()?;
    py.detach(|| {
        let grid =
            Grid::new((0..slab.axes()).map(|axis| slab.extent(axis)).collect::<Vec<_>>()).or_raise()?;
        let pattern = |boxes| Pattern::structured(core, &grid, boxes, &Halo::uniform(0)).or_raise();
        Ok((pattern(own)?, pattern(all)?))
    })
}

/// Collective: takes the cells of a field of `source` to one of `target`.
fn run(
    py: Python<'_>,
    (source, from): (&Pattern, AnyField<AnyDevice>),
    (target, to): (&Pattern, AnyField<AnyDevice>),
) -> PyResult<()> {
    py.detach(|| {
        let redistribution = source.redistribute(target).or_raise()?;
        let mut exchange = redistribution.bind(SourceTarget { source: from, target: to }).or_raise()?;
        exchange.run().or_raise()
    })
}

/// The blocks of the domains of a pattern, in arrays that have their cells and no others.
fn blocks_of<'py>(
    arrays: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    pattern: &Pattern,
    axes: usize,
) -> PyResult<Vec<Block<'py>>> {
    arrays.zip(ArrayCells::of(pattern)).map(|(array, domain)| Block::new(array?, &domain, axes)).collect()
}

impl<'py> Block<'py> {
    /// The block of a domain, in an array that has its cells and no others. `axes` are those of the grid.
    fn new(cells: Bound<'py, PyAny>, domain: &ArrayCells, axes: usize) -> PyResult<Block<'py>> {
        let array = describe(&cells, true)?.array;
        if let Some(layout) = layout_of(&array, domain, axes) {
            return Ok(Block { taken: cells.clone(), cells, first: array.first(), layout });
        }
        let taken = cells.call_method1("copy", ("C",))?;
        let array = describe(&taken, true)?.array;
        let layout = layout_of(&array, domain, axes).ok_or_else(|| {
            PyValueError::new_err(format!(
                "expected cells that memory can hold, found the shape {:?}",
                array.shape()
            ))
        })?;
        Ok(Block { cells, taken, first: array.first(), layout })
    }

    /// Copies the cells to the array of the caller, if the exchange took another one.
    fn copy_back(&self) -> PyResult<()> {
        match self.taken.is(&self.cells) {
            true => Ok(()),
            false => self.cells.set_item(PyEllipsis::get(self.cells.py()), &self.taken),
        }
    }
}

/// The layout of the cells of a domain in an array, whose axes beyond those of the grid become one; `None` if no exchange takes
/// arrays with these strides.
fn layout_of(array: &ArrayDescription, domain: &ArrayCells, axes: usize) -> Option<BlockLayout> {
    let (mut extents, mut strides) = (array.shape().to_vec(), array.strides().to_vec());
    let further = extents.split_off(axes).into_iter().zip(strides.split_off(axes));
    let (elements, stride) =
        further.rev().filter(|(extent, _)| *extent != 1).try_fold((1, 1), as_one_axis)?;
    extents.push(elements);
    strides.push(stride);
    ArrayShape { extents, strides, roles: None, origin: None }.block(domain).ok().map(|(layout, _)| layout)
}

/// The extent and the stride of one axis in place of two, of which the inner one may have a single element; `None` if their elements
/// have no common stride.
fn as_one_axis(inner: (usize, isize), outer: (usize, isize)) -> Option<(usize, isize)> {
    match inner {
        (1, _) => Some(outer),
        (extent, stride) if outer.1 == stride * extent as isize => Some((extent * outer.0, stride)),
        _ => None,
    }
}

/// A field in the memory of these blocks, which it keeps alive.
fn field_of(blocks: &[Block<'_>], element: ElementType, device: &Device) -> PyResult<AnyField<AnyDevice>> {
    let at = blocks.iter().map(|block| (block.first, block.layout.clone())).collect();
    let owner: Vec<Py<PyAny>> = blocks.iter().map(|block| block.taken.clone().unbind()).collect();
    // SAFETY: each block is an array of NumPy on the host with this layout, which the owner keeps alive; the caller has checked that
    // blocks that are filled have no elements in common with others. The program leaves the arrays alone during the call.
    unsafe { device.field_at(element, &[], at, true, Box::new(owner)) }
}

/// A box as indices from the first cell of another one.
pub(crate) fn from_corner(cells: &IndexBox, other: &IndexBox) -> IndexBox {
    let from = |corner: &[i64]| -> Vec<i64> {
        corner.iter().zip(other.lower()).map(|(index, first)| index - first).collect()
    };
    IndexBox::new(from(cells.lower()), from(cells.upper()))
}

/// The cells of a box in an array, as a view of it.
pub(crate) fn view<'py>(array: &Bound<'py, PyAny>, cells: &IndexBox) -> PyResult<Bound<'py, PyAny>> {
    let bounds = cells.lower().iter().zip(cells.upper());
    let slices = bounds.map(|(&lower, &upper)| PySlice::new(array.py(), lower as isize, upper as isize, 1));
    array.get_item(PyTuple::new(array.py(), slices)?)
}
