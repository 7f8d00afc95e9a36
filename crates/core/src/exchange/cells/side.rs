//! One side of a copy: cells in a field or in a message; and cutting a large message into chunks.

use std::ops::Range;
use std::sync::Arc;

use crate::device::{
    Anchors, BoxCopy, CopyAxis, CopyItem, CopyRows, DeviceError, IndexedCopy, MAX_COPY_AXES, Pointer,
    SignChange,
};
use crate::domain::{MAX_AXES, Orientation};
use crate::field::{BlockLayout, BoundField, End, RowsInBox, copy_axes};
use crate::pattern::{Cells, Piece};

/// Cells in a field or in a message, with their addresses.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    /// The address of the first cell; if the cells are listed, of row 0.
    pointer: Pointer,
    /// The number of cells along each axis, and the stride in bytes.
    axes: [(usize, isize); MAX_COPY_AXES],
    /// The indices along axis 0, in steps of its stride, if the cells are not consecutive.
    rows: Option<Arc<[u32]>>,
    /// The number of the block of memory to which copies of the cells are anchored.
    block: Option<u32>,
}

/// The cells of a piece at one end of their way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceCells<'p> {
    pub(crate) domain: usize,
    pub(crate) cells: &'p Cells,
    /// Relates the axes of the cells to those of the sender.
    pub(crate) orientation: Orientation,
    pub(crate) end: End,
    /// The number of axes of the grid from which the cells are sent one by one.
    listed_along: Option<usize>,
}

impl<'p> PieceCells<'p> {
    pub(crate) fn at(end: End, piece: &'p Piece) -> PieceCells<'p> {
        let (domain, cells, orientation) = match end {
            End::Source => (piece.source_domain, &piece.source, Orientation::default()),
            End::Target => (piece.target_domain, &piece.target, piece.orientation),
        };
        let listed_along = match piece.source {
            Cells::ListInBox { axes, .. } => Some(axes),
            _ => None,
        };
        PieceCells { domain, cells, orientation, end, listed_along }
    }

    /// The order of the axes of these cells in a message, where `order` is that of the sender's memory. A list has one axis of
    /// cells, in the place of the fastest axis of the grid, and then those of the levels.
    pub(crate) fn order(&self, order: [u8; MAX_COPY_AXES]) -> [u8; MAX_COPY_AXES] {
        let Some(own) = self.listed_along else { return order };
        let own = own as u8;
        let fastest = order.into_iter().rfind(|&axis| axis < own);
        let along = order.into_iter().filter_map(|axis| match axis {
            axis if Some(axis) == fastest => Some(0),
            axis if axis < own => None,
            axis if usize::from(axis) < MAX_AXES => Some(axis - own + 1),
            components => Some(components),
        });
        // Axes beyond the levels that a field can have come first, where they have no effect.
        let missing = MAX_AXES as u8 + 1 - own..MAX_AXES as u8;
        let mut all = missing.chain(along);
        std::array::from_fn(|_| all.next().unwrap_or_default())
    }
}

impl Side {
    /// The cells of a piece in a field that fits the pattern, and so holds them; none if the piece is one of another pattern of
    /// a set.
    pub(crate) fn of_piece(
        field: &BoundField,
        PieceCells { domain, cells, end, .. }: PieceCells<'_>,
    ) -> Side {
        let nothing = |pointer| Side { pointer, axes: [(0, 0); MAX_COPY_AXES], rows: None, block: None };
        let Some(((pointer, layout), block)) = field.block(end, domain) else {
            return nothing(Pointer::new(std::ptr::null_mut()));
        };
        let side = Side::new(*pointer, layout, cells, field.element.bytes());
        Side { block, ..side.unwrap_or_else(|| nothing(*pointer)) }
    }

    /// The `cells` in the block at `pointer`; `None` if it does not hold them.
    pub(crate) fn new(
        pointer: Pointer,
        layout: &BlockLayout,
        cells: &Cells,
        element_bytes: usize,
    ) -> Option<Side> {
        let (region, rows) = match cells {
            Cells::ListInBox { axes, numbers } => {
                return Side::of_list_in_box(pointer, layout, (*axes, numbers), element_bytes);
            }
            Cells::Box(cells) => (layout.with_levels(cells), None),
            Cells::List(list) => {
                let (first, past) =
                    (*list.iter().min().unwrap_or(&0), list.iter().max().map_or(0, |last| last + 1));
                let (first, past) = (i64::from(first), i64::from(past));
                let follow = list.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]))
                    && layout.have_one_stride(first, past);
                let within = layout.owned().with_axis(0, first, past);
                (within, (!follow).then(|| layout.rows(list)))
            }
        };
        if !layout.allocated().encloses(&region) {
            return None;
        }
        let mut corner = region;
        let mut axes = layout.region_axes(&region, element_bytes);
        if let Some((stride, rows)) = &rows {
            corner = region.with_axis(0, 0, 1);
            axes[0] = (rows.len(), *stride as isize * element_bytes as isize);
        }
        let offset = if region.is_empty() { 0 } else { layout.offset(corner.lower(), 0)? };
        let rows = rows.map(|(_, rows)| rows);
        Some(Side { pointer: pointer.offset(offset * element_bytes as isize), axes, rows, block: None })
    }

    /// As [`new`](Side::new), of cells with these numbers in a box. They are rows along axis 0, as those of a list are, and the
    /// levels follow from axis 1 on.
    fn of_list_in_box(
        pointer: Pointer,
        layout: &BlockLayout,
        (axes, numbers): (usize, &[u32]),
        element_bytes: usize,
    ) -> Option<Side> {
        let RowsInBox { first, step, rows, levels } = layout.rows_in_box(axes, numbers)?;
        let in_bytes = |stride: i64| stride as isize * element_bytes as isize;
        let along: [(usize, isize); MAX_COPY_AXES] = std::array::from_fn(|axis| match axis {
            0 => (rows.len(), in_bytes(step)),
            MAX_AXES => (layout.components(), in_bytes(layout.component_stride())),
            _ => (levels[axis - 1].0, in_bytes(levels[axis - 1].1)),
        });
        let follow = rows.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
        let skipped = rows.first().filter(|_| follow).map_or(0, |&row| i64::from(row) * step);
        let pointer = pointer.offset(in_bytes(first + skipped));
        Some(Side { pointer, axes: along, rows: (!follow).then_some(rows), block: None })
    }

    /// The same cells packed without gaps from `pointer` on. `order` lists the axes, in the source's numbering, from
    /// the slowest to the fastest; `orientation` relates the axes of these cells to those of the source.
    pub(crate) fn packed(
        &self,
        pointer: Pointer,
        order: &[u8; MAX_COPY_AXES],
        element_bytes: usize,
        orientation: &Orientation,
    ) -> Side {
        let mut packed = Side { pointer, axes: [(0, 0); MAX_COPY_AXES], rows: None, block: None };
        let mut stride = element_bytes as isize;
        for &axis in order.iter().rev() {
            let extent = self.axes[orientation.target_axis(usize::from(axis))].0;
            packed.axes[usize::from(axis)] = (extent, stride);
            stride *= extent as isize;
        }
        packed.turned(orientation)
    }

    /// Returns the address of these cells if they already lie as [`packed`](Side::packed) would lay them out.
    pub(crate) fn packed_in_place(
        &self,
        order: &[u8; MAX_COPY_AXES],
        element_bytes: usize,
        orientation: &Orientation,
    ) -> Option<Pointer> {
        let packed = self.packed(self.pointer, order, element_bytes, orientation);
        let lies_so = |(here, there): (&(usize, isize), &(usize, isize))| here.0 <= 1 || here.1 == there.1;
        let in_place = self.rows.is_none()
            && packed.pointer == self.pointer
            && self.axes.iter().zip(&packed.axes).all(lies_so);
        in_place.then_some(self.pointer)
    }

    /// Reorders cells of a source for a target; `orientation` relates the axes of the target to those of the source.
    pub(crate) fn turned(self, orientation: &Orientation) -> Side {
        if !orientation.is_turned() {
            return self;
        }
        let source = self.axes;
        let mut turned = self;
        for axis in 0..MAX_AXES {
            let (along, reversed) = orientation.source_axis(axis);
            let (extent, stride) = source[along];
            turned.axes[axis] = (extent, stride);
            if reversed && extent > 0 {
                turned.pointer = turned.pointer.offset((extent as isize - 1) * stride);
                turned.axes[axis].1 = -stride;
            }
        }
        turned
    }

    /// As many cells as these, all of them the one at `pointer`.
    pub(crate) fn repeated(&self, pointer: Pointer) -> Side {
        Side { pointer, axes: self.axes.map(|(extent, _)| (extent, 0)), rows: None, block: None }
    }

    /// One of the components only.
    fn component(&self, component: usize) -> Side {
        let mut alone = self.clone();
        alone.pointer = self.pointer.offset(component as isize * self.axes[MAX_AXES].1);
        alone.axes[MAX_AXES].0 = 1;
        alone
    }

    /// Those of these cells that lie in `slab`, a range along each axis of the source. `orientation` relates the axes
    /// of these cells to those of the source.
    pub(crate) fn within(&self, slab: &Slab, orientation: &Orientation) -> Side {
        let mut part = self.clone();
        for (axis, (extent, stride)) in self.axes.into_iter().enumerate() {
            let (along, reversed) = orientation.source_axis(axis);
            let Range { start, end } = slab[along].clone();
            let taken = if reversed { extent - end..extent - start } else { start..end };
            part.axes[axis].0 = taken.len();
            match &self.rows {
                Some(rows) if axis == 0 => part.rows = Some(rows[taken].into()),
                _ => part.pointer = part.pointer.offset(taken.start as isize * stride),
            }
        }
        part
    }

    /// The number of cells along each axis of the source. `orientation` relates the axes of these cells to those of the
    /// source.
    pub(crate) fn extents(&self, orientation: &Orientation) -> [usize; MAX_COPY_AXES] {
        std::array::from_fn(|axis| self.axes[orientation.target_axis(axis)].0)
    }

    /// The number of values.
    pub(crate) fn elements(&self) -> usize {
        self.axes.iter().map(|(extent, _)| extent).product()
    }
}

/// Adds the copies that fill the halo cells `target` of a field from `source`, which is in the order of the target: one
/// copy for all components, or one for each component if axes are turned and the field has vectors, whose components
/// are then exchanged or change their sign.
pub(crate) fn fill(
    items: &mut Vec<CopyItem>,
    source: &Side,
    target: &Side,
    field: &BoundField,
    orientation: &Orientation,
) -> Result<(), DeviceError> {
    let size = field.element.bytes();
    if field.vector.is_empty() || !orientation.is_turned() {
        items.push(join(source, target, size, None)?);
        return Ok(());
    }
    for component in 0..target.axes[MAX_AXES].0 {
        let (from, reversed) = field.vector.source(component, orientation);
        let change = if reversed { field.element.sign_change() } else { None };
        items.push(join(&source.component(from), &target.component(component), size, change)?);
    }
    Ok(())
}

/// Returns the copy from the cells of one side to those of the other.
pub(crate) fn join(
    source: &Side,
    target: &Side,
    element_bytes: usize,
    change: Option<SignChange>,
) -> Result<CopyItem, DeviceError> {
    let mut axes = copy_axes(&source.axes, &target.axes);
    let box_copy = |axes: &[CopyAxis]| {
        let copy = BoxCopy::new(source.pointer, target.pointer, element_bytes, axes)?;
        let copy = copy.anchored(Anchors { source: source.block, target: target.block });
        change.map_or(Ok(copy), |change| copy.with_sign_change(change))
    };
    if source.rows.is_none() && target.rows.is_none() {
        return box_copy(&axes).map(CopyItem::Box);
    }
    let rows = std::mem::replace(&mut axes[0].extent, 1);
    let of = |side: &Side| CopyRows { stride: side.axes[0].1, indices: side.rows.clone() };
    IndexedCopy::new(box_copy(&axes)?, rows, of(source), of(target)).map(CopyItem::Indexed)
}

// Cutting a large message into chunks.
//
// Both ends cut in the same way, since both know the pieces of the pattern in their order, the size of the elements,
// and the order of the axes in the message, which is that of the sender's memory. Whole pieces are gathered until a
// chunk is full. A piece larger than a chunk is cut across its slowest axis into slabs; if a single layer is still too
// large, it is cut across the next axis. A list of cells is cut along the list. The components of a cell stay
// together, because they may be exchanged with one another if axes are turned.

/// Alignment in bytes of a piece in a message, so that it begins on a cache line of its own.
pub(crate) const ALIGNMENT: usize = 64;

/// A part of a piece: a range along each axis, in the sender's numbering.
pub(crate) type Slab = [Range<usize>; MAX_COPY_AXES];

/// The shape of a piece in a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedShape {
    /// The number of cells along each axis, in the sender's numbering.
    pub(crate) along: [usize; MAX_COPY_AXES],
    /// The axes from the slowest to the fastest in the message.
    pub(crate) order: [u8; MAX_COPY_AXES],
    pub(crate) element_bytes: usize,
}

/// Cuts a message of `pieces` into chunks of at most `max_bytes`; a single cell may exceed that. For each chunk, lists
/// the number of each piece in it and the slab of that piece. Pieces stay in order; those without cells are left out.
pub(crate) fn cut(pieces: &[PackedShape], max_bytes: usize) -> Vec<Vec<(usize, Slab)>> {
    let mut chunks: Vec<Vec<(usize, Slab)>> = Vec::new();
    let mut filled = 0usize;
    for (number, piece) in pieces.iter().enumerate() {
        piece.split(piece.along.map(|extent| 0..extent), max_bytes, &mut |slab| {
            let bytes = piece.bytes(&slab);
            let begin = filled.next_multiple_of(ALIGNMENT);
            match chunks.last_mut() {
                Some(chunk) if begin + bytes <= max_bytes => {
                    chunk.push((number, slab));
                    filled = begin + bytes;
                }
                _ => {
                    chunks.push(vec![(number, slab)]);
                    filled = bytes;
                }
            }
        });
    }
    chunks
}

impl PackedShape {
    /// Splits `part` into slabs of at most `max_bytes`, and calls `take` with each in order.
    fn split(&self, part: Slab, max_bytes: usize, take: &mut impl FnMut(Slab)) {
        let bytes = self.bytes(&part);
        let axes = self.order.iter().map(|&axis| usize::from(axis));
        let slowest = axes.filter(|&axis| axis < MAX_AXES).find(|&axis| part[axis].len() > 1);
        let Some(axis) = slowest.filter(|_| bytes > max_bytes) else {
            if bytes > 0 {
                take(part);
            }
            return;
        };
        let Range { start, end } = part[axis].clone();
        let layers = (max_bytes / (bytes / (end - start))).max(1);
        for begin in (start..end).step_by(layers) {
            let mut slab = part.clone();
            slab[axis] = begin..end.min(begin + layers);
            self.split(slab, max_bytes, take);
        }
    }

    fn bytes(&self, slab: &Slab) -> usize {
        slab.iter().map(Range::len).product::<usize>() * self.element_bytes
    }
}
