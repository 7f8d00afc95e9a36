//! How an exchange is done.

use std::fmt;

use serde::Serialize;

use super::order::HaloOrder;
use super::path::DataPath;

/// How an exchange is done: from [`Exchange::choice`](crate::exchange::Exchange::choice), the same on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Choice {
    /// How data gets to ranks that share memory; [`DataPath::Quickest`] if the model chooses for each field and
    /// neighbour.
    pub path: DataPath,
    /// In which order halos are filled; never [`HaloOrder::Quickest`].
    pub order: HaloOrder,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.path, self.order)
    }
}
