//! The constants of the model, and the time step.

use std::ops::Range;

use serde::Serialize;
use thiserror::Error;

use crate::tsunami::model::block::{BlockView, MARGIN, State};
use crate::tsunami::model::face::{GRAVITY, max, per_depth};

/// Constants of the model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Physics {
    /// Courant number, at most 1; see [`Physics::time_step`].
    pub courant: f64,
    /// Coefficient of the quadratic bottom drag `c |u| u / h`, dimensionless.
    pub drag: f64,
    /// Depth below which velocities are damped towards zero, metres; see [`per_depth`].
    pub dry: f64,
}

/// Cells shallower than this many metres count twice in the time step, for they could run
/// dry: fluxes through their faces must not carry off more than they hold. Deeper cells
/// only need stability.
pub const DRAINABLE_DEPTH: f64 = 100.0;

/// The error of a constant of the model.
#[derive(Debug, Error, PartialEq)]
#[error("{name} must be {expected}, found {found}")]
pub struct PhysicsError {
    name: &'static str,
    expected: &'static str,
    found: f64,
}

impl Physics {
    /// The longest stable time step, seconds, for the largest rate of the whole grid (1/s;
    /// see [`max_rate`]). Infinite if there is no water.
    pub fn time_step(&self, max_rate: f64) -> f64 {
        self.courant / max_rate
    }

    /// Returns the constants if they are valid.
    ///
    /// # Errors
    /// [`PhysicsError`].
    pub fn checked(self) -> Result<Self, PhysicsError> {
        let check = |name, found: f64, ok, expected| match ok {
            true => Ok(()),
            false => Err(PhysicsError { name, expected, found }),
        };
        let courant = self.courant;
        let positive = courant > 0.0 && courant <= 1.0;
        check("the Courant number", courant, positive, "above 0 and at most 1")?;
        let drag = self.drag >= 0.0 && self.drag.is_finite();
        check("the drag coefficient", self.drag, drag, "0 or more")?;
        let dry = self.dry > 0.0 && self.dry.is_finite();
        check("the dry depth", self.dry, dry, "above 0 m")?;
        Ok(self)
    }
}

impl Default for Physics {
    fn default() -> Self {
        Self { courant: 0.8, drag: 0.0025, dry: 0.01 }
    }
}

/// The largest rate, 1/s, at which a wave crosses one of the owned cells `columns` of `row`:
/// `(|u| + c) / width + (|v| + c) / height` with `c = sqrt(g h)`, twice that in water
/// shallower than [`DRAINABLE_DEPTH`]. Zero if all is dry.
pub fn max_rate(
    block: BlockView<'_>,
    physics: &Physics,
    row: usize,
    columns: Range<usize>,
    state: State<'_>,
) -> f64 {
    let mut lanes = [0.0; 8];
    let side = block.metric.side[row + MARGIN];
    let ends = max(block.metric.south[row + MARGIN], block.metric.north[row + MARGIN]);
    let cells = block.index(row, columns.start)..block.index(row, columns.end);
    let (h, hu, hv) = (&state.h[cells.clone()], &state.hu[cells.clone()], &state.hv[cells]);
    let chunks = h.chunks(lanes.len()).zip(hu.chunks(lanes.len()).zip(hv.chunks(lanes.len())));
    for (h, (hu, hv)) in chunks {
        for (((h, hu), hv), lane) in h.iter().zip(hu).zip(hv).zip(&mut lanes) {
            let per_depth = per_depth(*h, physics.dry);
            let wave = (GRAVITY * h).sqrt();
            let across = (hu * per_depth).abs() + wave;
            let up = (hv * per_depth).abs() + wave;
            let weight = if *h < DRAINABLE_DEPTH { 2.0 } else { 1.0 };
            *lane = max(weight * (across * side + up * ends), *lane);
        }
    }
    lanes.into_iter().fold(0.0, max)
}
