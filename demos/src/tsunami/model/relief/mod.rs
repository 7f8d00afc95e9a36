//! The relief: elevations of land and sea bed.

mod error;
mod read;
mod refine;

use std::fs::File;
use std::io::Cursor;
use std::path::Path;

pub use error::{HIGHEST, MAX_CELLS, MIN_CELLS, ReliefError};

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

/// The relative difference that neighbouring steps of an axis may have.
///
/// Longitudes kept in single precision jitter by a fraction of a percent; the steps of a
/// Mercator grid grow by less than this from row to row.
pub const SPACING_TOLERANCE: f64 = 0.02;

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
        let [longitude, latitude, elevation] = read::arrays(file)?;
        Self::new(longitude, latitude, elevation)
    }

    /// Reads a relief as [`Relief::from_path`] does, from the bytes of a .npz file.
    ///
    /// # Errors
    /// [`ReliefError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReliefError> {
        let [longitude, latitude, elevation] = read::arrays(Cursor::new(bytes))?;
        Self::new(longitude, latitude, elevation)
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

    /// Removes the rounding to single precision from the longitudes.
    fn smooth_longitude(&mut self) {
        let (west, step) = (self.longitude[0], self.longitude_step());
        for (column, longitude) in self.longitude.iter_mut().enumerate() {
            *longitude = west + step * column as f64;
        }
    }
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
