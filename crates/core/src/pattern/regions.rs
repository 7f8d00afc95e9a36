//! The owned cells that can be computed while halos travel, and those that need the halos.

use super::{Domains, Pattern};
use crate::domain::{Grid, HaloWidths, IndexBox};

/// The owned cells of a structured domain, split by whether a stencil as wide as the halo reads cells that an exchange
/// fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regions {
    /// Cells whose stencil reads no cell that an exchange fills: they can be computed while it is pending. `None` if
    /// there are none.
    pub interior: Option<IndexBox>,
    /// The other owned cells, as disjoint boxes, at most two for each axis. The boxes at the ends of the first axis
    /// extend over the whole domain along the other axes, so that their cells are contiguous if that axis is the
    /// slowest.
    pub boundary: Vec<IndexBox>,
}

/// The owned cells of an unstructured domain, as ascending local indices, split by whether they need cells that an
/// exchange fills.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CellRegions {
    /// Cells that need no cell that an exchange fills: they can be computed while it is pending.
    pub interior: Vec<u32>,
    /// The other owned cells.
    pub boundary: Vec<u32>,
}

impl Pattern {
    /// The cells of `domain` that can be computed while halos travel, and the others. The stencil reads from a cell as
    /// far as the halo is wide, on each side of each axis (with [`Connectivity::Faces`](crate::Connectivity::Faces)
    /// only along the axes). `None` for an unstructured pattern, and for a domain that does not exist.
    ///
    /// Sides at the end of the grid are not trimmed: no exchange fills the cells beyond them. The program fills these
    /// cells itself before it starts the exchange, and may read them while it is pending:
    /// [`Pending::owned`](crate::Pending::owned) lends them, too.
    ///
    /// These cells need no halo. [`interior`](Pattern::interior) returns the cells that no halo of a neighbour needs,
    /// which may be written meanwhile; the two differ if the halo is wider on one side than on the other.
    pub fn regions(&self, domain: usize) -> Option<Regions> {
        let Domains::Structured { grid, widths, boxes } = &self.inner.domains else { return None };
        let owned = *boxes.get(domain)?;
        if owned.is_empty() {
            return Some(Regions { interior: None, boundary: Vec::new() });
        }
        let interior = (0..owned.axes()).fold(owned, |interior, axis| {
            let ((lower, upper), [below, above]) = (owned.bounds(axis), filled(grid, widths, &owned, axis));
            interior.with_axis(axis, lower + below, upper - above)
        });
        Some(Regions {
            interior: (!interior.is_empty()).then_some(interior),
            boundary: owned.minus(&interior),
        })
    }

    /// `cells`, which `domain` owns, extended into `allocated` beyond each side that they touch and beyond which no
    /// exchange fills cells. No exchange reads or writes the added cells. For an unstructured domain and on a cubed
    /// sphere, just `cells`.
    pub(crate) fn with_margins(&self, domain: usize, cells: IndexBox, allocated: &IndexBox) -> IndexBox {
        let Domains::Structured { grid, widths, boxes } = &self.inner.domains else { return cells };
        let Some(owned) = boxes.get(domain).filter(|_| !grid.is_cubed_sphere()) else { return cells };
        // Filled cells lie within the widths of the halo and, along axes that are not periodic, within the grid. So do
        // halo cells that are sent on, axis by axis.
        (0..owned.axes()).fold(cells, |grown, axis| {
            let ((mut lower, mut upper), [below, above]) =
                (cells.bounds(axis), filled(grid, widths, owned, axis));
            let ((first, past), (lowest, highest)) = (owned.bounds(axis), allocated.bounds(axis));
            if below == 0 && lower == first {
                lower = lower.min(lowest);
            }
            if above == 0 && upper == past {
                upper = upper.max(highest);
            }
            grown.with_axis(axis, lower, upper)
        })
    }

    /// The cells of an unstructured `domain` that can be computed while halos travel, and the others. `reads` returns
    /// the local indices of the cells that an owned cell needs; for adjacency lists in one array, `|cell|
    /// cells[offsets[cell]..offsets[cell + 1]].iter().copied()`. `None` for a structured pattern, and for a domain that
    /// does not exist.
    ///
    /// Halo cells that the pattern does not fill count as owned ones. An index beyond the last cell of the domain
    /// counts as filled, so that its reader waits.
    pub fn cell_regions<R: IntoIterator<Item = usize>>(
        &self,
        domain: usize,
        mut reads: impl FnMut(usize) -> R,
    ) -> Option<CellRegions> {
        let set = self.index_sets().get(domain)?;
        let mut filled = vec![false; set.len()];
        for piece in self.receives().values().flatten().filter(|piece| piece.target_domain == domain) {
            for &index in piece.target.as_list().into_iter().flat_map(|list| list.iter()) {
                filled[index as usize] = true;
            }
        }
        let mut regions = CellRegions::default();
        for (cell, _) in set.cells(true) {
            let is_filled = |read: usize| filled.get(read).copied().unwrap_or(true);
            let waits = reads(cell as usize).into_iter().any(is_filled);
            let list = if waits { &mut regions.boundary } else { &mut regions.interior };
            list.push(cell);
        }
        Some(regions)
    }
}

/// The number of cells that an exchange fills beyond the two sides of `owned` along `axis`, below and above, with the
/// row of duplicates at a fold.
fn filled(grid: &Grid, widths: &HaloWidths, owned: &IndexBox, axis: usize) -> [i64; 2] {
    let (lower, upper) = owned.bounds(axis);
    let endless = grid.is_periodic(axis) || grid.is_tile_axis(axis);
    let below = if endless || lower > 0 { widths.lower[axis] } else { 0 };
    let above = if endless || upper < grid.extent(axis) as i64 { widths.upper[axis] } else { 0 };
    match grid.fold_line().filter(|_| grid.fold().is_some_and(|fold| fold.y == axis)) {
        Some(line) if upper == grid.extent(axis) as i64 => {
            [below, widths.upper[axis] + i64::from(line.has_duplicates())]
        }
        _ => [below, above],
    }
}
