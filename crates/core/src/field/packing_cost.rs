//! The cells of a field that travel to a neighbour, and whether they arrive sooner packed or copied directly.
//!
//! Packing into shared memory is one more pass over all bytes than a direct copy from the field of the neighbour
//! ([`PASS_NS_PER_BYTE`]). But a line that a direct copy reads goes to the neighbour's core, and comes back when its owner
//! writes it the next time; a packed message is written past the caches, so that nothing comes back. What that takes
//! depends on the distance of the two cores, which ranks measure (`comm::handover`). It counts for messages that are written
//! past the caches ([`PAST_CACHES`]), and in any case for lines that listed cells touch beyond those that their bytes would fill: packed,
//! they are fewer lines. Where it does not count or is not known, only lines count whose owner fills its own
//! halo in them meanwhile ([`LINE_NS`]). The path with the smaller sum is chosen for each field and neighbour. The messages
//! of a transport between ranks of one node are packed, too, and copied again within the transport: they were 1.1 to 1.8
//! times as slow as shared memory in all cases below, and are the last resort.
//!
//! Whether the lines are still in the caches is not asked: between far cores, packing took 0.2 to 0.6 times as long as a
//! direct copy if they were, and 1.1 times as long if other memory had been written between two exchanges
//! (`docs/measurements/2026-11-28-meshes.md`).
//!
//! If cells are combined with those of their owner, they are packed only if a direct copy is expected to take twice as long
//! ([`LEAST_GAIN_COMBINED`]).
//!
//! Ranks that outnumber the cores take turns on them. A rank that lends its fields has to wait until its neighbours have
//! read them, and has gone through its turn by then; packed, the cells wait in the message, and the rank goes on to the
//! next exchange. So few cells ([`Load::most_in_turns`]) are packed then: by threads into messages, by processes into shared
//! memory.
//!
//! The numbers come from `haloport bench exchange` on 2 cores (AMD EPYC, Open MPI 4.1), 2 ranks, f64, the six cases of
//! `docs/performance.md`, split along the slowest and along the fastest axis; for the distance, see
//! `docs/measurements/2026-11-27-distance.md`, and for ranks that take turns, `docs/measurements/2026-11-27-crowds.md`.

use std::iter::Sum;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::BlockLayout;
use crate::domain::IndexBox;
use crate::element::ElementType;
use crate::pattern::{Cells, Piece};

/// One more pass over a byte that travels. Measured, split along the slowest axis: 0.16 (32³, halo 1) to 0.2 ns (32³,
/// halo 3).
const PASS_NS_PER_BYTE: f64 = 0.2;

/// A direct copy of a run shorter than a cache line, whose owner fills the halo beside it at the same time. Measured,
/// split along the fastest axis: 14 (32³, halo 1) to 37 ns (32³, halo 3, 8 fields); split along the slowest, with few
/// runs that short, below 22 ns.
const LINE_NS: f64 = 15.0;

/// Messages of at least this many bytes may be written past the caches, as the CPU backend does.
pub(crate) const PAST_CACHES: usize = 8192;

/// The bytes of lines that come back from the caches of a neighbour. More of them have left these caches when their owner writes
/// the lines, and come from memory. Between far cores, a transpose of 256³, of 32 MiB for a neighbour, took 1.4 to 1.5 times as long packed.
const CACHED: usize = 8 << 20;

/// The same between near cores, which share a cache: what has left a core's own cache is there for both.
const CACHED_BY_ONE: usize = 512 << 10;

/// Cores for which a line comes back sooner than this, in nanoseconds, are near each other.
const NEAR_NS: f64 = 10.0;

/// How many times as long a direct copy has to take before cells that are combined are packed. Measured for 4 fields of 80 levels of a
/// mesh, whose runs are long: if halos were written and the cores far apart, a direct copy took 1.4 to 1.6 times as long; if the cores had
/// come near since the ranks had measured their distance, or if nothing was written, packing took 2.1 to 3.3 times as long.
const LEAST_GAIN_COMBINED: f64 = 2.0;

/// As many lines of listed cells, beyond those that their bytes would fill, make the distance of two cores worth a measurement.
pub(crate) const SCATTERED: usize = 64;

/// Threads that take turns on cores pack at most this many bytes of a field for a neighbour. Measured for 4 and 8 threads on 2
/// cores: packing took 0.75 to 0.93 of the time for 1 to 66 KiB, 0.89 and 0.96 for 132 KiB, 0.95 and 1.19 for 205 KiB.
const BY_THREADS_IN_TURNS: usize = 128 << 10;

/// The same for processes, which pack into shared memory: 0.64 to 0.72 for 2.5 and 9 KiB, 0.80 to 0.90 for 14 to 26 KiB, 0.92 and
/// 0.95 for 34 KiB, 0.98 for 43 KiB, 1.0 and 1.15 for 66 KiB.
const BY_PROCESSES_IN_TURNS: usize = 40 << 10;

/// The size of a cache line. Shorter runs share their line with the cells beside them.
pub(crate) const LINE_BYTES: usize = 64;

/// The cells of one field that travel from one rank to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Load {
    bytes: usize,
    /// The number of runs shorter than a cache line, but for those of listed cells, which lie apart from the halo.
    short_runs: usize,
    /// The bytes of all other runs.
    long_runs: usize,
    /// The cache lines of listed cells beyond those that their bytes would fill.
    scattered_lines: usize,
}

/// How long a line takes that comes back from the core of a neighbour, which lines do, and what becomes of the cells.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Handover {
    /// In nanoseconds; `None` if it is not known.
    pub(crate) time: Option<f64>,
    /// Whether packed cells would be written past the caches, so that lines of their message do not come back.
    pub(crate) past_caches: bool,
    /// Whether cells are combined with those of their owner.
    pub(crate) combined: bool,
}

impl Load {
    /// The load of those `pieces` that are read from these blocks, which are for the domains from `first` on.
    pub(crate) fn of<'b>(
        pieces: &[Piece],
        (first, blocks): (usize, impl IntoIterator<Item = &'b BlockLayout>),
        element: ElementType,
    ) -> Load {
        let blocks: Vec<_> = blocks.into_iter().collect();
        let mut load = Load::default();
        for piece in pieces {
            let place = piece.source_domain.checked_sub(first);
            let Some(layout) = place.and_then(|place| blocks.get(place)) else { continue };
            let (elements, run) = match &piece.source {
                Cells::Box(cells) => {
                    let cells = layout.with_levels(cells);
                    (cells.cells() as usize * layout.components(), Some(run_of(&cells, layout)))
                }
                Cells::List(list) => {
                    let elements = list.len().saturating_mul(layout.elements_of_cell(1));
                    let lines = lines_of(list, layout, element.bytes());
                    let filled = elements.saturating_mul(element.bytes()) / LINE_BYTES;
                    load.scattered_lines = load.scattered_lines.saturating_add(lines.saturating_sub(filled));
                    (elements, None)
                }
                Cells::ListInBox { axes, numbers } => {
                    (numbers.len().saturating_mul(layout.elements_of_cell(*axes)), None)
                }
            };
            // Fields that are too large for memory, which is an error later, may overflow the sums.
            let bytes = elements.saturating_mul(element.bytes());
            load.bytes = load.bytes.saturating_add(bytes);
            match run.filter(|run| run * element.bytes() < LINE_BYTES) {
                Some(run) => load.short_runs = load.short_runs.saturating_add(elements / run.max(1)),
                None => load.long_runs = load.long_runs.saturating_add(bytes),
            }
        }
        load
    }

    /// The number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most bytes of a field that ranks that take turns on cores pack for a neighbour, in place of lending the field.
    pub(crate) fn most_in_turns(threads: bool) -> usize {
        if threads { BY_THREADS_IN_TURNS } else { BY_PROCESSES_IN_TURNS }
    }

    /// The cache lines of listed cells beyond those that their bytes would fill.
    pub(crate) fn scattered_lines(&self) -> usize {
        self.scattered_lines
    }

    /// Whether the cells arrive sooner packed into shared memory than copied directly.
    pub(crate) fn is_better_packed(&self, handover: Handover) -> bool {
        let Handover { time, past_caches, combined } = handover;
        let time = time.unwrap_or(0.0);
        let of_runs = if past_caches { self.long_runs / LINE_BYTES } else { 0 };
        let cached = if time < NEAR_NS { CACHED_BY_ONE } else { CACHED };
        let lines = of_runs.saturating_add(self.scattered_lines).min(cached / LINE_BYTES) as f64;
        // The sweep that adds reads lines from near cores while it waits for those of the owner.
        let lines = if combined && time < NEAR_NS { 0.0 } else { lines };
        let direct = self.short_runs as f64 * time.max(LINE_NS) + lines * time;
        let least_gain = if combined { LEAST_GAIN_COMBINED } else { 1.0 };
        least_gain * PASS_NS_PER_BYTE * (self.bytes as f64) < direct
    }
}

impl Sum for Load {
    fn sum<I: Iterator<Item = Load>>(loads: I) -> Load {
        loads.fold(Load::default(), |all, load| Load {
            bytes: all.bytes.saturating_add(load.bytes),
            short_runs: all.short_runs.saturating_add(load.short_runs),
            long_runs: all.long_runs.saturating_add(load.long_runs),
            scattered_lines: all.scattered_lines.saturating_add(load.scattered_lines),
        })
    }
}

/// The number of cache lines that listed cells touch, if the first element of their block is the first of a line.
fn lines_of(list: &Arc<[u32]>, layout: &BlockLayout, element_bytes: usize) -> usize {
    let (stride, rows) = layout.rows(list);
    let of_cell = layout.elements_of_cell(1).max(1);
    // Elements of a cell that lie side by side: all of them, or those before the next cell.
    let run = usize::try_from(stride.unsigned_abs()).map_or(of_cell, |stride| stride.clamp(1, of_cell));
    let (mut lines, mut last) = (0usize, None);
    for &row in rows.iter() {
        let first = i64::from(row).saturating_mul(stride).saturating_mul(element_bytes as i64);
        let past = first.saturating_add((run * element_bytes) as i64);
        let touched = first.div_euclid(LINE_BYTES as i64)..(past - 1).div_euclid(LINE_BYTES as i64) + 1;
        lines = lines.saturating_add(
            (touched.end - touched.start) as usize - usize::from(last == Some(touched.start)),
        );
        last = Some(touched.end - 1);
    }
    lines.saturating_mul(of_cell / run)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Orientation;

    const NONE: Load = Load { bytes: 0, short_runs: 0, long_runs: 0, scattered_lines: 0 };
    /// Cells in runs of 256 bytes, and in runs of 8.
    const PLANE: Load = Load { bytes: 1 << 14, long_runs: 1 << 14, ..NONE };
    const COLUMN: Load = Load { bytes: 1 << 14, short_runs: 1 << 11, ..NONE };

    fn past_caches(time: Option<f64>) -> Handover {
        Handover { time, past_caches: true, combined: false }
    }

    #[test]
    fn long_runs_are_packed_between_distant_cores_alone() {
        let chosen = [None, Some(4.0), Some(10.0), Some(25.0), Some(40.0)].map(past_caches);
        assert_eq!(chosen.map(|time| PLANE.is_better_packed(time)), [false, false, false, true, true]);
        assert!(chosen.iter().all(|time| COLUMN.is_better_packed(*time)));
        assert!(!PLANE.is_better_packed(Handover { time: Some(40.0), ..Handover::default() }));
    }

    #[test]
    fn cells_that_are_combined_are_packed_for_a_large_gain_alone() {
        let combined = |time| Handover { combined: true, ..past_caches(Some(time)) };
        let chosen = [4.0, 21.0, 40.0].map(|time| PLANE.is_better_packed(combined(time)));
        assert_eq!(chosen, [false, false, true]);
        assert!(COLUMN.is_better_packed(combined(4.0)));
        // Lines come back from near cores while the sweep waits for those of the owner.
        let scattered = listed(1, true);
        assert_eq!([5.0, 15.0].map(|time| scattered.is_better_packed(combined(time))), [false, true]);
    }

    #[test]
    fn what_is_more_than_caches_hold_is_copied_straight() {
        let plane = |bytes| Load { bytes, long_runs: bytes, ..NONE };
        assert!(plane(CACHED).is_better_packed(past_caches(Some(25.0))));
        assert!(!plane(4 * CACHED).is_better_packed(past_caches(Some(40.0))));
    }

    /// 500 cells, each 10 rows behind the one before; `levels` values of a cell lie side by side, or apart.
    fn listed(levels: usize, side_by_side: bool) -> Load {
        let list: Arc<[u32]> = (0..500).map(|cell| 10 * cell).collect();
        let piece = Piece {
            source_domain: 0,
            source: Cells::List(Arc::clone(&list)),
            target_domain: 0,
            target: Cells::List(list),
            orientation: Orientation::default(),
        };
        let cells = IndexBox::new([0, 0], [5000, levels as i64]);
        let strides = if side_by_side { [levels as i64, 1] } else { [1, 5000] };
        let layout = BlockLayout::new(cells, cells, strides, 1, 1).unwrap();
        Load::of(&[piece], (0, [&layout]), ElementType::F64)
    }

    #[test]
    fn lines_of_listed_cells_are_counted() {
        assert_eq!(listed(1, true), Load { bytes: 4000, long_runs: 4000, scattered_lines: 500 - 62, ..NONE });
        // Rows of 80 bytes begin in the middle of a line.
        assert_eq!(listed(80, true).scattered_lines, 0);
        assert_eq!(listed(80, false).scattered_lines, 80 * 500 - 80 * 500 / 8);
        let near = Handover { time: Some(5.0), ..Handover::default() };
        assert!(listed(1, true).is_better_packed(near));
        assert!(!listed(80, true).is_better_packed(near));
        // Their lines have left a core's own cache.
        assert!(!listed(80, false).is_better_packed(near));
        assert!(listed(80, false).is_better_packed(Handover { time: Some(15.0), ..near }));
    }
}
