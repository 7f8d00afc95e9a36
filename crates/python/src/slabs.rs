//! Redistributions between the owners of the cells of a grid and one rank, in slabs along the first axis of the grid: memory for
//! packed cells is bounded, however large the grid is. The arrays may have any strides.

use haloport::device::Pointer;
use haloport::exchange::SourceTarget;
use haloport::field::{ArrayCells, ArrayShape, BlockLayout};
use haloport::interop::ArrayDescription;
use haloport::pattern::Slab;
use haloport::{AnyDevice, AnyField, ElementType, Grid, IndexBox, Pattern};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PySlice, PyTuple};

use crate::arrays::describe::describe;
use crate::device::Device;
use crate::domains::Domains;
use crate::error::OrRaise;

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

/// Collective: moves all cells of a grid between their owners and the rank that has the whole grid, which is `root` on all ranks. A
/// slab of several rows has at most `limit` bytes.
pub(crate) fn move_cells<'py>(
    py: Python<'py>,
    domains: &Domains,
    (root, limit): (usize, usize),
    cell: CellType,
    ends: &Ends<'_, 'py>,
    direction: Direction,
) -> PyResult<()> {
    let (pattern, bytes) = (domains.pattern()?, cell.elements.saturating_mul(cell.element.bytes()));
    let mut slabs = py.detach(|| pattern.slabs(root, bytes, limit)).or_raise()?;
    let mut copied = Ok(());
    while let Some(slab) = py.detach(|| slabs.next_slab()).or_raise()? {
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
    slab: &Slab,
    element: ElementType,
    ends: &Ends<'_, 'py>,
    direction: Direction,
) -> PyResult<Vec<Block<'py>>> {
    let comm = &domains.comm;
    let made = (|| {
        let owned = slab.parts().iter().map(|part| {
            view(&ends.owned[part.domain], &from_corner(&part.cells, &domains.cells(part.domain).owned()))
        });
        let owned = blocks_of(owned, slab.owners())?;
        let rows = PySlice::new(py, slab.rows().start as isize, slab.rows().end as isize, 1);
        let whole = blocks_of(ends.whole.map(|array| array.get_item(rows)).into_iter(), slab.whole())?;
        let device = Device::cpu(comm)?;
        let fields = (field_of(&owned, element, &device)?, field_of(&whole, element, &device)?);
        Ok((fields, owned, whole))
    })();
    let ((owned_field, whole_field), owned, whole) = comm.agree(py, made)?;
    let (redistribution, source, target, filled) = match direction {
        Direction::ToRoot => (py.detach(|| slab.to_root()), owned_field, whole_field, whole),
        Direction::FromRoot => (py.detach(|| slab.to_owners()), whole_field, owned_field, owned),
    };
    let redistribution = redistribution.or_raise()?;
    py.detach(|| {
        let mut exchange = redistribution.bind(SourceTarget { source, target }).or_raise()?;
        exchange.run().or_raise()
    })?;
    Ok(filled)
}

/// The blocks of the domains of a pattern, in arrays that have their cells and no others.
fn blocks_of<'py>(
    arrays: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    pattern: &Pattern,
) -> PyResult<Vec<Block<'py>>> {
    let axes = pattern.grid().map_or(1, Grid::axes);
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
