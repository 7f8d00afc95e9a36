//! The global grid that the domains make up together.

use super::{IndexBox, MAX_AXES};

/// The largest number of cells along one axis: indices and their sums stay far from the limits of `i64`.
const MAX_EXTENT: usize = 1 << 48;

/// The largest number of cells of a grid.
const MAX_CELLS: usize = 1 << 60;

/// A structured grid of 1 to 4 axes, each of which may be periodic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    cells: IndexBox,
    periodic: [bool; MAX_AXES],
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
        Ok(Grid { cells: IndexBox::new(vec![0; upper.len()], upper), periodic: [false; MAX_AXES] })
    }

    /// The same grid, periodic along the axes whose entry is `true`.
    ///
    /// # Errors
    /// [`GridError::Length`] where there is not one entry for each axis.
    pub fn periodic(mut self, periodic: impl AsRef<[bool]>) -> Result<Grid, GridError> {
        let periodic = periodic.as_ref();
        self.check_length("the list of periodic axes", periodic.len())?;
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

    /// Whether the grid is periodic along `axis`.
    pub fn is_periodic(&self, axis: usize) -> bool {
        self.periodic[axis]
    }

    /// Whether the grid is periodic along each of its axes.
    pub fn periodic_axes(&self) -> &[bool] {
        &self.periodic[..self.axes()]
    }

    /// All cells.
    pub fn cells(&self) -> IndexBox {
        self.cells
    }

    pub(crate) fn check_length(&self, what: &'static str, found: usize) -> Result<(), GridError> {
        if found == self.axes() {
            Ok(())
        } else {
            Err(GridError::Length { what, expected: self.axes(), found })
        }
    }
}
