//! The global grid that the domains make up together.

use super::cubed_sphere::TILES;
use super::{IndexBox, MAX_AXES};

/// The largest number of cells along one axis: indices and their sums stay far from the limits of `i64`.
const MAX_EXTENT: usize = 1 << 48;

/// The largest number of cells of a grid.
const MAX_CELLS: usize = 1 << 60;

/// A structured grid of 1 to 4 axes, each of which may be periodic, or a cubed sphere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    cells: IndexBox,
    periodic: [bool; MAX_AXES],
    cubed_sphere: bool,
}

/// What is wrong with the description of a grid, a halo or a split.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// The number of axes is not served.
    #[error("a grid has 1 to {MAX_AXES} axes, found {found}")]
    AxisCount {
        /// The number of axes given.
        found: usize,
    },
    /// An axis is empty or too long.
    #[error("axis {axis} of the grid has {found} cells, expected 1 to 2^48")]
    Extent {
        /// The axis.
        axis: usize,
        /// The extent given.
        found: usize,
    },
    /// The grid has too many cells.
    #[error("a grid of {found:?} cells has too many of them, expected at most 2^60")]
    Cells {
        /// The extents given.
        found: Vec<usize>,
    },
    /// A halo is wider than can be served.
    #[error("the halo along axis {axis} is {found} cells wide, expected at most {expected}")]
    Halo {
        /// The axis.
        axis: usize,
        /// The width given.
        found: usize,
        /// The largest that is served.
        expected: usize,
    },
    /// An axis of the tiles of a cubed sphere cannot be periodic.
    #[error(
        "axis {axis} of a cubed sphere cannot be periodic: the edges of its tiles are joined as they are"
    )]
    Periodic {
        /// The axis.
        axis: usize,
    },
    /// A list has another number of entries than the grid has axes.
    #[error("{what} has {found} entries, expected one for each of the {expected} axes of the grid")]
    Length {
        /// The list.
        what: &'static str,
        /// The number of axes.
        expected: usize,
        /// The number of entries given.
        found: usize,
    },
    /// A split has too many parts.
    #[error("a split into {found:?} parts has too many of them, expected at most 2^48")]
    Parts {
        /// The number of parts along each axis.
        found: Vec<usize>,
    },
    /// A split has no part, or sizes that do not add up.
    #[error("the split of axis {axis} {problem}")]
    Split {
        /// The axis.
        axis: usize,
        /// What is wrong.
        problem: String,
    },
}

impl Grid {
    /// A grid with the given number of cells along each axis, none of them periodic.
    ///
    /// # Errors
    /// [`GridError`] for 0 or more than 4 axes and for an axis without cells.
    pub fn new(extents: impl AsRef<[usize]>) -> Result<Grid, GridError> {
        let extents = extents.as_ref();
        if extents.is_empty() || extents.len() > MAX_AXES {
            return Err(GridError::AxisCount { found: extents.len() });
        }
        if let Some(axis) = extents.iter().position(|&extent| extent == 0 || extent > MAX_EXTENT) {
            return Err(GridError::Extent { axis, found: extents[axis] });
        }
        let cells = extents.iter().try_fold(1usize, |cells, &extent| cells.checked_mul(extent));
        if cells.is_none_or(|cells| cells > MAX_CELLS) {
            return Err(GridError::Cells { found: extents.to_vec() });
        }
        let upper: Vec<i64> = extents.iter().map(|&extent| extent as i64).collect();
        let cells = IndexBox::new(vec![0; upper.len()], upper);
        Ok(Grid { cells, periodic: [false; MAX_AXES], cubed_sphere: false })
    }

    /// A cubed sphere of `cells` × `cells` cells on each of its six tiles, with the axes tile, y and x:
    /// 6 × `cells` × `cells`. How the tiles lie is drawn in [`cubed_sphere`](crate::domain::cubed_sphere).
    ///
    /// A halo goes across the edges of a tile into its neighbours, whose axes may be turned; the cells beyond two edges
    /// at once, where three tiles meet, belong to nobody and are left untouched. There is no halo along the axis of
    /// the tiles, and the others are at most `cells` wide. Domains are boxes as in any grid: a tile, a part of one, or
    /// the same part of several tiles.
    ///
    /// # Errors
    /// [`GridError`] for tiles without cells or with too many.
    pub fn cubed_sphere(cells: usize) -> Result<Grid, GridError> {
        Ok(Grid { cubed_sphere: true, ..Grid::new([TILES.len(), cells, cells])? })
    }

    /// A cubed sphere with levels, which have an axis between that of the tiles and y: 6 × `levels` × `cells` ×
    /// `cells`.
    ///
    /// # Errors
    /// As for [`cubed_sphere`](Grid::cubed_sphere).
    pub fn cubed_sphere_with_levels(cells: usize, levels: usize) -> Result<Grid, GridError> {
        Ok(Grid { cubed_sphere: true, ..Grid::new([TILES.len(), levels, cells, cells])? })
    }

    /// The same grid, periodic along the axes whose entry is `true`.
    ///
    /// # Errors
    /// [`GridError::Length`] where there is not one entry for each axis; [`GridError::Periodic`] for an axis of a cubed
    /// sphere other than that of the levels.
    pub fn periodic(mut self, periodic: impl AsRef<[bool]>) -> Result<Grid, GridError> {
        let periodic = periodic.as_ref();
        self.check_length("the list of periodic axes", periodic.len())?;
        if let Some(axis) = (0..self.axes()).find(|&axis| periodic[axis] && self.is_tile_axis(axis)) {
            return Err(GridError::Periodic { axis });
        }
        self.periodic[..periodic.len()].copy_from_slice(periodic);
        Ok(self)
    }

    /// The number of axes.
    pub fn axes(&self) -> usize {
        self.cells.axes()
    }

    /// The number of cells along `axis`; 1 along axes that the grid does not have.
    pub fn extent(&self, axis: usize) -> usize {
        self.cells.extent(axis)
    }

    /// Whether the grid is periodic along `axis`; not along axes that it does not have.
    pub fn is_periodic(&self, axis: usize) -> bool {
        self.periodic.get(axis).is_some_and(|periodic| *periodic)
    }

    /// Whether the grid is periodic along each of its axes.
    pub fn periodic_axes(&self) -> &[bool] {
        &self.periodic[..self.axes()]
    }

    /// All cells.
    pub fn bounds(&self) -> IndexBox {
        self.cells
    }

    /// Whether it is a cubed sphere.
    pub fn is_cubed_sphere(&self) -> bool {
        self.cubed_sphere
    }

    /// The axes y and x of the tiles of a cubed sphere; `None` for any other grid.
    pub fn face_axes(&self) -> Option<[usize; 2]> {
        self.cubed_sphere.then(|| [self.axes() - 2, self.axes() - 1])
    }

    /// The point of the unit sphere at the centre of a cell, whatever its level, of a cubed sphere
    /// ([`Tile::point`](crate::domain::cubed_sphere::Tile::point) says how it is projected); `None` for any other
    /// grid, and outside of the tiles.
    pub fn point_on_sphere(&self, cell: &[i64]) -> Option<[f64; 3]> {
        let [y, x] = self.face_axes()?;
        if !self.cells.contains(cell) {
            return None;
        }
        let place = |axis: usize| (cell[axis] as f64 + 0.5) / self.extent(axis) as f64;
        Some(TILES[cell[0] as usize].point(place(y), place(x)))
    }

    /// Whether `axis` is one of those of the tiles of a cubed sphere: that of their numbers, or y, or x.
    pub(crate) fn is_tile_axis(&self, axis: usize) -> bool {
        self.cubed_sphere && (axis == 0 || axis + 2 >= self.axes())
    }

    pub(crate) fn check_length(&self, what: &'static str, found: usize) -> Result<(), GridError> {
        if found == self.axes() {
            Ok(())
        } else {
            Err(GridError::Length { what, expected: self.axes(), found })
        }
    }
}
