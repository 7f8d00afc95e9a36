//! Measures of a state: volume and extremes; and the largest wave height.

use crate::common::numbers::Sum;
use crate::tsunami::model::block::State;
use crate::tsunami::model::face::{max, min, per_depth};
use crate::tsunami::model::scheme::Physics;

/// Measures of rows of cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Survey {
    /// Volume of the water, cubic metres.
    pub volume: f64,
    /// Smallest depth, metres; a negative one means that the time step was too long.
    pub min_depth: f64,
    /// Largest speed, m/s.
    pub max_speed: f64,
}

impl Survey {
    /// Measures rows of cells without a margin, given the areas of a cell of each row (square metres) and the state, all
    /// rows after each other.
    ///
    /// The volume is summed in that order and with compensation (Neumaier 1974), so that its change over a run is that
    /// of the scheme, not of rounding.
    pub fn new(area: &[f64], physics: &Physics, state: State<'_>) -> Self {
        let mut survey = Self { volume: 0.0, min_depth: f64::INFINITY, max_speed: 0.0 };
        let mut volume = Sum::default();
        let columns = state.h.len() / area.len().max(1);
        for (cell, &h) in state.h.iter().enumerate() {
            let per_depth = per_depth(h, physics.dry);
            let (u, v) = (state.hu[cell] * per_depth, state.hv[cell] * per_depth);
            volume.add(area[cell / columns] * h);
            survey.min_depth = survey.min_depth.min(h);
            survey.max_speed = survey.max_speed.max((u * u + v * v).sqrt());
        }
        survey.volume = volume.value();
        survey
    }
}

/// Height of the water above sea level where the bed lies below it, depth of the flow on
/// land, metres, from the depth and the elevation of the bed.
#[inline(always)]
pub fn wave_height(h: f64, bed: f64) -> f64 {
    h + min(bed, 0.0)
}

/// Raises `largest` to the [`wave_height`] of cells with the given depths and bed.
pub fn raise_largest(h: &[f64], bed: &[f64], largest: &mut [f64]) {
    for (largest, (&h, &bed)) in largest.iter_mut().zip(h.iter().zip(bed)) {
        *largest = max(wave_height(h, bed), *largest);
    }
}
