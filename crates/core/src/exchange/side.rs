//! One side of a copy: cells where they lie in a field or in a message.

use std::sync::Arc;

use crate::device::{BoxCopy, CopyItem, DeviceError, IndexedCopy, MAX_COPY_AXES, Pointer, Rows};
use crate::field::{BlockLayout, BoundField, copy_axes};
use crate::pattern::Cells;

/// Cells where they lie in a field or in a message.
#[derive(Debug, Clone)]
pub(super) struct Side {
    /// The first of them, or row 0 where they are listed.
    pointer: Pointer,
    /// How many there are along each axis, and the bytes from one to the next.
    axes: [(usize, isize); MAX_COPY_AXES],
    /// The indices along axis 0, where they do not follow each other.
    rows: Option<Arc<[u32]>>,
}

impl Side {
    /// Cells of a domain of a field, which are there: the field fits the pattern.
    pub(super) fn of_field(field: &BoundField, domain: usize, cells: &Cells) -> Side {
        let (pointer, layout) = &field.blocks[domain];
        let nothing = Side { pointer: *pointer, axes: [(0, 0); MAX_COPY_AXES], rows: None };
        Side::new(*pointer, layout, cells, field.element.bytes()).unwrap_or(nothing)
    }

    /// Cells in a block; `None` where it does not hold them.
    pub(super) fn new(
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
        Some(Side { pointer: pointer.offset(offset * element_bytes as isize), axes, rows })
    }

    /// The same cells without gaps from `pointer` on, with the axes in `order` from the slowest to the fastest.
    pub(super) fn packed(&self, pointer: Pointer, order: &[u8; MAX_COPY_AXES], element_bytes: usize) -> Side {
        let mut axes = self.axes;
        let mut stride = element_bytes as isize;
        for &axis in order.iter().rev() {
            axes[usize::from(axis)].1 = stride;
            stride *= axes[usize::from(axis)].0 as isize;
        }
        Side { pointer, axes, rows: None }
    }

    /// The number of values.
    pub(super) fn elements(&self) -> usize {
        self.axes.iter().map(|(extent, _)| extent).product()
    }
}

/// The copy of the cells of one side to those of another.
pub(super) fn join(source: &Side, target: &Side, element_bytes: usize) -> Result<CopyItem, DeviceError> {
    let mut axes = copy_axes(&source.axes, &target.axes);
    if source.rows.is_none() && target.rows.is_none() {
        return BoxCopy::new(source.pointer, target.pointer, element_bytes, &axes).map(CopyItem::Box);
    }
    let rows = std::mem::replace(&mut axes[0].extent, 1);
    let of = |side: &Side| Rows { stride: side.axes[0].1, indices: side.rows.clone() };
    let row = BoxCopy::new(source.pointer, target.pointer, element_bytes, &axes)?;
    IndexedCopy::new(row, rows, of(source), of(target)).map(CopyItem::Indexed)
}
