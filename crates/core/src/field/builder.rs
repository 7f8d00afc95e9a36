//! Making fields with other than the default layout.

use std::marker::PhantomData;

use super::{BlockLayout, Field, FieldError};
use crate::device::{Device, MemoryKind};
use crate::domain::{IndexBox, MAX_AXES};
use crate::element::Element;
use crate::pattern::Pattern;

/// Where the components of a cell lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ComponentPlace {
    /// Side by side: an array of structures.
    #[default]
    Fastest,
    /// Each component is a block of its own: a structure of arrays.
    Slowest,
}

/// Describes a field before it is made; from [`Field::builder`].
#[derive(Debug, Clone)]
pub struct FieldBuilder<T, D> {
    owned: Vec<IndexBox>,
    lower: [i64; MAX_AXES],
    upper: [i64; MAX_AXES],
    axes: usize,
    components: usize,
    place: ComponentPlace,
    order: Option<Vec<usize>>,
    padding: Option<Vec<usize>>,
    wider: usize,
    kind: MemoryKind,
    made: PhantomData<fn() -> (T, D)>,
}

impl<T: Element, D: Device> FieldBuilder<T, D> {
    pub(super) fn new(pattern: &Pattern) -> FieldBuilder<T, D> {
        let widths = pattern.widths();
        FieldBuilder {
            owned: pattern.domains().to_vec(),
            lower: widths.lower,
            upper: widths.upper,
            axes: pattern.grid().axes(),
            components: 1,
            place: ComponentPlace::default(),
            order: None,
            padding: None,
            wider: 0,
            kind: MemoryKind::default(),
            made: PhantomData,
        }
    }

    /// The number of values of each cell, and where they lie.
    #[must_use]
    pub fn components(mut self, components: usize, place: ComponentPlace) -> Self {
        self.components = components;
        self.place = place;
        self
    }

    /// The axes from the slowest to the fastest in memory; `[0, 1, 2]` if not said, the last axis fastest.
    #[must_use]
    pub fn axis_order(mut self, order: impl AsRef<[usize]>) -> Self {
        self.order = Some(order.as_ref().to_vec());
        self
    }

    /// Cells of memory left unused after those of each axis: padded strides.
    #[must_use]
    pub fn padding(mut self, cells: impl AsRef<[usize]>) -> Self {
        self.padding = Some(cells.as_ref().to_vec());
        self
    }

    /// Cells of margin on every side beyond the pattern's halo.
    #[must_use]
    pub fn wider_margin(mut self, cells: usize) -> Self {
        self.wider = cells;
        self
    }

    /// The kind of memory.
    #[must_use]
    pub fn memory(mut self, kind: MemoryKind) -> Self {
        self.kind = kind;
        self
    }

    /// Allocates the field, filled with zeros.
    ///
    /// # Errors
    /// [`FieldError::Layout`] for an axis order that is no permutation, lists of the wrong length, or 0
    /// components; [`FieldError::Device`] where there is no memory.
    pub fn build(self, device: &D) -> Result<Field<T, D>, FieldError> {
        let layouts = self.owned.iter().map(|owned| self.layout(owned)).collect::<Result<_, _>>()?;
        Field::allocate(device, layouts, self.kind)
    }

    fn layout(&self, owned: &IndexBox) -> Result<BlockLayout, FieldError> {
        let axes = self.axes;
        let order = self.order.clone().unwrap_or_else(|| (0..axes).collect());
        let mut seen = order.clone();
        seen.sort_unstable();
        if seen != (0..axes).collect::<Vec<_>>() {
            let expected = format!("the axes 0 to {} in some order", axes - 1);
            return Err(FieldError::layout("the axis order of a field", expected, format!("{order:?}")));
        }
        let padding = self.padding.clone().unwrap_or_else(|| vec![0; axes]);
        if padding.len() != axes {
            return Err(FieldError::layout(
                "the padding of a field",
                format!("{axes} entries"),
                padding.len(),
            ));
        }
        let too_large = |found: &dyn ToString| {
            FieldError::layout("the size of a field", "a size that memory can hold", found.to_string())
        };
        let wider = i64::try_from(self.wider).map_err(|_| too_large(&self.wider))?;
        let mut allocated = *owned;
        for axis in 0..axes {
            let (lower, upper) = owned.bounds(axis);
            let bounds = if owned.is_empty() {
                Some((lower, lower))
            } else {
                let below = lower.checked_sub(self.lower[axis]).and_then(|it| it.checked_sub(wider));
                let above = upper.checked_add(self.upper[axis]).and_then(|it| it.checked_add(wider));
                below.zip(above)
            };
            let (lower, upper) = bounds.ok_or_else(|| too_large(&self.wider))?;
            allocated = allocated.with_axis(axis, lower, upper);
        }
        let mut stride = match self.place {
            ComponentPlace::Fastest => {
                i64::try_from(self.components).map_err(|_| too_large(&self.components))?
            }
            ComponentPlace::Slowest => 1,
        };
        let mut strides = vec![0; axes];
        for &axis in order.iter().rev() {
            strides[axis] = stride;
            let cells = allocated.extent(axis).checked_add(padding[axis]);
            let cells = cells.and_then(|cells| i64::try_from(cells).ok());
            let next = cells.and_then(|cells| stride.checked_mul(cells));
            stride = next.ok_or_else(|| too_large(&padding[axis]))?;
        }
        let component_stride = match self.place {
            ComponentPlace::Fastest => 1,
            ComponentPlace::Slowest => stride,
        };
        let owned = if owned.is_empty() { allocated } else { *owned };
        BlockLayout::new(owned, allocated, strides, self.components, component_stride)
    }
}
