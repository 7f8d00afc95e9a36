//! Copies as grids of words, of which the entries of a table are made.

use std::cmp::Reverse;

use crate::device::{BoxCopy, CopyAxis, CopyItem, CopyRows, DeviceError, SignChange};

/// An entry has fewer bytes than this, and along axes without lists of indices its words are less far from each other, so
/// that kernels compute with 32 bits.
const LIMIT: u128 = 1 << 31;

/// The widest word in bytes.
const WIDEST: usize = 16;

/// A run of bytes is cut so that its words get wider if it has at least this size. The cuts cost up to two more sectors
/// of 32 bytes for each run: here, one in eight.
const LEAST_CUT_BYTES: usize = 512;

/// A copy as a grid of words.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    /// The addresses of word 0.
    pub(super) source: u64,
    pub(super) target: u64,
    /// Innermost first. Only the outermost may have the extent 1, and only if it has lists.
    pub(super) axes: Vec<GridAxis>,
    /// Bytes.
    pub(super) word: u64,
    pub(super) sign: Option<SignChange>,
    /// Whether words that change their sign may lie at any address.
    pub(super) unaligned: bool,
    /// Where the rows begin in the lists of indices.
    pub(super) first_row: usize,
}

/// The words of a grid.
#[derive(Debug, Clone, Copy)]
pub(super) enum Words {
    /// The widest that divide all addresses, strides and runs.
    Widest,
    /// The same, of runs of bytes that are cut so that most of their words are wider.
    WidestOfCutRuns,
    /// Of this size, which is at most 16, divides all runs, and by which both ends are aligned.
    OfBytes(usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct GridAxis {
    pub(super) extent: u64,
    pub(super) source_stride: i64,
    pub(super) target_stride: i64,
    /// Whether rows along it are selected by lists of indices, in the source and in the target.
    pub(super) lists: [bool; 2],
}

impl Grid {
    /// The grids of `item`, each within the limits of an entry.
    pub(super) fn of(item: &CopyItem, words: Words) -> Vec<Grid> {
        let (row, rows) = match item {
            CopyItem::Box(copy) => (copy, None),
            CopyItem::Indexed(copy) => (copy.row(), Some((copy.rows(), copy.source(), copy.target()))),
        };
        let rows = rows.map(|(extent, source, target): (_, &CopyRows, &CopyRows)| {
            let axis = CopyAxis { extent, source_stride: source.stride, target_stride: target.stride };
            (axis, [source.indices.is_some(), target.indices.is_some()])
        });
        let runs = match words {
            Words::WidestOfCutRuns => aligned_runs(row, rows.map(|(axis, _)| axis)),
            Words::Widest | Words::OfBytes(_) => vec![*row],
        };
        runs.iter().flat_map(|row| Grid::new(row, rows, words).within_limits()).collect()
    }

    fn new(row: &BoxCopy, rows: Option<(CopyAxis, [bool; 2])>, words: Words) -> Grid {
        let strides = strides(row, rows.map(|(axis, _)| axis));
        let widest = multiple_of(
            strides | row.source().as_ptr().addr() | row.target().as_ptr().addr() | row.run_bytes(),
        );
        let word = match words {
            Words::OfBytes(bytes) => bytes,
            Words::Widest | Words::WidestOfCutRuns => row.sign_change().map_or(widest, SignChange::bytes),
        };
        let run = CopyAxis {
            extent: row.run_bytes() / word,
            source_stride: word as isize,
            target_stride: word as isize,
        };
        let boxed = row.axes().iter().chain([&run]).map(|axis| (*axis, [false; 2]));
        let mut axes: Vec<GridAxis> = boxed
            .chain(rows)
            .map(|(axis, lists)| GridAxis {
                extent: axis.extent as u64,
                source_stride: axis.source_stride as i64,
                target_stride: axis.target_stride as i64,
                lists,
            })
            .collect();
        // The axis that comes closest to walking the target in sequence is innermost; rows are sorted among the others.
        axes.sort_by_key(|axis| {
            Reverse((axis.target_stride.unsigned_abs(), axis.source_stride.unsigned_abs()))
        });
        axes.reverse();
        let mut grid = Grid {
            source: row.source().as_ptr().addr() as u64,
            target: row.target().as_ptr().addr() as u64,
            axes,
            word: word as u64,
            sign: row.sign_change(),
            unaligned: row.sign_change().is_some_and(|change| widest < change.bytes()),
            first_row: 0,
        };
        grid.drop_unused();
        grid
    }

    /// The number of words.
    pub(super) fn words(&self) -> u64 {
        self.axes.iter().map(|axis| axis.extent).product()
    }

    fn within_limits(self) -> Vec<Grid> {
        let (mut done, mut rest) = (Vec::new(), vec![self]);
        while let Some(mut grid) = rest.pop() {
            match grid.axis_to_cut() {
                Some(axis) => {
                    let other = grid.cut(axis);
                    rest.extend([other, grid]);
                }
                None => done.push(grid),
            }
        }
        done
    }

    /// The axis to cut if the grid exceeds [`LIMIT`].
    fn axis_to_cut(&self) -> Option<usize> {
        let words = self.axes.iter().map(|axis| u128::from(axis.extent)).product::<u128>();
        if words * u128::from(self.word) >= LIMIT {
            return self.axes.iter().rposition(|axis| axis.extent > 1);
        }
        [0, 1].into_iter().find_map(|side| {
            let distances =
                self.axes.iter().enumerate().filter(|(_, axis)| !axis.lists[side]).map(|(at, axis)| {
                    let stride = [axis.source_stride, axis.target_stride][side];
                    (u128::from(axis.extent - 1) * u128::from(stride.unsigned_abs()), at)
                });
            let far = distances.clone().map(|(distance, _)| distance).sum::<u128>() >= LIMIT;
            distances.max().filter(|_| far).map(|(_, at)| at)
        })
    }

    /// Keeps the first half along an axis, and returns the other.
    fn cut(&mut self, at: usize) -> Grid {
        let axis = self.axes[at];
        let kept = axis.extent / 2;
        let mut other = self.clone();
        self.axes[at].extent = kept;
        other.axes[at].extent = axis.extent - kept;
        if axis.lists != [false; 2] {
            other.first_row += kept as usize;
        }
        let [in_source, in_target] = axis.lists;
        if !in_source {
            other.source = other.source.wrapping_add_signed(kept as i64 * axis.source_stride);
        }
        if !in_target {
            other.target = other.target.wrapping_add_signed(kept as i64 * axis.target_stride);
        }
        self.drop_unused();
        other.drop_unused();
        other
    }

    /// Drops axes of extent 1, except one with lists, whose row need not be row 0: it becomes the outermost.
    fn drop_unused(&mut self) {
        let one_row = self.axes.iter().copied().find(|axis| axis.extent == 1 && axis.lists != [false; 2]);
        self.axes.retain(|axis| axis.extent != 1);
        self.axes.extend(one_row);
    }
}

/// `row` in up to three copies, if that makes most words wider: the bytes before the first address that is aligned to a
/// wide word on both sides, the wide words, and the rest.
fn aligned_runs(row: &BoxCopy, rows: Option<CopyAxis>) -> Vec<BoxCopy> {
    let (source, target, run) = (row.source().as_ptr().addr(), row.target().as_ptr().addr(), row.run_bytes());
    let strides = strides(row, rows);
    let wide = multiple_of(strides | source.wrapping_sub(target));
    let whole = multiple_of(strides | source | target | run) == wide;
    if whole || run < LEAST_CUT_BYTES || row.sign_change().is_some() {
        return vec![*row];
    }
    let begin = source.wrapping_neg() % wide;
    let end = begin + (run - begin) / wide * wide;
    let cuts = [0..begin, begin..end, end..run];
    let parts = cuts.into_iter().filter(|part| !part.is_empty()).map(|part| {
        let at = part.start as isize;
        let made = BoxCopy::new(row.source().offset(at), row.target().offset(at), part.len(), row.axes())?;
        Ok(made.anchored(row.anchors()))
    });
    parts.collect::<Result<_, DeviceError>>().unwrap_or_else(|_| vec![*row])
}

/// The bitwise or of all strides: a power of two divides it exactly if it divides each stride.
fn strides(row: &BoxCopy, rows: Option<CopyAxis>) -> usize {
    row.axes().iter().chain(&rows).fold(0, |strides, axis| {
        strides | axis.source_stride.unsigned_abs() | axis.target_stride.unsigned_abs()
    })
}

/// The largest power of two, at most [`WIDEST`], that divides a number.
fn multiple_of(number: usize) -> usize {
    1 << number.trailing_zeros().min(WIDEST.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::{IndexedCopy, Pointer};

    fn row(source: usize, target: usize, run: usize, axes: &[[isize; 3]]) -> BoxCopy {
        let [source, target] = [source, target].map(|at| Pointer::new(std::ptr::without_provenance_mut(at)));
        let axes = axes.iter().map(|[extent, source_stride, target_stride]| CopyAxis {
            extent: *extent as usize,
            source_stride: *source_stride,
            target_stride: *target_stride,
        });
        BoxCopy::new(source, target, run, &axes.collect::<Vec<_>>()).expect("a box")
    }

    #[test]
    fn words_are_as_wide_as_alignment_allows() {
        let words = |copy: BoxCopy| {
            let grids = Grid::of(&CopyItem::Box(copy), Words::WidestOfCutRuns);
            grids.iter().map(|grid| (grid.word, grid.words())).collect::<Vec<_>>()
        };
        let wide = 4096;
        for (what, copy, expected) in [
            ("rows of f64, whole words", row(wide, 8192, 8, &[[10, 1600, 800], [64, 8, 8]]), vec![(16, 320)]),
            ("three f64", row(wide, 8192, 24, &[[10, 160, 24]]), vec![(8, 30)]),
            ("a run of odd length", row(wide, 8192, 1001, &[]), vec![(16, 62), (1, 9)]),
            ("both ends 8 bytes off", row(wide + 8, 8200, 1024, &[]), vec![(8, 1), (16, 63), (8, 1)]),
            (
                "rows with both ends 4 bytes off",
                row(wide + 4, 8196, 1024, &[[10, 1600, 2048]]),
                vec![(4, 30), (16, 630), (4, 10)],
            ),
            ("one end 8 bytes off", row(wide + 8, 8192, 1024, &[]), vec![(8, 128)]),
            ("short runs are not cut", row(wide, 8192, 504, &[[10, 1600, 1600]]), vec![(8, 630)]),
            ("strides that allow 4 bytes", row(wide, 8192, 600, &[[10, 1604, 1600]]), vec![(4, 1500)]),
        ] {
            assert_eq!(words(copy), expected, "{what}");
        }
        let negated = row(wide, 8192, 1024, &[]).with_sign_change(SignChange::Float32).expect("4 bytes");
        assert_eq!(words(negated), [(4, 256)]);
        // Consecutive words lie next to each other in the target.
        let [grid] = &Grid::of(
            &CopyItem::Box(row(wide, 8192, 16, &[[4, 16, 640], [10, 64, 64]])),
            Words::WidestOfCutRuns,
        )[..] else {
            panic!("one grid")
        };
        assert_eq!(grid.axes[0].target_stride, 64);
    }

    #[test]
    fn large_copies_are_cut_at_the_limit() {
        let ends = |grid: &Grid, side: usize| {
            let (mut low, mut high) = (0i128, 0i128);
            for axis in grid.axes.iter().filter(|axis| !axis.lists[side]) {
                let stride = [axis.source_stride, axis.target_stride][side];
                let reach = i128::from(axis.extent - 1) * i128::from(stride);
                low += reach.min(0);
                high += reach.max(0);
            }
            (low, high)
        };
        let list: Arc<[u32]> = (0..1000).collect();
        let rows = CopyRows { stride: 1 << 22, indices: Some(Arc::clone(&list)) };
        let dense = CopyRows { stride: 1 << 22, indices: None };
        let tall = row(0, 0, 1 << 22, &[]);
        let boxes = [
            row(1 << 40, 1 << 41, 1 << 33, &[]),
            row(1 << 40, 1 << 41, 8, &[[1024, 1 << 23, 24 << 10], [1024, 8 << 10, 24], [3, 8, 8]]),
            row(1 << 40, 1 << 41, 4, &[[1 << 20, -(1 << 20), 4 << 10], [1 << 10, 4 << 10, 4]]),
            row(1 << 40, 1 << 41, 16, &[[3, 1 << 40, 1 << 40]]),
        ];
        let indexed = IndexedCopy::new(tall, 1000, rows.clone(), dense).expect("rows");
        let both = IndexedCopy::new(tall, 1000, rows.clone(), rows).expect("rows");
        let items = boxes.map(CopyItem::Box).into_iter().chain([indexed, both].map(CopyItem::Indexed));
        for item in items {
            let grids = Grid::of(&item, Words::WidestOfCutRuns);
            let bytes: u64 = grids.iter().map(|grid| grid.words() * grid.word).sum();
            assert_eq!(bytes, item.bytes() as u64);
            assert!(grids.len() > 1 && grids.len() < 1 << 12, "{} grids", grids.len());
            for grid in &grids {
                assert!(u128::from(grid.words() * grid.word) < LIMIT);
                assert!((0..2).all(|side| ends(grid, side).1 - ends(grid, side).0 < LIMIT as i128));
            }
            // Each begins where the one before it ends, in rows or in the target.
            let mut begins: Vec<_> =
                grids.iter().map(|grid| (grid.first_row, grid.target, grid.source)).collect();
            begins.sort_unstable();
            begins.dedup();
            assert_eq!(begins.len(), grids.len(), "no two grids begin at the same place");
        }
    }
}
