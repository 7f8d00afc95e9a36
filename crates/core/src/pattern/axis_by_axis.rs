//! Patterns that fill the same halos axis by axis.
//!
//! If the domains are a Cartesian product of intervals, the edges and corners of a halo need not come from diagonal
//! neighbours. Along each axis in turn, domains exchange their faces, with the halo cells that they have received along
//! earlier axes. So pieces are fewer and larger, and the pieces of the slowest axis, which comes last, are contiguous
//! in memory.

use std::collections::BTreeMap;

use super::{Domains, Pattern, Piece};
use crate::domain::{Connectivity, Grid, HaloWidths, IndexBox};
use crate::pattern::Cells;
use crate::transport::{Reduction, TransportError};

/// The pieces of each step, by rank.
type Steps = Vec<BTreeMap<usize, Vec<Piece>>>;

impl Pattern {
    /// Collective: returns patterns that fill the same halos, one after the other, each along one axis. `None` on all
    /// ranks if the domains are not such a product, if halos have no edges, if only one axis has a halo, or if a rank
    /// does not want the patterns.
    pub(crate) fn axis_by_axis(&self, wanted: bool) -> Result<Option<Vec<Pattern>>, TransportError> {
        let comm = self.comm();
        let agreed = |here: bool| -> Result<bool, TransportError> {
            let mut all = [u64::from(here)];
            comm.all_reduce(&mut all, Reduction::Min)?;
            Ok(all[0] == 1)
        };
        let product = self.product().filter(|_| wanted);
        let receives = product.as_ref().and_then(Product::receives);
        if !agreed(receives.is_some())? {
            return Ok(None);
        }
        let receives = receives.unwrap_or_default();
        // Only the receiver knows where its faces end.
        let mut requests: BTreeMap<usize, Vec<Vec<Piece>>> = BTreeMap::new();
        for (step, pieces) in receives.iter().enumerate() {
            for (&peer, pieces) in pieces {
                requests.entry(peer).or_insert_with(|| vec![Vec::new(); receives.len()])[step] =
                    pieces.clone();
            }
        }
        let requests: Vec<(usize, Vec<Vec<Piece>>)> = requests.into_iter().collect();
        let mut sends: Steps = vec![BTreeMap::new(); receives.len()];
        for (peer, steps) in comm.sparse_exchange(&requests)? {
            if steps.len() != sends.len() {
                let why = format!("pieces of {} steps, expected {}", steps.len(), sends.len());
                return Err(TransportError::Malformed { sender: peer, why });
            }
            for (sends, pieces) in sends.iter_mut().zip(steps).filter(|(_, pieces)| !pieces.is_empty()) {
                sends.insert(peer, pieces);
            }
        }
        if !agreed(product.is_some_and(|product| product.sends_fit(&sends)))? {
            return Ok(None);
        }
        let steps = receives.into_iter().zip(sends);
        Ok(Some(steps.map(|(receives, sends)| self.with_pieces(receives, sends)).collect()))
    }

    /// A piece that this rank sends, extended by all cells that may be sent with it axis by axis: if the piece is a
    /// whole face of a domain, the halo beside the face. Not collective, so the result may be too large, but never too
    /// small.
    pub(crate) fn with_edges(&self, piece: &Piece) -> Piece {
        let with_edges = || {
            let product = self.product()?;
            let (owned, source) = (self.boxes().get(piece.source_domain)?, piece.source.as_box()?);
            let around = product.widths.around(owned);
            let whole = (0..source.axes()).filter(|&axis| source.bounds(axis) == owned.bounds(axis));
            let grown = whole.fold(*source, |grown, axis| {
                grown.with_axis(axis, around.lower()[axis], around.upper()[axis])
            });
            Some(Piece { source: Cells::Box(grown), ..piece.clone() })
        };
        with_edges().unwrap_or_else(|| piece.clone())
    }

    /// The pattern as a product of intervals, if its domains may be one.
    fn product(&self) -> Option<Product<'_>> {
        let Domains::Structured { grid, widths, boxes } = &self.inner.domains else { return None };
        // The slowest axis of most fields is the first.
        let axes: Vec<usize> =
            (0..grid.axes()).rev().filter(|&axis| widths.lower[axis] + widths.upper[axis] > 0).collect();
        let straight = !grid.is_cubed_sphere() && grid.fold().is_none();
        let copies = straight && widths.connectivity == Connectivity::All && !self.is_redistribution();
        let fits = copies && axes.len() > 1;
        fits.then_some(Product { pattern: self, grid, widths, boxes, axes })
    }
}

/// A pattern that may be a product of intervals.
struct Product<'p> {
    pattern: &'p Pattern,
    grid: &'p Grid,
    widths: &'p HaloWidths,
    boxes: &'p [IndexBox],
    /// The axes with a halo, in the order of the steps.
    axes: Vec<usize>,
}

impl Product<'_> {
    /// The pieces that this rank receives along each axis; `None` if faces of other domains do not cover a face of a
    /// domain.
    fn receives(&self) -> Option<Steps> {
        let mut steps = vec![BTreeMap::<usize, Vec<Piece>>::new(); self.axes.len()];
        for (&peer, pieces) in self.pattern.receives() {
            for piece in pieces {
                let owned = self.boxes.get(piece.target_domain)?;
                let (source, target) = (piece.source.as_box()?, piece.target.as_box()?);
                let Some(step) = self.step_of(target, owned) else { continue };
                if !self.others(step).all(|axis| target.bounds(axis) == owned.bounds(axis)) {
                    return None;
                }
                let grown = |cells: &IndexBox| Cells::Box(self.grown(cells, step));
                let piece = Piece { source: grown(source), target: grown(target), ..piece.clone() };
                steps[step].entry(peer).or_default().push(piece);
            }
        }
        Some(steps)
    }

    /// Whether the pieces that others ask for are faces of this rank, with the halo cells of earlier steps.
    fn sends_fit(&self, sends: &Steps) -> bool {
        let fits = |step: usize, piece: &Piece| {
            let (Some(owned), Some(source)) = (self.boxes.get(piece.source_domain), piece.source.as_box())
            else {
                return false;
            };
            let has = self.grown(owned, step);
            owned.axes() == source.axes()
                && self.others(step).all(|axis| source.bounds(axis) == has.bounds(axis))
                && has.encloses(source)
        };
        sends
            .iter()
            .enumerate()
            .all(|(step, pieces)| pieces.values().flatten().all(|piece| fits(step, piece)))
    }

    /// The step that fills a part of a halo that touches a face; `None` for edges and corners.
    fn step_of(&self, target: &IndexBox, owned: &IndexBox) -> Option<usize> {
        let meets = |axis: usize| {
            let ((lower, upper), (first, past)) = (target.bounds(axis), owned.bounds(axis));
            lower < past && first < upper
        };
        let mut beside = (0..self.axes.len()).filter(|&step| !meets(self.axes[step]));
        beside.next().filter(|_| beside.next().is_none())
    }

    /// All axes except the axis of a step.
    fn others(&self, step: usize) -> impl Iterator<Item = usize> {
        let own = self.axes[step];
        (0..self.grid.axes()).filter(move |axis| *axis != own)
    }

    /// The cells with their halo along the axes of earlier steps, within the grid.
    fn grown(&self, cells: &IndexBox, step: usize) -> IndexBox {
        self.axes[..step].iter().fold(*cells, |grown, &axis| {
            let (mut lower, mut upper) = cells.bounds(axis);
            lower -= self.widths.lower[axis];
            upper += self.widths.upper[axis];
            if !self.grid.is_periodic(axis) {
                (lower, upper) = (lower.max(0), upper.min(self.grid.extent(axis) as i64));
            }
            grown.with_axis(axis, lower, upper)
        })
    }
}
