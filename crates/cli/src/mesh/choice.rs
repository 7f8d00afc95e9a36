//! The option that says which part gets which cells.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The way in which a mesh is cut into parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartitionChoice {
    /// Along a space-filling curve.
    Curve,
    /// By METIS, in builds with that feature.
    Metis,
    /// By a file with the number of a part for each cell.
    File(PathBuf),
}

impl FromStr for PartitionChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<PartitionChoice, Infallible> {
        Ok(match text {
            "curve" => PartitionChoice::Curve,
            "metis" => PartitionChoice::Metis,
            file => PartitionChoice::File(file.into()),
        })
    }
}

impl fmt::Display for PartitionChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartitionChoice::Curve => f.write_str("curve"),
            PartitionChoice::Metis => f.write_str("metis"),
            PartitionChoice::File(path) => path.display().fmt(f),
        }
    }
}
