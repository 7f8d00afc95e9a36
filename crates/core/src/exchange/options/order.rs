//! In which order halos are filled.

use serde::{Deserialize, Serialize};

use super::names::named;

/// In which order the halos of a grid are filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HaloOrder {
    /// Axis by axis where it is possible and ranks are neighbours along one axis alone, so that they wait for each other no
    /// more often; otherwise all at once.
    #[default]
    Quickest,
    /// All at once, from all neighbours, diagonal ones too.
    AllNeighbours,
    /// Along one axis after the other, the last one first: what a rank has got along one axis it passes on along the next,
    /// so that it has to do with the neighbours across its faces alone, and the pieces are few and large. Neighbours wait
    /// for each other once for every axis.
    ///
    /// Serves domains that are a Cartesian product of intervals, with halos that have edges and corners, on devices that
    /// are done when a call returns, and fields of the library on all ranks; all others are served as if it were not asked
    /// for ([`Traffic::steps`](crate::exchange::Traffic::steps) says so). Memory that is merely borrowed is touched by `start` and
    /// `finish` alone, which could not go from one axis to the next while a rank finishes another exchange.
    AxisByAxis,
}

named!(HaloOrder {
    Quickest => "quickest",
    AllNeighbours => "all-neighbours",
    AxisByAxis => "axis-by-axis",
});
