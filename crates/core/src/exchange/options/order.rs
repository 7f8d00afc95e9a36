//! The order in which halos are filled.

use serde::{Deserialize, Serialize};

use super::names::named;

/// The order in which the halos of a grid are filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HaloOrder {
    /// [`AxisByAxis`](HaloOrder::AxisByAxis) if it is possible and all ranks are neighbours along one axis only, so
    /// that they wait for each other just once; otherwise [`AllNeighbours`](HaloOrder::AllNeighbours).
    #[default]
    Quickest,
    /// All at once, from all neighbours, including diagonal ones.
    AllNeighbours,
    /// Along one axis after the other, the last axis first. A rank passes the cells that it received along one axis on
    /// along the next, so it communicates only with the neighbours across its faces, in few and large pieces.
    /// Neighbours wait for each other once per axis.
    ///
    /// Requires domains that are a Cartesian product of intervals, halos that have edges and corners, a synchronous
    /// device, and fields that own their memory, on all ranks. Otherwise halos are filled all at once;
    /// [`Traffic::steps`](crate::exchange::Traffic::steps) tells the two apart. Borrowed memory is excluded because
    /// only `start` and `finish` touch it: they could not go on to the next axis while the rank finishes another
    /// exchange.
    AxisByAxis,
}

named!(HaloOrder {
    Quickest => "quickest",
    AllNeighbours => "all-neighbours",
    AxisByAxis => "axis-by-axis",
});
