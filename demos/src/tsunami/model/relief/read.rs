//! The arrays of a relief, from an archive.

use std::io::{Read, Seek};

use super::error::{MAX_CELLS, ReliefError};
use crate::npz::{NpyArray, NpyType, Npz, NpzError, Wanted};

/// Longitudes and latitudes, degrees, and elevations, metres, row-major.
pub(super) type Arrays = [Vec<f64>; 3];

/// Reads the three arrays of a relief.
///
/// # Errors
/// [`ReliefError`].
pub(super) fn arrays(reader: impl Read + Seek) -> Result<Arrays, ReliefError> {
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
    Ok([longitude, latitude, topo.floats()])
}

/// Types and their names in an error.
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
