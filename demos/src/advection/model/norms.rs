//! Mass, errors and the order of convergence.

use haloport_mesh::Mesh;
use serde::Serialize;

use crate::common::numbers::{Sum, larger};

/// The relative difference of a field from the exact one (Williamson et al. 1992, equations 82 to 84).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Norms {
    /// The mean of the error's magnitude.
    pub l1: f64,
    /// The root of its mean square.
    pub l2: f64,
    /// The largest error.
    pub linf: f64,
}

/// One level of a field.
#[derive(Clone, Copy, Debug)]
pub struct Level<'f> {
    /// Values of all cells, levels fastest.
    pub field: &'f [f64],
    /// The number of levels.
    pub levels: usize,
    /// The number of this level.
    pub level: usize,
}

/// The areas of all cells, steradians.
pub fn areas(mesh: &Mesh) -> Vec<f64> {
    (0..mesh.cells()).map(|cell| mesh.cell_area(cell)).collect()
}

impl Level<'_> {
    /// Its values by cell.
    pub fn values(&self) -> impl Iterator<Item = f64> + Clone {
        self.field.iter().skip(self.level).step_by(self.levels).copied()
    }

    /// The mass of the level, given the areas of the cells; summed in their order, with compensation.
    pub fn mass(&self, areas: &[f64]) -> f64 {
        self.values().zip(areas).map(|(value, area)| value * area).collect::<Sum>().value()
    }

    /// The error, compared with the same level of the exact field.
    pub fn norms(&self, exact: &Level<'_>, areas: &[f64]) -> Norms {
        let [mut error1, mut error2, mut all1, mut all2] = [Sum::default(); 4];
        let (mut error, mut all) = (0.0_f64, 0.0_f64);
        for ((found, exact), area) in self.values().zip(exact.values()).zip(areas) {
            let wrong = (found - exact).abs();
            error1.add(area * wrong);
            error2.add(area * wrong * wrong);
            all1.add(area * exact.abs());
            all2.add(area * exact * exact);
            error = larger(error, wrong);
            all = all.max(exact.abs());
        }
        Norms {
            l1: error1.value() / all1.value(),
            l2: (error2.value() / all2.value()).sqrt(),
            linf: error / all,
        }
    }
}

impl Norms {
    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Norms) -> Norms {
        Norms {
            l1: larger(self.l1, other.l1),
            l2: larger(self.l2, other.l2),
            linf: larger(self.linf, other.linf),
        }
    }

    /// The orders of convergence: the powers of the cell's size, from the errors and numbers of cells of a coarse and
    /// a fine mesh.
    #[must_use]
    pub fn order(self, fine: Norms, cells: [usize; 2]) -> Norms {
        let sizes = (cells[1] as f64 / cells[0] as f64).sqrt().ln();
        let order = |coarse: f64, fine: f64| (coarse / fine).ln() / sizes;
        Norms { l1: order(self.l1, fine.l1), l2: order(self.l2, fine.l2), linf: order(self.linf, fine.linf) }
    }
}
