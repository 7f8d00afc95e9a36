//! The halo of a domain: its widths, and whether it includes edges and corners.

use serde::{Deserialize, Serialize};

use super::{Grid, GridError, IndexBox, MAX_AXES};

/// The maximum width of a halo, in cells.
const WIDEST: usize = 1 << 48;

/// The maximum number of times that a halo may go round a periodic axis.
const MOST_IMAGES: usize = 1000;

/// The maximum number of images of a periodic grid in the halo of a domain. Each is a message of its own, or several.
const MOST_IMAGES_OF_GRID: u128 = 10_000;

/// The cells around a domain that belong to its halo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connectivity {
    /// All cells within the halo widths, with edges and corners.
    #[default]
    All,
    /// Only the cells directly across a face.
    Faces,
}

/// The halo of every domain of a pattern: widths in cells for each side of each axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halo {
    widths: Widths,
    connectivity: Connectivity,
    clipped: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Widths {
    Uniform(usize),
    PerSide(Vec<(usize, usize)>),
}

/// The widths of a halo on a given grid: below and above, along each axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HaloWidths {
    pub(crate) lower: [i64; MAX_AXES],
    pub(crate) upper: [i64; MAX_AXES],
    pub(crate) connectivity: Connectivity,
    /// One past the last cell along each axis along which halos are clipped, and so begin at 0; 0 along others.
    pub(crate) ends: [i64; MAX_AXES],
}

impl From<usize> for Halo {
    fn from(width: usize) -> Halo {
        Halo::uniform(width)
    }
}

impl Halo {
    /// The same width on each side of each axis, except for the axis of the tiles of a cubed sphere. The width may be
    /// 0.
    pub fn uniform(width: usize) -> Halo {
        Halo { widths: Widths::Uniform(width), connectivity: Connectivity::All, clipped: false }
    }

    /// A width for each axis, the same on both sides.
    pub fn per_axis(widths: impl AsRef<[usize]>) -> Halo {
        Halo::per_side(widths.as_ref().iter().map(|&width| (width, width)).collect::<Vec<_>>())
    }

    /// For each axis the width below and the width above.
    pub fn per_side(widths: impl AsRef<[(usize, usize)]>) -> Halo {
        let widths = Widths::PerSide(widths.as_ref().to_vec());
        Halo { widths, connectivity: Connectivity::All, clipped: false }
    }

    /// The same widths with other [`Connectivity`].
    #[must_use]
    pub fn with_connectivity(mut self, connectivity: Connectivity) -> Halo {
        self.connectivity = connectivity;
        self
    }

    /// The same halo without the cells beyond ends of the grid that are not periodic. No exchange fills these cells, and
    /// the fields then have none there, as arrays of staggered points mostly have not. The stencil of cells at such an end
    /// reaches beyond the field: programs treat these cells apart, although they count as interior.
    #[must_use]
    pub fn clipped(mut self) -> Halo {
        self.clipped = true;
        self
    }

    /// The cells that belong to the halo.
    pub fn connectivity(&self) -> Connectivity {
        self.connectivity
    }

    pub(crate) fn on(&self, grid: &Grid) -> Result<HaloWidths, GridError> {
        let mut made = HaloWidths {
            lower: [0; MAX_AXES],
            upper: [0; MAX_AXES],
            connectivity: self.connectivity,
            ends: [0; MAX_AXES],
        };
        if let Widths::PerSide(sides) = &self.widths {
            grid.check_length("the list of halo widths", sides.len())?;
        }
        for axis in 0..grid.axes() {
            let (lower, upper) = match &self.widths {
                Widths::Uniform(_) if axis == 0 && grid.is_cubed_sphere() => (0, 0),
                Widths::Uniform(width) => (*width, *width),
                Widths::PerSide(sides) => sides[axis],
            };
            let expected = match grid.face_axes() {
                Some(_) if axis == 0 => 0,
                // A halo does not reach beyond the next tile.
                Some(face) if face.contains(&axis) => grid.extent(axis),
                // A halo contains an image of a periodic grid for each time that it goes round.
                _ if grid.is_periodic(axis) => MOST_IMAGES * grid.extent(axis),
                _ => WIDEST,
            };
            let limit = |found: usize, expected: usize| {
                if found > expected.min(WIDEST) {
                    return Err(GridError::Halo { axis, found, expected: expected.min(WIDEST) });
                }
                Ok(found as i64)
            };
            // Beyond the fold, a halo does not reach below the lower end.
            let at_fold = grid.fold().filter(|fold| fold.y == axis).and_then(|_| grid.fold_line());
            made.lower[axis] = limit(lower, expected)?;
            made.upper[axis] = limit(upper, at_fold.map_or(expected, |fold| fold.widest()))?;
            if self.clipped && !grid.is_periodic(axis) && !grid.is_tile_axis(axis) {
                made.ends[axis] = if at_fold.is_some() { i64::MAX } else { grid.extent(axis) as i64 };
            }
        }
        let found = made.images(grid);
        if found > MOST_IMAGES_OF_GRID {
            return Err(GridError::Images { found, expected: MOST_IMAGES_OF_GRID });
        }
        Ok(made)
    }
}

impl HaloWidths {
    /// The most images of a periodic grid that lie in the halo of a domain.
    fn images(&self, grid: &Grid) -> u128 {
        let axes = (0..grid.axes()).filter(|axis| grid.is_periodic(*axis));
        let along = axes.map(|axis| {
            let times = |width: i64| (width as u128).div_ceil(grid.extent(axis) as u128);
            times(self.lower[axis]) + times(self.upper[axis]) + 1
        });
        match self.connectivity {
            Connectivity::All => along.product(),
            Connectivity::Faces => along.sum(),
        }
    }

    /// `domain` with its halo on each side, including corners.
    pub(crate) fn around(&self, domain: &IndexBox) -> IndexBox {
        (0..domain.axes()).fold(*domain, |grown, axis| {
            let (lower, upper) = self.along(domain, axis);
            grown.with_axis(axis, lower, upper)
        })
    }

    /// The ends of the halo of `domain` along an axis.
    fn along(&self, domain: &IndexBox, axis: usize) -> (i64, i64) {
        let ((lower, upper), end) = (domain.bounds(axis), self.ends[axis]);
        let (first, past) = (lower - self.lower[axis], upper + self.upper[axis]);
        if end == 0 { (first, past) } else { (first.max(0), past.min(end)) }
    }

    /// The halo of `domain` as disjoint boxes, including those outside of a non-periodic grid.
    pub(crate) fn regions(&self, domain: &IndexBox) -> Vec<IndexBox> {
        if domain.is_empty() {
            return Vec::new();
        }
        match self.connectivity {
            Connectivity::All => self.around(domain).minus(domain),
            Connectivity::Faces => (0..domain.axes())
                .flat_map(|axis| {
                    let ((lower, upper), (first, past)) = (domain.bounds(axis), self.along(domain, axis));
                    [domain.with_axis(axis, first, lower), domain.with_axis(axis, upper, past)]
                })
                .filter(|region| !region.is_empty())
                .collect(),
        }
    }
}
