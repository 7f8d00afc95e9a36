//! The path and the order of a bound exchange.

use std::fmt;

use serde::Serialize;

use super::order::HaloOrder;
use super::path::DataPath;

/// The path and the order that were chosen for an exchange; the same on every rank. See
/// [`Exchange::choice`](crate::exchange::Exchange::choice).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Choice {
    /// How data gets to ranks that share memory. With [`DataPath::Quickest`], the cost model chooses for each field and
    /// neighbour.
    pub path: DataPath,
    /// The order in which halos are filled; never [`HaloOrder::Quickest`].
    pub order: HaloOrder,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.path, self.order)
    }
}
