//! The wind: the rotation of a solid body.

use haloport_mesh::sphere::{cross, dot};

/// Days in which the wind goes round the sphere (Williamson et al. 1992).
pub const PERIOD: f64 = 12.0;

/// A wind that carries every point round one axis with the same angular speed. Lengths are in radii of the sphere,
/// times in days.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wind {
    axis: [f64; 3],
    /// Radians per day.
    rate: f64,
}

impl Wind {
    /// A wind that goes round in [`PERIOD`] days, about an axis that is tilted from the poles' by `alpha` radians,
    /// away from longitude 0 (Williamson et al. 1992, equations 75 and 76). It carries the point at longitude 270° on
    /// the equator along a great circle, whatever `alpha`.
    pub fn tilted(alpha: f64) -> Wind {
        let (sine, cosine) = alpha.sin_cos();
        Wind { axis: [-sine, 0.0, cosine], rate: std::f64::consts::TAU / PERIOD }
    }

    /// The axis, of length 1; seen from its tip the wind blows counter-clockwise.
    pub fn axis(&self) -> [f64; 3] {
        self.axis
    }

    /// The stream function: the flow across any line on the sphere from `a` to `b`, to its right, is the difference of
    /// its values at `b` and `a` (per unit of tracer and day). It is a multiple of the coordinate along the axis.
    pub fn stream_function(&self, at: [f64; 3]) -> f64 {
        self.rate * dot(self.axis, at)
    }

    /// The position of the point `at` after `days` (O. Rodrigues's rotation formula, 1840).
    pub fn carried(&self, at: [f64; 3], days: f64) -> [f64; 3] {
        let (sine, cosine) = (self.rate * days).sin_cos();
        let (aside, along) = (cross(self.axis, at), (1.0 - cosine) * dot(self.axis, at));
        [0, 1, 2].map(|k| cosine * at[k] + sine * aside[k] + along * self.axis[k])
    }
}
