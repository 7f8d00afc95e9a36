//! The relief: where the land is and how deep the sea.

use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::npz::{NpyArray, NpyType, Npz, NpzError, Wanted};

/// Elevation of the solid surface at the centres of a longitude-latitude grid.
///
/// Both axes ascend. Longitudes are uniform; latitudes may be spaced smoothly, as on a
/// Mercator grid. The sea level is elevation zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Relief {
    /// Cell centres from west to east, degrees east.
    pub longitude: Vec<f64>,
    /// Cell centres from south to north, degrees north.
    pub latitude: Vec<f64>,
    /// Metres above sea level, negative below; row-major, longitude fastest.
    pub elevation: Vec<f64>,
}

/// Why a relief could not be read or refined.
#[derive(Debug, Error)]
pub enum ReliefError {
    /// The file could not be opened.
    #[error("cannot open the relief {path}: {source}", path = path.display())]
    Open {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The bytes are no .npz archive.
    #[error("the relief is not a .npz archive of NumPy arrays: {reason}")]
    NotNpz {
        /// What the reader of archives said.
        reason: String,
    },
    /// An array is not in the archive.
    #[error("the relief needs an array `{name}`, found {found}")]
    Missing {
        /// The array looked for.
        name: &'static str,
        /// The arrays of the archive.
        found: String,
    },
    /// An array holds elements of a type that is not read.
    #[error("array `{name}` of the relief must hold {expected}, found {found}")]
    ElementType {
        /// The array.
        name: &'static str,
        /// The types that are read.
        expected: &'static str,
        /// NumPy's description of the type found.
        found: String,
    },
    /// An array has the wrong number of dimensions or the wrong size.
    #[error("array `{name}` of the relief must have {expected}, found {found}")]
    Shape {
        /// The array.
        name: &'static str,
        /// The shape that was expected.
        expected: String,
        /// The shape found.
        found: String,
    },
    /// An array could not be decoded.
    #[error("array `{name}` of the relief cannot be read: {reason}")]
    Damaged {
        /// The array.
        name: &'static str,
        /// What the reader of arrays said.
        reason: String,
    },
    /// An axis is too short.
    #[error("the relief must have at least {MIN_CELLS} cells on each axis, found {found} in {name}")]
    TooSmall {
        /// The axis.
        name: &'static str,
        /// Its number of cells.
        found: usize,
    },
    /// A value is NaN or infinite.
    #[error("array `{name}` of the relief must be finite, found {value} at index {index}")]
    NotFinite {
        /// The array.
        name: &'static str,
        /// The value found.
        value: f64,
        /// Where, in row-major order.
        index: usize,
    },
    /// A mountain higher, or a sea deeper, than any on Earth.
    #[error(
        "array `topo` of the relief must be metres from -{HIGHEST} to {HIGHEST}, found {value} at index {index}, \
         {longitude} degrees east, {latitude} degrees north"
    )]
    Elevation {
        /// The value found.
        value: f64,
        /// Where, in row-major order.
        index: usize,
        /// Centre of the cell, degrees east.
        longitude: f64,
        /// Centre of the cell, degrees north.
        latitude: f64,
    },
    /// A coordinate lies outside the range that the grid can describe.
    #[error("{name} of the relief must lie within {limit} degrees of zero, found {value} at index {index}")]
    OutOfRange {
        /// The axis.
        name: &'static str,
        /// The largest magnitude, degrees.
        limit: f64,
        /// The value found, degrees.
        value: f64,
        /// Where.
        index: usize,
    },
    /// The spacing of an axis changes sign, vanishes or varies too much.
    #[error(
        "{name} of the relief must be spaced {expected}, found {found} degrees after {before} at index {index}"
    )]
    Spacing {
        /// The axis.
        name: &'static str,
        /// What is asked of it.
        expected: &'static str,
        /// The step found, degrees.
        found: f64,
        /// The step that it is compared with, degrees.
        before: f64,
        /// The cell where the step begins.
        index: usize,
    },
    /// All cells are land.
    #[error("the relief has no sea: expected elevations below 0 m, found none below {lowest} m")]
    NoSea {
        /// The lowest elevation, metres.
        lowest: f64,
    },
    /// A refinement by zero, or one that gives more cells than [`MAX_CELLS`].
    #[error(
        "the refinement must be at least 1 and give at most {MAX_CELLS} cells, found {factor} on {cells} cells"
    )]
    Refinement {
        /// The refinement asked for.
        factor: usize,
        /// The cells before it.
        cells: usize,
    },
}

/// The fewest cells on an axis.
pub const MIN_CELLS: usize = 4;

/// The most cells that a refinement may give (2 GiB a field).
pub const MAX_CELLS: usize = 1 << 28;

/// How much neighbouring steps of an axis may differ, as a fraction.
///
/// Longitudes kept in single precision jitter by a fraction of a percent; the steps of a
/// Mercator grid grow by less than this from row to row.
pub const SPACING_TOLERANCE: f64 = 0.02;

/// The largest magnitude of an elevation, metres. The time step of all cells is that of the deepest: a wrong one would keep
/// a run from ever ending.
pub const HIGHEST: f64 = 12_000.0;

/// The largest magnitude of a latitude, degrees: rows shrink to nothing at the poles.
pub const MAX_LATITUDE: f64 = 85.0;

impl Relief {
    /// Reads arrays `topo` (rows by columns, metres), `longitude` and `latitude` (degrees)
    /// from a .npz file. Descending axes are turned around.
    ///
    /// # Errors
    /// [`ReliefError`].
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ReliefError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| ReliefError::Open { path: path.to_owned(), source })?;
        Self::from_reader(file)
    }

    /// Reads a relief as [`Relief::from_path`] does, from the bytes of a .npz file.
    ///
    /// # Errors
    /// [`ReliefError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReliefError> {
        Self::from_reader(Cursor::new(bytes))
    }

    /// Checks the three arrays and makes both axes ascend.
    ///
    /// `elevation` is row-major in metres; the axes are cell centres in degrees.
    ///
    /// # Errors
    /// [`ReliefError`].
    pub fn new(longitude: Vec<f64>, latitude: Vec<f64>, elevation: Vec<f64>) -> Result<Self, ReliefError> {
        check_axis("longitude", &longitude, 360.0)?;
        check_axis("latitude", &latitude, MAX_LATITUDE)?;
        let (nx, ny) = (longitude.len(), latitude.len());
        if elevation.len() != nx * ny {
            return Err(ReliefError::Shape {
                name: "topo",
                expected: format!("{ny} x {nx} values (latitude x longitude)"),
                found: format!("{} values", elevation.len()),
            });
        }
        check_finite("topo", &elevation)?;
        if let Some(index) = elevation.iter().position(|value| value.abs() > HIGHEST) {
            let (longitude, latitude) = (longitude[index % nx], latitude[index / nx]);
            return Err(ReliefError::Elevation { value: elevation[index], index, longitude, latitude });
        }
        let lowest = elevation.iter().copied().fold(f64::INFINITY, f64::min);
        if lowest >= 0.0 {
            return Err(ReliefError::NoSea { lowest });
        }
        let mut relief = Self { longitude, latitude, elevation };
        relief.ascend();
        relief.check_spacing()?;
        relief.smooth_longitude();
        Ok(relief)
    }

    /// Cells from west to east.
    pub fn nx(&self) -> usize {
        self.longitude.len()
    }

    /// Cells from south to north.
    pub fn ny(&self) -> usize {
        self.latitude.len()
    }

    /// Distance of neighbouring columns, degrees.
    pub fn longitude_step(&self) -> f64 {
        let last = self.nx() - 1;
        (self.longitude[last] - self.longitude[0]) / last as f64
    }

    /// The column at a longitude (degrees east), as a fraction: 2.5 lies midway between the
    /// centres of columns 2 and 3. Longitudes that differ by 360 degrees are the same.
    pub fn column_at(&self, longitude: f64) -> f64 {
        let middle = 0.5 * (self.longitude[0] + self.longitude[self.nx() - 1]);
        let turns = ((longitude - middle) / 360.0).round();
        (longitude - 360.0 * turns - self.longitude[0]) / self.longitude_step()
    }

    /// The edges of the map: west and east, degrees east; south and north, degrees north.
    pub fn edges(&self) -> [[f64; 2]; 2] {
        [&self.longitude, &self.latitude].map(|axis| {
            let last = axis.len() - 1;
            let (first_step, last_step) = (axis[1] - axis[0], axis[last] - axis[last - 1]);
            [axis[0] - 0.5 * first_step, axis[last] + 0.5 * last_step]
        })
    }

    /// The row at a latitude (degrees north), as a fraction; linear beyond both ends.
    pub fn row_at(&self, latitude: f64) -> f64 {
        let above = self.latitude.partition_point(|&centre| centre <= latitude);
        let below = above.clamp(1, self.ny() - 1) - 1;
        let step = self.latitude[below + 1] - self.latitude[below];
        below as f64 + (latitude - self.latitude[below]) / step
    }

    /// The same relief with `factor` times as many cells on each axis.
    ///
    /// Bicubic (Catmull and Rom 1974) between the cell centres, clamped to the four cells
    /// around each new centre, so that no new peak, pit or shore appears.
    ///
    /// # Errors
    /// [`ReliefError::Refinement`].
    pub fn refine(&self, factor: usize) -> Result<Self, ReliefError> {
        let cells = self.elevation.len();
        let refined = factor.checked_mul(factor).and_then(|square| square.checked_mul(cells));
        if factor == 0 || refined.is_none_or(|refined| refined > MAX_CELLS) {
            return Err(ReliefError::Refinement { factor, cells });
        }
        if factor == 1 {
            return Ok(self.clone());
        }
        let columns = stencils(self.nx(), factor);
        let rows = stencils(self.ny(), factor);
        let mut elevation = Vec::with_capacity(rows.len() * columns.len());
        for row in &rows {
            elevation.extend(columns.iter().map(|column| self.interpolate(row, column)));
        }
        Ok(Self {
            longitude: refine_axis(&self.longitude, factor),
            latitude: refine_axis(&self.latitude, factor),
            elevation,
        })
    }

    fn from_reader(reader: impl Read + Seek) -> Result<Self, ReliefError> {
        let mut npz = Npz::new(reader).map_err(|error| ReliefError::NotNpz { reason: error.to_string() })?;
        let names = npz.names();
        for name in ["topo", "longitude", "latitude"] {
            if !names.iter().any(|found| found == name) {
                return Err(ReliefError::Missing {
                    name,
                    found: match names.is_empty() {
                        true => "an empty archive".to_owned(),
                        false => names.join(", "),
                    },
                });
            }
        }
        let longitude = read_axis(&mut npz, "longitude")?;
        let latitude = read_axis(&mut npz, "latitude")?;
        let topo = read(&mut npz, "topo", TOPO_TYPES, 2)?;
        if topo.shape() != [latitude.len(), longitude.len()] {
            return Err(ReliefError::Shape {
                name: "topo",
                expected: format!("shape {} x {} (latitude x longitude)", latitude.len(), longitude.len()),
                found: format!("{} x {}", topo.shape()[0], topo.shape()[1]),
            });
        }
        Self::new(longitude, latitude, topo.floats())
    }

    /// Turns descending axes around.
    fn ascend(&mut self) {
        let nx = self.nx();
        if self.longitude[0] > self.longitude[1] {
            self.longitude.reverse();
            self.elevation.chunks_mut(nx).for_each(<[f64]>::reverse);
        }
        if self.latitude[0] > self.latitude[1] {
            self.latitude.reverse();
            self.elevation = self.elevation.chunks(nx).rev().flatten().copied().collect();
        }
    }

    fn check_spacing(&self) -> Result<(), ReliefError> {
        let error = |name, expected, found, before, index| {
            Err(ReliefError::Spacing { name, expected, found, before, index })
        };
        let differs = |step: f64, than: f64| (step - than).abs() > SPACING_TOLERANCE * than.abs();
        let mean = self.longitude_step();
        for (index, pair) in self.longitude.windows(2).enumerate() {
            let step = pair[1] - pair[0];
            if step <= 0.0 || differs(step, mean) {
                return error("longitude", "uniformly within 2 %", step, mean, index);
            }
        }
        let mut before = self.latitude[1] - self.latitude[0];
        for (index, pair) in self.latitude.windows(2).enumerate() {
            let step = pair[1] - pair[0];
            if step <= 0.0 || differs(step, before) {
                return error("latitude", "smoothly, each step within 2 % of the last", step, before, index);
            }
            before = step;
        }
        Ok(())
    }

    /// Takes the rounding to single precision out of the longitudes.
    fn smooth_longitude(&mut self) {
        let (west, step) = (self.longitude[0], self.longitude_step());
        for (column, longitude) in self.longitude.iter_mut().enumerate() {
            *longitude = west + step * column as f64;
        }
    }

    fn interpolate(&self, row: &Stencil, column: &Stencil) -> f64 {
        let at = |j: usize, i: usize| self.elevation[row.cells[j] * self.nx() + column.cells[i]];
        let mut sum = 0.0;
        for (j, row_weight) in row.weights.iter().enumerate() {
            for (i, column_weight) in column.weights.iter().enumerate() {
                sum += row_weight * column_weight * at(j, i);
            }
        }
        let around = [at(1, 1), at(1, 2), at(2, 1), at(2, 2)];
        let lowest = around.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = around.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        sum.clamp(lowest, highest)
    }
}

/// Four cells of an axis and their weights at a point between the middle two.
struct Stencil {
    cells: [usize; 4],
    weights: [f64; 4],
}

/// Where the refined centres lie among the old ones; constant beyond the outer centres.
fn stencils(cells: usize, factor: usize) -> Vec<Stencil> {
    let last = cells - 1;
    (0..cells * factor)
        .map(|fine| {
            let at = old_index(fine, factor).clamp(0.0, last as f64);
            let low = (at as usize).min(last - 1);
            Stencil {
                cells: [low.saturating_sub(1), low, low + 1, (low + 2).min(last)],
                weights: catmull_rom(at - low as f64),
            }
        })
        .collect()
}

/// Weights of four equidistant points at `t` between the second and the third.
fn catmull_rom(t: f64) -> [f64; 4] {
    [
        0.5 * t * (t * (2.0 - t) - 1.0),
        0.5 * (t * t * (3.0 * t - 5.0) + 2.0),
        0.5 * t * (t * (4.0 - 3.0 * t) + 1.0),
        0.5 * t * t * (t - 1.0),
    ]
}

/// The centre of a refined cell in units of the old cells, zero at the first old centre.
fn old_index(fine: usize, factor: usize) -> f64 {
    (fine as f64 + 0.5) / factor as f64 - 0.5
}

fn refine_axis(axis: &[f64], factor: usize) -> Vec<f64> {
    (0..axis.len() * factor)
        .map(|fine| {
            let at = old_index(fine, factor);
            let low = (at.max(0.0) as usize).min(axis.len() - 2);
            axis[low] + (at - low as f64) * (axis[low + 1] - axis[low])
        })
        .collect()
}

fn check_axis(name: &'static str, axis: &[f64], limit: f64) -> Result<(), ReliefError> {
    if axis.len() < MIN_CELLS {
        return Err(ReliefError::TooSmall { name, found: axis.len() });
    }
    check_finite(name, axis)?;
    match axis.iter().position(|value| value.abs() > limit) {
        Some(index) => Err(ReliefError::OutOfRange { name, limit, value: axis[index], index }),
        None => Ok(()),
    }
}

fn check_finite(name: &'static str, values: &[f64]) -> Result<(), ReliefError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(ReliefError::NotFinite { name, value: values[index], index }),
        None => Ok(()),
    }
}

/// Types by their names in an error.
type Types = (&'static [NpyType], &'static str);

const AXIS_TYPES: Types = (&[NpyType::F32, NpyType::F64], "float32 or float64");

const TOPO_TYPES: Types =
    (&[NpyType::F32, NpyType::F64, NpyType::I16, NpyType::I32], "float32, float64, int16 or int32");

fn read_axis<R: Read + Seek>(npz: &mut Npz<R>, name: &'static str) -> Result<Vec<f64>, ReliefError> {
    Ok(read(npz, name, AXIS_TYPES, 1)?.floats())
}

fn read<R: Read + Seek>(
    npz: &mut Npz<R>,
    name: &'static str,
    (types, expected): Types,
    axes: usize,
) -> Result<NpyArray, ReliefError> {
    npz.array(name, Wanted { types, axes, most: MAX_CELLS }).map_err(|error| match error {
        NpzError::ElementType { found } => ReliefError::ElementType { name, expected, found },
        NpzError::Axes { expected, found } => {
            ReliefError::Shape { name, expected: format!("{expected} dimensions"), found: found.to_string() }
        }
        error => ReliefError::Damaged { name, reason: error.to_string() },
    })
}
