//! Hills of tracer, at the start and after the wind has carried them, as means over cells.

use std::fmt;
use std::str::FromStr;

use haloport_mesh::sphere::{arc, cross, difference, dot, norm};
use haloport_mesh::{Mesh, sphere};

use super::wind::{PERIOD, Wind};

/// The start of the first level's hill: longitude 270° on the equator (Williamson et al. 1992).
const START: [f64; 3] = [0.0, -1.0, 0.0];

/// The steepness of the Gaussian hill (Lauritzen et al. 2012, table 1), for distances in radii.
const STEEPNESS: f64 = 5.0;

/// The radius of the cosine bell, in radii of the sphere (Williamson et al. 1992).
const BELL_RADIUS: f64 = 1.0 / 3.0;

/// The shape of a hill. Both are 1 at the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// exp(-5 d²), where d is the length of the straight line to the top: smooth everywhere, so that it shows the
    /// order of a scheme (P. H. Lauritzen et al., "A standard test case suite for two-dimensional linear transport on
    /// the sphere", Geosci. Model Dev. 5 (2012), section 3.1).
    #[default]
    Gaussian,
    /// (1 + cos(3 π d)) / 2 for arcs d up to 1/3, and nothing beyond: its second derivative jumps there (Williamson et
    /// al. 1992).
    CosineBell,
}

impl Shape {
    /// The tracer at `at` of a hill at `top`.
    pub fn value(self, top: [f64; 3], at: [f64; 3]) -> f64 {
        match self {
            Shape::Gaussian => {
                let distance = norm(difference(at, top));
                (-STEEPNESS * distance * distance).exp()
            }
            Shape::CosineBell => {
                let distance = arc(at, top) / BELL_RADIUS;
                if distance < 1.0 { 0.5 * (1.0 + (std::f64::consts::PI * distance).cos()) } else { 0.0 }
            }
        }
    }

    /// The arc from the top to half of the height.
    pub fn half_width(self) -> f64 {
        match self {
            Shape::Gaussian => 2.0 * ((2.0_f64.ln() / STEEPNESS).sqrt() / 2.0).asin(),
            Shape::CosineBell => 0.5 * BELL_RADIUS,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Gaussian => "gaussian",
            Shape::CosineBell => "bell",
        })
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let shapes = [Shape::Gaussian, Shape::CosineBell];
        let known = shapes.into_iter().find(|shape| shape.to_string() == text);
        known.ok_or_else(|| format!("expected gaussian or bell; found `{text}`"))
    }
}

/// A hill on each level. Level `l` of `n` starts ahead of the first by `l`/`n` of the way round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tracer {
    /// The shape of every hill.
    pub shape: Shape,
    /// The number of levels.
    pub levels: usize,
    /// The wind that carries them.
    pub wind: Wind,
}

impl Tracer {
    /// The top of the hill of `level` after `days`.
    pub fn top(&self, level: usize, days: f64) -> [f64; 3] {
        let ahead = level as f64 / self.levels as f64 * PERIOD;
        self.wind.carried(START, days + ahead)
    }

    /// The mean of the tracer over `cell`, a triangle of `mesh`, on `level` after `days`: the exact solution.
    pub fn mean(&self, mesh: &Mesh, cell: usize, level: usize, days: f64) -> f64 {
        let top = self.top(level, days);
        mean_over(mesh, cell, |at| self.shape.value(top, at))
    }

    /// The means over all cells, levels fastest.
    pub fn means(&self, mesh: &Mesh, days: f64) -> Vec<f64> {
        let of_cell = |cell| (0..self.levels).map(move |level| self.mean(mesh, cell, level, days));
        (0..mesh.cells()).flat_map(of_cell).collect()
    }
}

/// The mean of `value` over a triangle of the sphere: the rule of degree 5 with 7 points by J. Radon ("Zur
/// mechanischen Kubatur", Monatsh. Math. 52 (1948)) on the flat triangle beneath, each point weighted by the solid
/// angle that its surroundings cover.
fn mean_over(mesh: &Mesh, cell: usize, value: impl Fn([f64; 3]) -> f64) -> f64 {
    let root = 15.0_f64.sqrt();
    let rings =
        [((6.0 - root) / 21.0, (155.0 - root) / 1200.0), ((6.0 + root) / 21.0, (155.0 + root) / 1200.0)];
    let corners: Vec<[f64; 3]> =
        mesh.cell_vertices(cell).iter().map(|&vertex| mesh.position(vertex)).collect();
    let (mut sum, mut weights) = (0.0, 0.0);
    let mut add = |shares: [f64; 3], weight: f64| {
        let flat = [0, 1, 2].map(|axis| (0..3).map(|k| shares[k] * corners[k][axis]).sum());
        let weight = weight / dot(flat, flat).powf(1.5);
        sum += weight * value(sphere::unit(flat));
        weights += weight;
    };
    add([1.0 / 3.0; 3], 0.225);
    for (share, weight) in rings {
        let rest = 1.0 - 2.0 * share;
        [[rest, share, share], [share, rest, share], [share, share, rest]]
            .into_iter()
            .for_each(|shares| add(shares, weight));
    }
    sum / weights
}

/// Two perpendicular directions on the sphere at `at`, seen from outside: right and up, with `up` above.
pub(crate) fn directions(at: [f64; 3], up: [f64; 3]) -> [[f64; 3]; 2] {
    let right = sphere::unit(cross(up, at));
    [right, cross(at, right)]
}
