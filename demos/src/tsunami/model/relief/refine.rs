//! Refines reliefs.

use super::Relief;
use super::error::{MAX_CELLS, ReliefError};

impl Relief {
    /// Returns the same relief with `factor` times as many cells on each axis.
    ///
    /// Bicubic (Catmull and Rom 1974) between the cell centres, clamped to the four cells
    /// around each new centre, so that no new peak, pit or shore appears.
    ///
    /// # Errors
    /// [`ReliefError::Refinement`].
    pub fn refine(&self, factor: usize) -> Result<Self, ReliefError> {
        let cells = self.elevation.len();
        let refined = factor.checked_mul(factor).and_then(|square| square.checked_mul(cells));
        if factor == 0 || refined.is_none_or(|refined| refined > MAX_CELLS) {
            return Err(ReliefError::Refinement { factor, cells });
        }
        if factor == 1 {
            return Ok(self.clone());
        }
        let columns = stencils(self.nx(), factor);
        let rows = stencils(self.ny(), factor);
        let mut elevation = Vec::with_capacity(rows.len() * columns.len());
        for row in &rows {
            elevation.extend(columns.iter().map(|column| self.interpolate(row, column)));
        }
        Ok(Self {
            longitude: refine_axis(&self.longitude, factor),
            latitude: refine_axis(&self.latitude, factor),
            elevation,
        })
    }

    fn interpolate(&self, row: &Stencil, column: &Stencil) -> f64 {
        let at = |j: usize, i: usize| self.elevation[row.cells[j] * self.nx() + column.cells[i]];
        let mut sum = 0.0;
        for (j, row_weight) in row.weights.iter().enumerate() {
            for (i, column_weight) in column.weights.iter().enumerate() {
                sum += row_weight * column_weight * at(j, i);
            }
        }
        let around = [at(1, 1), at(1, 2), at(2, 1), at(2, 2)];
        let lowest = around.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = around.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        sum.clamp(lowest, highest)
    }
}

/// Four cells of an axis and their weights at a point between the middle two.
struct Stencil {
    cells: [usize; 4],
    weights: [f64; 4],
}

/// The positions of the refined centres among the old ones; constant beyond the outer centres.
fn stencils(cells: usize, factor: usize) -> Vec<Stencil> {
    let last = cells - 1;
    (0..cells * factor)
        .map(|fine| {
            let at = old_index(fine, factor).clamp(0.0, last as f64);
            let low = (at as usize).min(last - 1);
            Stencil {
                cells: [low.saturating_sub(1), low, low + 1, (low + 2).min(last)],
                weights: catmull_rom(at - low as f64),
            }
        })
        .collect()
}

/// Weights of four equidistant points at `t` between the second and the third.
fn catmull_rom(t: f64) -> [f64; 4] {
    [
        0.5 * t * (t * (2.0 - t) - 1.0),
        0.5 * (t * t * (3.0 * t - 5.0) + 2.0),
        0.5 * t * (t * (4.0 - 3.0 * t) + 1.0),
        0.5 * t * t * (t - 1.0),
    ]
}

/// The centre of a refined cell in units of the old cells, zero at the first old centre.
fn old_index(fine: usize, factor: usize) -> f64 {
    (fine as f64 + 0.5) / factor as f64 - 0.5
}

fn refine_axis(axis: &[f64], factor: usize) -> Vec<f64> {
    (0..axis.len() * factor)
        .map(|fine| {
            let at = old_index(fine, factor);
            let low = (at.max(0.0) as usize).min(axis.len() - 2);
            axis[low] + (at - low as f64) * (axis[low + 1] - axis[low])
        })
        .collect()
}
