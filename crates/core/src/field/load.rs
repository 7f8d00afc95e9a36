//! How much of a field travels to a neighbour, and whether it gets there sooner packed or straight.
//!
//! Packing into shared memory, beside copies straight from the neighbour's field, is one pass more over all bytes
//! ([`PASS_NS_PER_BYTE`]). Straight copies, in turn, take lines of the cache from the owner while it fills its own halo in the
//! same lines ([`LINE_NS`]). The smaller sum is taken, for each field and neighbour. Messages of a transport between ranks of
//! one node are packed as well, and copied within the transport: they were 1.1 to 1.8 times as slow as shared memory in all
//! cases below, and are taken where there is nothing else.
//!
//! The figures come from `haloport bench exchange` on 2 cores (AMD EPYC, Open MPI 4.1), 2 ranks, f64, the six cases of
//! `docs/performance.md`, split along the slowest and along the fastest axis.

use serde::{Deserialize, Serialize};

use super::BlockLayout;
use crate::domain::IndexBox;
use crate::element::ElementType;
use crate::pattern::Piece;

/// One pass more over what travels. Measured, split along the slowest axis: 0.16 (32³, halo 1) to 0.2 ns (32³, halo 3).
const PASS_NS_PER_BYTE: f64 = 0.2;

/// A run shorter than a line of the cache that is copied straight, from where its owner fills the halo beside it at the same
/// time. Measured, split along the fastest axis: 14 (32³, halo 1) to 37 ns (32³, halo 3, 8 fields); split along the slowest,
/// where few runs are that short, below 22 ns.
const LINE_NS: f64 = 15.0;

/// What is shorter shares lines of the cache with what lies beside it.
pub(crate) const LINE_BYTES: usize = 64;

/// What travels of one field from one rank to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Load {
    bytes: usize,
    /// How many runs are shorter than a line of the cache. Listed cells count for none: they lie apart from the halo, and
    /// are quicker straight, however short their runs (0.4 times as long).
    short_runs: usize,
}

impl Load {
    /// Some boxes of a field where they are sent from.
    pub(crate) fn of<'b>(
        pieces: &[Piece],
        blocks: impl IntoIterator<Item = &'b BlockLayout>,
        element: ElementType,
    ) -> Load {
        let blocks: Vec<_> = blocks.into_iter().collect();
        let mut load = Load::default();
        for piece in pieces {
            let Some(layout) = blocks.get(piece.source_domain) else { continue };
            let Some(cells) = piece.source.as_box().filter(|cells| !cells.is_empty()) else { continue };
            let (elements, run) = (cells.cells() as usize * layout.components(), run_of(cells, layout));
            // Of fields that no memory can hold, which is found out later, sums are larger than can be.
            load.bytes = load.bytes.saturating_add(elements * element.bytes());
            if run * element.bytes() < LINE_BYTES {
                load.short_runs = load.short_runs.saturating_add(elements / run);
            }
        }
        load
    }

    /// Whether it gets to its reader sooner if it is packed into shared memory than if it is copied straight.
    pub(crate) fn is_better_packed(&self) -> bool {
        PASS_NS_PER_BYTE * (self.bytes as f64) < LINE_NS * self.short_runs as f64
    }
}

/// How many elements of a box lie side by side.
fn run_of(cells: &IndexBox, layout: &BlockLayout) -> usize {
    // From the fastest axis on, as long as each continues the one before.
    let mut run = if layout.component_stride() == 1 { layout.components() } else { 1 };
    let mut axes: Vec<usize> = (0..cells.axes()).collect();
    axes.sort_by_key(|&axis| layout.strides()[axis].unsigned_abs());
    for axis in axes {
        if layout.strides()[axis].unsigned_abs() != run as u64 {
            break;
        }
        run *= cells.extent(axis);
        if cells.extent(axis) != layout.allocated().extent(axis) {
            break;
        }
    }
    run
}
