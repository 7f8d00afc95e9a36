//! The cells of a field that travel to a neighbour, and whether they arrive sooner packed or copied directly.
//!
//! Packing into shared memory is one more pass over all bytes than a direct copy from the field of the neighbour
//! ([`PASS_NS_PER_BYTE`]). But direct copies read cache lines while their owner fills its own halo in the same lines
//! ([`LINE_NS`]). The path with the smaller sum is chosen for each field and neighbour. The messages of a transport
//! between ranks of one node are packed, too, and copied again within the transport: they were 1.1 to 1.8 times as slow
//! as shared memory in all cases below, and are the last resort.
//!
//! The numbers come from `haloport bench exchange` on 2 cores (AMD EPYC, Open MPI 4.1), 2 ranks, f64, the six cases of
//! `docs/performance.md`, split along the slowest and along the fastest axis.

use serde::{Deserialize, Serialize};

use super::BlockLayout;
use crate::domain::IndexBox;
use crate::element::ElementType;
use crate::pattern::Piece;

/// One more pass over a byte that travels. Measured, split along the slowest axis: 0.16 (32³, halo 1) to 0.2 ns (32³,
/// halo 3).
const PASS_NS_PER_BYTE: f64 = 0.2;

/// A direct copy of a run shorter than a cache line, whose owner fills the halo beside it at the same time. Measured,
/// split along the fastest axis: 14 (32³, halo 1) to 37 ns (32³, halo 3, 8 fields); split along the slowest, with few
/// runs that short, below 22 ns.
const LINE_NS: f64 = 15.0;

/// The size of a cache line. Shorter runs share their line with the cells beside them.
pub(crate) const LINE_BYTES: usize = 64;

/// The cells of one field that travel from one rank to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Load {
    bytes: usize,
    /// The number of runs shorter than a cache line. Listed cells do not count: they lie apart from the halo, and
    /// copying them directly takes 0.4 times as long, for runs of any length.
    short_runs: usize,
}

impl Load {
    /// The load of `pieces`, with the blocks of their source domains.
    pub(crate) fn of<'b>(
        pieces: &[Piece],
        blocks: impl IntoIterator<Item = &'b BlockLayout>,
        element: ElementType,
    ) -> Load {
        let blocks: Vec<_> = blocks.into_iter().collect();
        let mut load = Load::default();
        for piece in pieces {
            let Some(layout) = blocks.get(piece.source_domain) else { continue };
            let cells = piece.source.as_box().map(|cells| layout.with_levels(cells));
            let Some(cells) = cells.filter(|cells| !cells.is_empty()) else { continue };
            let (elements, run) = (cells.cells() as usize * layout.components(), run_of(&cells, layout));
            // Fields that are too large for memory, which is an error later, may overflow the sums.
            load.bytes = load.bytes.saturating_add(elements * element.bytes());
            if run * element.bytes() < LINE_BYTES {
                load.short_runs = load.short_runs.saturating_add(elements / run);
            }
        }
        load
    }

    /// Whether the cells arrive sooner packed into shared memory than copied directly.
    pub(crate) fn is_better_packed(&self) -> bool {
        PASS_NS_PER_BYTE * (self.bytes as f64) < LINE_NS * self.short_runs as f64
    }
}

/// The number of contiguous elements in each run of a box.
fn run_of(cells: &IndexBox, layout: &BlockLayout) -> usize {
    // From the fastest axis on, as long as each axis continues the one before.
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
