//! Where the cells of a region lie, as numbers: what an access computes and checks.

use crate::domain::{IndexBox, MAX_AXES};
use crate::field::BlockLayout;

/// The cells of a region of a block, of one component each. By value, so that loops keep it in registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    region: IndexBox,
    axes: usize,
    /// From the first element of the block to that of the region's lowest cell.
    first: isize,
    lower: [i64; MAX_AXES],
    extents: [u64; MAX_AXES],
    strides: [isize; MAX_AXES],
    components: usize,
    component_stride: isize,
}

impl Place {
    /// `region` lies in what `layout` allocates.
    pub(super) fn new(layout: &BlockLayout, region: IndexBox) -> Place {
        let axes = region.axes();
        let mut place = Place {
            region,
            axes,
            first: layout.offset(region.lower(), 0).unwrap_or(0),
            lower: [0; MAX_AXES],
            extents: [1; MAX_AXES],
            strides: [1; MAX_AXES],
            components: layout.components(),
            component_stride: layout.component_stride() as isize,
        };
        for axis in 0..axes {
            place.lower[axis] = region.lower()[axis];
            place.extents[axis] = region.extent(axis) as u64;
            place.strides[axis] = layout.strides()[axis] as isize;
        }
        if region.is_empty() {
            place.extents = [0; MAX_AXES];
        }
        place
    }

    /// One component alone; `None` if there is no such component.
    pub(super) fn of_component(&self, component: usize) -> Option<Place> {
        (component < self.components).then(|| {
            let first = self.first + component as isize * self.component_stride;
            Place { first, components: 1, ..*self }
        })
    }

    #[inline]
    pub(super) fn region(&self) -> &IndexBox {
        &self.region
    }

    pub(super) fn components(&self) -> usize {
        self.components
    }

    /// Elements from the first of the block to component 0 of a cell; `None` outside of the region.
    #[inline]
    pub(super) fn offset<const N: usize>(&self, index: &[i64; N]) -> Option<isize> {
        if N != self.axes {
            return None;
        }
        let axes = self.lower.iter().zip(&self.extents).zip(&self.strides);
        let (mut offset, mut inside) = (self.first, true);
        for (at, ((lower, extent), stride)) in index.iter().zip(axes) {
            let step = at.wrapping_sub(*lower);
            inside &= (step as u64) < *extent;
            // Within the region, it does not overflow.
            offset = offset.wrapping_add((step as isize).wrapping_mul(*stride));
        }
        if inside { Some(offset) } else { None }
    }

    /// As [`offset`](Place::offset), for any number of axes.
    #[inline]
    pub(super) fn offset_of(&self, index: &[i64]) -> Option<isize> {
        match index {
            [i] => self.offset(&[*i]),
            [i, j] => self.offset(&[*i, *j]),
            [i, j, k] => self.offset(&[*i, *j, *k]),
            [i, j, k, l] => self.offset(&[*i, *j, *k, *l]),
            _ => None,
        }
    }

    /// The same of any component.
    #[inline]
    pub(super) fn component_offset(&self, index: &[i64], component: usize) -> Option<isize> {
        let offset = self.offset_of(index)?;
        (component < self.components).then(|| offset + component as isize * self.component_stride)
    }

    /// Elements from one cell to the next along an axis.
    #[inline]
    pub(super) fn stride(&self, axis: usize) -> isize {
        self.strides[axis]
    }

    /// Elements from the first of the block to that of the region's lowest cell.
    #[cfg(feature = "ndarray")]
    pub(super) fn first(&self) -> isize {
        self.first
    }

    /// Elements from one component of a cell to the next.
    #[cfg(feature = "ndarray")]
    pub(super) fn component_stride(&self) -> isize {
        self.component_stride
    }

    /// From the first element of the block to the region's, if they all lie side by side in ascending order; and how many
    /// there are.
    pub(super) fn in_one_piece(&self) -> Option<(isize, usize)> {
        if self.region.is_empty() {
            return Some((0, 0));
        }
        let mut axes = [(self.components, self.component_stride); MAX_AXES + 1];
        (0..MAX_AXES).for_each(|axis| axes[axis] = (self.extents[axis] as usize, self.strides[axis]));
        axes.sort_unstable_by_key(|(_, stride)| stride.unsigned_abs());
        let mut length = 1;
        for (extent, stride) in axes.into_iter().filter(|(extent, _)| *extent > 1) {
            if stride != length as isize {
                return None;
            }
            length *= extent;
        }
        Some((self.first, length))
    }
}
