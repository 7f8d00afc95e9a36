//! The global grid that all domains together cover.

use std::convert::Infallible;

use super::cubed_sphere::TILES;
use super::fold::{Fold, FoldLine, Pivot, Points};
use super::{IndexBox, MAX_AXES};

/// The maximum number of cells along one axis. Indices and their sums stay far from the limits of `i64`.
const MAX_EXTENT: usize = 1 << 48;

/// The maximum number of cells of a grid.
const MAX_CELLS: usize = 1 << 60;

/// A structured grid of 1 to 4 axes, each of which may be periodic; one end may be folded onto itself. Or a cubed
/// sphere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    cells: IndexBox,
    periodic: [bool; MAX_AXES],
    cubed_sphere: bool,
    fold: Option<Fold>,
}

/// An error in the description of a grid, a halo or a split.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// The number of axes is not supported.
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
    #[error("a grid of {found:?} cells is too large, expected at most 2^60 cells")]
    Cells {
        /// The extents given.
        found: Vec<usize>,
    },
    /// A halo is too wide.
    #[error("the halo along axis {axis} is {found} cells wide, expected at most {expected}")]
    Halo {
        /// The axis.
        axis: usize,
        /// The width given.
        found: usize,
        /// The maximum width.
        expected: usize,
    },
    /// A halo has too many images of a periodic grid.
    #[error(
        "the halo of a domain has {found} images of the periodic grid, expected at most {expected}: choose a narrower halo"
    )]
    Images {
        /// The images along all axes together.
        found: u128,
        /// The most.
        expected: u128,
    },
    /// An axis of the tiles of a cubed sphere cannot be periodic.
    #[error("axis {axis} of a cubed sphere cannot be periodic: the edges of its tiles are joined already")]
    Periodic {
        /// The axis.
        axis: usize,
    },
    /// A grid cannot be folded.
    #[error("the fold of the grid {problem}")]
    Fold {
        /// The problem.
        problem: String,
    },
    /// A grid cannot be cut as another one is.
    #[error("the grid cannot be cut as that of the other pattern: {problem}")]
    Alike {
        /// The problem.
        problem: String,
    },
    /// A list does not have one entry for each axis of the grid.
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
    #[error("a split into {found:?} parts has too many parts, expected at most 2^48")]
    Parts {
        /// The number of parts along each axis.
        found: Vec<usize>,
    },
    /// A split has no parts, or sizes that do not add up.
    #[error("the split of axis {axis} {problem}")]
    Split {
        /// The axis.
        axis: usize,
        /// The problem.
        problem: String,
    },
}

impl<const N: usize> TryFrom<[usize; N]> for Grid {
    type Error = GridError;

    fn try_from(extents: [usize; N]) -> Result<Grid, GridError> {
        Grid::new(extents)
    }
}

/// For conversions into a [`Grid`] that cannot fail.
impl From<Infallible> for GridError {
    fn from(never: Infallible) -> GridError {
        match never {}
    }
}

impl Grid {
    /// A grid with the given number of cells along each axis, without periodic axes.
    ///
    /// # Errors
    /// [`GridError`] for 0 or more than 4 axes, an axis of 0 or more than 2^48 cells, and more than 2^60 cells.
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
        Ok(Grid { cells, periodic: [false; MAX_AXES], cubed_sphere: false, fold: None })
    }

    /// A cubed sphere with `cells` × `cells` cells on each of its six tiles. Its axes are tile, y and x:
    /// 6 × `cells` × `cells`. [`cubed_sphere`](crate::domain::cubed_sphere) shows how the tiles lie.
    ///
    /// Halos reach across the edges of a tile into the neighbouring tiles, whose axes may be turned. At a corner, where
    /// three tiles meet, the halo cells beyond two edges do not exist; exchanges leave them untouched. There is no halo
    /// along the axis of the tiles, and along the others it is at most `cells` wide. Domains are boxes, as in any grid:
    /// a tile, a part of one, or the same part of several tiles.
    ///
    /// # Errors
    /// [`GridError`] for tiles without cells or with too many cells.
    pub fn cubed_sphere(cells: usize) -> Result<Grid, GridError> {
        Ok(Grid { cubed_sphere: true, ..Grid::new([TILES.len(), cells, cells])? })
    }

    /// A cubed sphere with levels. Its axes are tile, level, y and x: 6 × `levels` × `cells` × `cells`.
    ///
    /// # Errors
    /// As for [`cubed_sphere`](Grid::cubed_sphere).
    pub fn cubed_sphere_with_levels(cells: usize, levels: usize) -> Result<Grid, GridError> {
        Ok(Grid { cubed_sphere: true, ..Grid::new([TILES.len(), levels, cells, cells])? })
    }

    /// The same grid with its upper end along `y` folded onto itself, and periodic along `x`: a tripolar grid, as ocean
    /// models have it. Halos beyond the fold hold the points of the other half of the last rows, turned by 180°: along
    /// both axes, indices run backwards, and the components of [vectors](crate::Field::with_vector) change their signs.
    ///
    /// Points on the fold line appear twice in the grid. Domains contain both; one of the two is the owner, and
    /// exchanges fill the other one, its *duplicate*, as they fill halos. [`domain::fold`](crate::domain::fold) says
    /// which one, and gives the relations of indices. The grid is that of [`Points::Cells`]; [`at`](Grid::at) is that of
    /// other points.
    ///
    /// ```
    /// use haloport::domain::{Pivot, Points};
    /// use haloport::Grid;
    ///
    /// let grid = Grid::new([75, 292, 362])?.folded([1, 2], Pivot::Corner)?; // levels, y, x
    /// let velocities = grid.at(Points::EastEdges)?;
    /// # assert_eq!(velocities.fold().map(|fold| fold.points), Some(Points::EastEdges));
    /// # Ok::<(), haloport::domain::GridError>(())
    /// ```
    ///
    /// # Errors
    /// [`GridError::Fold`] for axes that do not exist or are the same, a grid that is periodic along `y`, an odd number
    /// of cells along `x`, fewer than two cells along `y`, and a cubed sphere.
    pub fn folded(mut self, [y, x]: [usize; 2], pivot: Pivot) -> Result<Grid, GridError> {
        let axes = self.axes();
        let refused = |problem: String| Err(GridError::Fold { problem });
        if self.cubed_sphere {
            return refused("is one of a cubed sphere, whose edges are joined already".into());
        }
        if y >= axes || x >= axes || x == y {
            return refused(format!("has the axes {y} and {x}, expected two of the {axes} axes of the grid"));
        }
        if self.periodic[y] {
            return refused(format!("is at an end of axis {y}, along which the grid is periodic"));
        }
        if !self.extent(x).is_multiple_of(2) {
            return refused(format!(
                "joins {} cells along axis {x}, expected an even number",
                self.extent(x)
            ));
        }
        if self.extent(y) < 2 {
            return refused(format!("is at an end of axis {y}, which has 1 cell, expected at least 2"));
        }
        self.periodic[x] = true;
        self.fold = Some(Fold { y, x, pivot, points: Points::default() });
        Ok(self)
    }

    /// The same folded grid for other points: a pattern made from it exchanges fields of these points. The indices of a
    /// point are those of its cell.
    ///
    /// # Errors
    /// [`GridError::Fold`] for a grid without a fold, where all kinds of points have the same pattern.
    pub fn at(mut self, points: Points) -> Result<Grid, GridError> {
        match &mut self.fold {
            Some(fold) => {
                fold.points = points;
                Ok(self)
            }
            None => Err(GridError::Fold { problem: "is missing: call `folded` first".into() }),
        }
    }

    /// The same grid, periodic along the axes whose entry is `true`.
    ///
    /// # Errors
    /// [`GridError::Length`] unless there is one entry for each axis; [`GridError::Periodic`] for an axis of a cubed
    /// sphere other than the axis of the levels; [`GridError::Fold`] for a folded grid that would be periodic across the
    /// fold, or not along it.
    pub fn periodic(mut self, periodic: impl AsRef<[bool]>) -> Result<Grid, GridError> {
        let periodic = periodic.as_ref();
        self.check_length("the list of periodic axes", periodic.len())?;
        if let Some(axis) = (0..self.axes()).find(|&axis| periodic[axis] && self.is_tile_axis(axis)) {
            return Err(GridError::Periodic { axis });
        }
        if let Some(fold) = self.fold.filter(|fold| periodic[fold.y] || !periodic[fold.x]) {
            let Fold { y, x, .. } = fold;
            let problem = format!("needs a grid that is periodic along axis {x} and not along axis {y}");
            return Err(GridError::Fold { problem });
        }
        self.periodic[..periodic.len()].copy_from_slice(periodic);
        Ok(self)
    }

    /// The number of axes.
    pub fn axes(&self) -> usize {
        self.cells.axes()
    }

    /// The number of cells along `axis`; 1 for an axis that the grid does not have.
    pub fn extent(&self, axis: usize) -> usize {
        self.cells.extent(axis)
    }

    /// Whether the grid is periodic along `axis`; `false` for an axis that the grid does not have.
    pub fn is_periodic(&self, axis: usize) -> bool {
        self.periodic.get(axis).is_some_and(|periodic| *periodic)
    }

    /// Whether the grid is periodic along each of its axes.
    pub fn periodic_axes(&self) -> &[bool] {
        &self.periodic[..self.axes()]
    }

    /// The box of all cells.
    pub fn bounds(&self) -> IndexBox {
        self.cells
    }

    /// Whether the grid is a cubed sphere.
    pub fn is_cubed_sphere(&self) -> bool {
        self.cubed_sphere
    }

    /// The fold at the upper end of an axis; `None` for a grid without one.
    pub fn fold(&self) -> Option<Fold> {
        self.fold
    }

    /// The fold, with the extents of its axes.
    pub(crate) fn fold_line(&self) -> Option<FoldLine> {
        self.fold.map(|fold| FoldLine::new(&fold, self.extent(fold.y), self.extent(fold.x)))
    }

    /// The numbers of the axes y and x of a cubed sphere; `None` for any other grid.
    pub fn face_axes(&self) -> Option<[usize; 2]> {
        self.cubed_sphere.then(|| [self.axes() - 2, self.axes() - 1])
    }

    /// The centre of a cell of a cubed sphere as a point of the unit sphere, the same for all levels;
    /// [`Tile::point`](crate::domain::cubed_sphere::Tile::point) documents the projection. `None` for any other grid,
    /// and for a cell outside of the tiles.
    pub fn point_on_sphere(&self, cell: &[i64]) -> Option<[f64; 3]> {
        let [y, x] = self.face_axes()?;
        if !self.cells.contains(cell) {
            return None;
        }
        let centre = |axis: usize| (cell[axis] as f64 + 0.5) / self.extent(axis) as f64;
        Some(TILES[cell[0] as usize].point(centre(y), centre(x)))
    }

    /// Whether `axis` is the axis tile, y or x of a cubed sphere.
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
