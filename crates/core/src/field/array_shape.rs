//! Arrays as programs describe them: the role of each axis.

use super::{BlockLayout, CellBlocks};
use crate::domain::{IndexBox, MAX_AXES};
use crate::pattern::Pattern;

/// The role of an axis of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisRole {
    /// That axis of the grid; 0 for the cells of an unstructured domain.
    Cells(usize),
    /// The blocks in which the cells of an unstructured domain lie (their size is nproma in ICON); [`Cells`](AxisRole::Cells)
    /// is then the axis within a block.
    Blocks,
    /// Levels, or another axis along which every cell has elements.
    Levels,
    /// The components of an element's vector.
    Components,
}

/// The shape of an array in which the cells of a domain lie.
///
/// ```
/// use haloport::field::{ArrayCells, ArrayShape};
/// use haloport::{Grid, Halo, IndexBox, Pattern, run_ranks};
///
/// run_ranks(1, |comm| {
///     let mine = [IndexBox::new([0], [4])];
///     let pattern = Pattern::structured(&comm, &Grid::new([4])?, &mine, &Halo::uniform(1))?;
///     // 3 levels of 4 cells with a halo of one, the levels fastest.
///     let shape = ArrayShape { extents: vec![6, 3], strides: vec![3, 1], roles: None, origin: None };
///     let (layout, _) = shape.block(&ArrayCells::of(&pattern)[0])?;
///     assert_eq!(layout.strides(), [3, 1]);
///     Ok(())
/// })?;
/// # Ok::<(), haloport::comm::RanksError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayShape {
    /// The extent of each axis.
    pub extents: Vec<usize>,
    /// The distance in elements between neighbours along each axis, of either sign.
    pub strides: Vec<isize>,
    /// The role of each axis. By default the axes of the grid, or the cells, come first, in their order, then levels.
    pub roles: Option<Vec<AxisRole>>,
    /// On a grid, the index of the first owned cell in the array along each axis of the grid. By default the width of
    /// the halo; the extents must then fit exactly.
    pub origin: Option<Vec<usize>>,
}

/// The cells of one domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayCells {
    owned: IndexBox,
    with_halo: IndexBox,
    /// Whether it is an unstructured domain, whose arrays may have more rows.
    unstructured: bool,
}

/// An axis of the arrays that have a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FittedAxis {
    /// The extent.
    pub extent: usize,
    /// Whether it may be larger, as along the cells of an unstructured domain.
    pub or_more: bool,
    /// The distance in elements between neighbours; along axes of one element it has no effect.
    pub stride: isize,
}

/// Why an array cannot hold the cells of a domain: what was expected, and what was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ShapeError(String);

impl ArrayCells {
    /// The cells of each domain of this rank.
    pub fn of(pattern: &Pattern) -> Vec<ArrayCells> {
        let unstructured = pattern.grid().is_none();
        let shapes = pattern.block_shapes().into_iter();
        shapes
            .map(|shape| ArrayCells { owned: shape.owned, with_halo: shape.allocated, unstructured })
            .collect()
    }

    /// The owned cells; of an unstructured domain all of them, which may lie in any order.
    pub fn owned(&self) -> IndexBox {
        self.owned
    }

    /// The owned cells and the halo.
    pub fn with_halo(&self) -> IndexBox {
        self.with_halo
    }
}

impl ArrayShape {
    /// The strides in elements of an array without gaps, the last axis fastest; `None` if no address space can hold it.
    pub fn contiguous(extents: &[usize]) -> Option<Vec<isize>> {
        let mut strides = vec![1; extents.len()];
        let mut next: isize = 1;
        for (stride, &extent) in strides.iter_mut().zip(extents).rev() {
            *stride = next;
            next = next.checked_mul(isize::try_from(extent.max(1)).ok()?)?;
        }
        Some(strides)
    }

    /// The layout of the block of `cells` in such an array, and for each axis what arrays of this layout are like.
    ///
    /// # Errors
    /// [`ShapeError`] if the axes are not those of the domain, if the array has no room for its cells, and as for
    /// [`BlockLayout::new`].
    pub fn block(&self, cells: &ArrayCells) -> Result<(BlockLayout, Vec<FittedAxis>), ShapeError> {
        self.fit(cells).map_err(ShapeError)
    }

    fn fit(&self, cells: &ArrayCells) -> Result<(BlockLayout, Vec<FittedAxis>), String> {
        let own = cells.owned.axes();
        let axes = self.axes(own, cells.unstructured)?;
        let mut owned = cells.owned;
        let mut allocated = cells.with_halo;
        let mut strides = vec![1; own];
        let (mut blocks, mut components) = (None, (1, 1));
        let mut expected = Vec::with_capacity(axes.len());
        let is_empty = allocated.is_empty();
        for (place, axis) in axes.iter().enumerate() {
            let (extent, stride) = (self.extents[place], self.strides[place] as i64);
            let mut or_more = false;
            // Sums of two such numbers fit.
            let signed = |number: usize| match i64::try_from(number) {
                Ok(signed) if signed < 1 << 60 => Ok(signed),
                _ => Err(format!("axis {place}: expected a size that memory can hold, found {number}")),
            };
            match *axis {
                AxisRole::Cells(axis) => {
                    strides[axis] = stride;
                    or_more =
                        cells.unstructured && self.origin.is_none() && !axes.contains(&AxisRole::Blocks);
                    let wanted = if is_empty { 0 } else { allocated.extent(axis) };
                    match &self.origin {
                        Some(_) if is_empty => {}
                        Some(origin) => {
                            let first = cells.owned.lower()[axis] - signed(origin[axis])?;
                            let past = first + signed(extent)?;
                            allocated = allocated.with_axis(axis, first, past);
                            if past < cells.owned.upper()[axis] {
                                return Err(format!(
                                    "axis {place}: expected room for the cells {}, found extent {extent} with the \
                                     first owned cell at {}",
                                    cells.owned, origin[axis]
                                ));
                            }
                        }
                        None if axes.contains(&AxisRole::Blocks) => {}
                        None if extent < wanted || (extent > wanted && !or_more) => {
                            let more = if or_more { " or more" } else { "" };
                            return Err(format!(
                                "axis {place}: expected extent {wanted}{more} (the cells with their halo), found \
                                 {extent}; this rank owns the cells {}",
                                cells.owned
                            ));
                        }
                        None => {}
                    }
                }
                AxisRole::Blocks => blocks = Some((place, stride)),
                AxisRole::Levels => {
                    strides.push(stride);
                    let levels = signed(extent)?;
                    owned = owned.with_further_axis(0, levels);
                    allocated = allocated.with_further_axis(0, levels);
                }
                AxisRole::Components => components = (extent, stride),
            }
            // Of the cells alone, so that strides along single cells have no effect.
            let needed = if or_more && !is_empty { allocated.extent(0) } else { extent };
            expected.push(FittedAxis { extent: needed, or_more, stride: self.strides[place] });
        }
        let (count, stride) = components;
        let made = match blocks {
            None => BlockLayout::new(owned, allocated, &strides, count, stride),
            Some((place, block_stride)) => {
                let within = axes
                    .iter()
                    .position(|axis| *axis == AxisRole::Cells(0))
                    .map_or(0, |place| self.extents[place]);
                let blocks = CellBlocks { cells: within, stride: block_stride };
                let needed = blocks.count(allocated.extent(0));
                if self.extents[place] < needed {
                    let found = self.extents[place];
                    return Err(format!("axis {place}: expected {needed} blocks or more, found {found}"));
                }
                BlockLayout::blocked(owned, allocated, blocks, &strides, count, stride)
            }
        };
        made.map(|layout| (layout, expected)).map_err(|error| error.to_string())
    }

    /// The role of each axis.
    fn axes(&self, own: usize, unstructured: bool) -> Result<Vec<AxisRole>, String> {
        let found = self.extents.len();
        if let Some(origin) = &self.origin {
            if unstructured {
                return Err("origin: expected none on a mesh, whose cells have no sides".into());
            }
            if origin.len() != own {
                return Err(format!(
                    "origin: expected an index for each of {own} axes, found {}",
                    origin.len()
                ));
            }
        }
        let Some(axes) = &self.roles else {
            if found < own {
                return Err(format!("the number of axes: expected {own} or more, found {found}"));
            }
            // Components are one more axis than a field can have otherwise.
            let rest = |place| if place < MAX_AXES { AxisRole::Levels } else { AxisRole::Components };
            return Ok((0..found)
                .map(|place| if place < own { AxisRole::Cells(place) } else { rest(place) })
                .collect());
        };
        if axes.len() != found {
            return Err(format!(
                "axes: expected one for each of {found} axes of the array, found {}",
                axes.len()
            ));
        }
        for axis in 0..own {
            let count = axes.iter().filter(|it| **it == AxisRole::Cells(axis)).count();
            if count != 1 {
                let what =
                    if unstructured { "\"cells\"".to_string() } else { format!("axis {axis} of the grid") };
                return Err(format!("axes: expected {what} once, found it {count} times"));
            }
        }
        for axis in axes {
            match axis {
                AxisRole::Cells(axis) if *axis >= own => {
                    return Err(format!(
                        "axes: expected axes of the grid from 0 to {}, found {axis}",
                        own - 1
                    ));
                }
                AxisRole::Blocks if !unstructured => {
                    return Err("axes: expected no \"blocks\" on a grid".into());
                }
                _ => {}
            }
        }
        for (single, name) in [(AxisRole::Blocks, "blocks"), (AxisRole::Components, "components")] {
            let count = axes.iter().filter(|it| **it == single).count();
            if count > 1 {
                return Err(format!("axes: expected {name:?} once at most, found it {count} times"));
            }
        }
        Ok(axes.clone())
    }
}
