//! One side of a copy: cells where they lie in a field or in a message.

use std::ops::Range;
use std::sync::Arc;

use super::cut::Slab;
use crate::device::{
    Anchors, BoxCopy, CopyAxis, CopyItem, CopyRows, DeviceError, IndexedCopy, MAX_COPY_AXES, Pointer,
    SignChange,
};
use crate::domain::{MAX_AXES, Orientation};
use crate::field::{BlockLayout, BoundField, copy_axes};
use crate::pattern::Cells;

/// Cells where they lie in a field or in a message.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    /// The first of them, or row 0 where they are listed.
    pointer: Pointer,
    /// How many there are along each axis, and the bytes from one to the next.
    axes: [(usize, isize); MAX_COPY_AXES],
    /// The indices along axis 0, where they do not follow each other.
    rows: Option<Arc<[u32]>>,
    /// The number of the block of memory that copies of the cells move along with.
    block: Option<u32>,
}

impl Side {
    /// Cells of a domain of a field, which are there: the field fits the pattern.
    pub(crate) fn of_field(field: &BoundField, domain: usize, cells: &Cells) -> Side {
        let (pointer, layout) = &field.blocks[domain];
        let nothing = Side { pointer: *pointer, axes: [(0, 0); MAX_COPY_AXES], rows: None, block: None };
        let side = Side::new(*pointer, layout, cells, field.element.bytes()).unwrap_or(nothing);
        Side { block: field.anchor.map(|first| first + domain as u32), ..side }
    }

    /// Cells in a block; `None` where it does not hold them.
    pub(crate) fn new(
        pointer: Pointer,
        layout: &BlockLayout,
        cells: &Cells,
        element_bytes: usize,
    ) -> Option<Side> {
        let (region, rows) = match cells {
            Cells::Box(cells) => (*cells, None),
            Cells::List(list) => {
                let (first, past) =
                    (*list.iter().min().unwrap_or(&0), list.iter().max().map_or(0, |last| last + 1));
                let follow = list.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
                let within = layout.owned().with_axis(0, i64::from(first), i64::from(past));
                (within, (!follow).then(|| Arc::clone(list)))
            }
        };
        if !layout.allocated().encloses(&region) {
            return None;
        }
        let mut corner = region;
        let mut axes = layout.region_axes(&region, element_bytes);
        if let Some(rows) = &rows {
            corner = region.with_axis(0, 0, 1);
            axes[0].0 = rows.len();
        }
        let offset = if region.is_empty() { 0 } else { layout.offset(corner.lower(), 0)? };
        Some(Side { pointer: pointer.offset(offset * element_bytes as isize), axes, rows, block: None })
    }

    /// The same cells without gaps from `pointer` on, as one who numbers the axes as the source does packs them: with
    /// the axes in `order` from the slowest to the fastest. The axes of these cells run along those as `orientation`
    /// says.
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

    /// Where these cells begin, if they lie just as they would lie [`packed`](Side::packed).
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

    /// Cells of a source in the order of a target whose axes run along those of the source as `orientation` says.
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

    /// One of the components alone.
    fn component(&self, component: usize) -> Side {
        let mut alone = self.clone();
        alone.pointer = self.pointer.offset(component as isize * self.axes[MAX_AXES].1);
        alone.axes[MAX_AXES].0 = 1;
        alone
    }

    /// Of these cells those in `slab`, which has a range along each axis of a source, along whose axes those of the cells
    /// run as `orientation` says.
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

    /// How many there are along each axis of a source, along whose axes those of the cells run as `orientation` says.
    pub(crate) fn extents(&self, orientation: &Orientation) -> [usize; MAX_COPY_AXES] {
        std::array::from_fn(|axis| self.axes[orientation.target_axis(axis)].0)
    }

    /// The number of values.
    pub(crate) fn elements(&self) -> usize {
        self.axes.iter().map(|(extent, _)| extent).product()
    }
}

/// The copies that fill halo cells of a field from `source`, which is in the order of the target: one for all
/// components, or one for each where those of a vector come from others, or from the opposite direction.
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

/// The copy of the cells of one side to those of another.
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
