//! In which order halos are filled.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// In which order the halos of a grid are filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HaloOrder {
    /// All at once, from all neighbours, diagonal ones too.
    #[default]
    AllNeighbours,
    /// Along one axis after the other, the last one first: what a rank has got along one axis it passes on along the next,
    /// so that it has to do with the neighbours across its faces alone, and the pieces are few and large. Neighbours wait
    /// for each other once for every axis.
    ///
    /// Serves domains that are a Cartesian product of intervals, with halos that have edges and corners, on devices that
    /// are done when a call returns, and fields of the library on all ranks; all others are served as if it were not asked
    /// for ([`Traffic::steps`](super::Traffic::steps) says so). Memory that is merely borrowed is touched by `start` and
    /// `finish` alone, which could not go from one axis to the next while a rank finishes another exchange.
    AxisByAxis,
}

/// The names, as they are written and read.
const NAMES: [(HaloOrder, &str); 2] =
    [(HaloOrder::AllNeighbours, "all-neighbours"), (HaloOrder::AxisByAxis, "axis-by-axis")];

impl fmt::Display for HaloOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|(order, _)| order == self).map_or("", |(_, name)| name))
    }
}

impl FromStr for HaloOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<HaloOrder, String> {
        NAMES.iter().find(|(_, name)| *name == text).map(|(order, _)| *order).ok_or_else(|| {
            let names = NAMES.map(|(_, name)| name).join(", ");
            format!("expected one of {names}; found `{text}`")
        })
    }
}
