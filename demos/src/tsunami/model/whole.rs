//! Fields of the whole grid, and their differences between two runs.

use crate::common::numbers::{differing, larger, largest_difference};
use crate::tsunami::model::block::State;

/// Fields of the whole grid, row by row from the south.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whole {
    /// Depth, metres.
    pub h: Vec<f64>,
    /// Depth times eastward velocity, m^2/s.
    pub hu: Vec<f64>,
    /// Depth times northward velocity, m^2/s.
    pub hv: Vec<f64>,
    /// Largest wave height so far, metres; see [`wave_height`](crate::tsunami::model::survey::wave_height).
    pub largest: Vec<f64>,
}

impl Whole {
    /// Depth and momenta.
    pub fn state(&self) -> State<'_> {
        State { h: &self.h, hu: &self.hu, hv: &self.hv }
    }

    /// The number of values that differ from those of `other` in any bit.
    pub fn differing(&self, other: &Whole) -> usize {
        self.pairs(other).into_iter().map(|(one, other)| differing(one, other)).sum()
    }

    /// The largest of the [`largest_difference`]s of the fields from those of `other`.
    pub fn largest_difference(&self, other: &Whole) -> f64 {
        self.pairs(other).map(|(one, other)| largest_difference(one, other)).into_iter().fold(0.0, larger)
    }

    fn pairs<'w>(&'w self, other: &'w Whole) -> [(&'w [f64], &'w [f64]); 4] {
        [(&self.h, &other.h), (&self.hu, &other.hu), (&self.hv, &other.hv), (&self.largest, &other.largest)]
    }
}
