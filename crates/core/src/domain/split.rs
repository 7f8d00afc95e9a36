//! Cartesian splits of a grid: each axis is cut into consecutive parts.

use super::{Grid, GridError, IndexBox};

/// The maximum number of parts along one axis.
const MOST_PARTS: usize = 1 << 24;

/// The maximum number of parts of a split.
const MOST_IN_ALL: usize = 1 << 48;

/// A Cartesian split of a grid. Parts are numbered with the last axis fastest. If an axis has fewer cells than parts,
/// some parts are empty.
///
/// It holds no table of the parts: even cuts are computed, and given sizes are stored for each axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    cuts: Vec<Cuts>,
}

/// The cuts of one axis.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cuts {
    /// `parts` parts of sizes that differ by at most one cell.
    Even { extent: usize, parts: usize },
    /// The first index of each part, and the end of the axis.
    At(Vec<i64>),
}

impl Cuts {
    fn parts(&self) -> usize {
        match self {
            Cuts::Even { parts, .. } => *parts,
            Cuts::At(cuts) => cuts.len() - 1,
        }
    }

    /// The first index of part `part`; the end of the axis if `part` is the number of parts.
    fn begin(&self, part: usize) -> i64 {
        match self {
            Cuts::Even { extent, parts } => (*extent as u128 * part as u128 / *parts as u128) as i64,
            Cuts::At(cuts) => cuts[part],
        }
    }

    /// The number of cuts below `index`. The cuts are the starts of the parts and the end of the axis.
    fn begun_below(&self, index: i64) -> usize {
        match self {
            // ⌊extent · part / parts⌋ < index if and only if extent · part < index · parts.
            Cuts::Even { extent, parts } => {
                let reached =
                    (u128::from(index.max(0).unsigned_abs()) * *parts as u128).div_ceil(*extent as u128);
                reached.min(*parts as u128 + 1) as usize
            }
            Cuts::At(cuts) => cuts.partition_point(|&cut| cut < index),
        }
    }
}

impl Split {
    /// Cuts each axis into `parts[axis]` parts of sizes that differ by at most one cell.
    ///
    /// # Errors
    /// [`GridError`] unless there is one entry for each axis, for an entry of 0, and for more than 2^48 parts.
    pub fn even(grid: &Grid, parts: impl AsRef<[usize]>) -> Result<Split, GridError> {
        let parts = parts.as_ref();
        grid.check_length("the list of parts", parts.len())?;
        let cuts = parts
            .iter()
            .enumerate()
            .map(|(axis, &count)| {
                if count == 0 || count > MOST_PARTS {
                    let problem = format!("has {count} parts, expected 1 to {MOST_PARTS}");
                    return Err(GridError::Split { axis, problem });
                }
                Ok(Cuts::Even { extent: grid.extent(axis), parts: count })
            })
            .collect::<Result<_, _>>()?;
        Split::of(cuts)
    }

    /// Cuts each axis into parts of the given sizes, which add up to the extent of the axis. A size may be 0.
    ///
    /// # Errors
    /// [`GridError`] unless there is one list for each axis, for sizes that do not add up, and for more than 2^48
    /// parts.
    pub fn sizes(grid: &Grid, sizes: &[Vec<usize>]) -> Result<Split, GridError> {
        grid.check_length("the list of part sizes", sizes.len())?;
        let cuts = sizes
            .iter()
            .enumerate()
            .map(|(axis, sizes)| {
                let sum = sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size));
                if sizes.is_empty() || sum != Some(grid.extent(axis)) {
                    let problem = format!(
                        "has parts of {sizes:?} cells, expected sizes that add up to {}",
                        grid.extent(axis)
                    );
                    return Err(GridError::Split { axis, problem });
                }
                let mut cuts = vec![0];
                cuts.extend(sizes.iter().scan(0, |end, &size| {
                    *end += size as i64;
                    Some(*end)
                }));
                Ok(Cuts::At(cuts))
            })
            .collect::<Result<_, _>>()?;
        Split::of(cuts)
    }

    /// Cuts the grid into `parts` nearly cubic parts: each prime factor, largest first, divides the axis with the
    /// longest parts. On a cubed sphere, whole tiles are distributed first, as evenly as `parts` allows.
    ///
    /// # Errors
    /// [`GridError`] for 0 parts.
    pub fn balanced(grid: &Grid, parts: usize) -> Result<Split, GridError> {
        if parts == 0 || parts > MOST_PARTS {
            let problem = format!("has {parts} parts, expected 1 to {MOST_PARTS}");
            return Err(GridError::Split { axis: 0, problem });
        }
        Split::even(grid, balanced_counts(grid, parts))
    }

    fn of(cuts: Vec<Cuts>) -> Result<Split, GridError> {
        let counts: Vec<usize> = cuts.iter().map(Cuts::parts).collect();
        let parts = counts.iter().try_fold(1usize, |parts, &count| parts.checked_mul(count));
        if parts.is_none_or(|parts| parts > MOST_IN_ALL) {
            return Err(GridError::Parts { found: counts });
        }
        Ok(Split { cuts })
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        self.cuts.iter().map(Cuts::parts).product()
    }

    /// The number of parts along each axis.
    pub fn parts_per_axis(&self) -> Vec<usize> {
        self.cuts.iter().map(Cuts::parts).collect()
    }

    /// The cells of part `part`; `None` for a number past the last part.
    pub fn part(&self, part: usize) -> Option<IndexBox> {
        let mut rest = part;
        let mut lower = vec![0; self.cuts.len()];
        let mut upper = vec![0; self.cuts.len()];
        for (axis, cuts) in self.cuts.iter().enumerate().rev() {
            let position = rest % cuts.parts();
            rest /= cuts.parts();
            lower[axis] = cuts.begin(position);
            upper[axis] = cuts.begin(position + 1);
        }
        (rest == 0).then(|| IndexBox::new(lower, upper))
    }

    /// The number of the part at `position`, which has one entry for each axis.
    pub(crate) fn number(&self, position: &[usize]) -> usize {
        self.cuts.iter().zip(position).fold(0, |number, (cuts, &at)| number * cuts.parts() + at)
    }

    /// The positions along `axis` of the parts that have cells in `lower..upper`.
    pub(crate) fn overlapping(&self, axis: usize, lower: i64, upper: i64) -> std::ops::Range<usize> {
        let cuts = &self.cuts[axis];
        let first = cuts.begun_below(lower + 1).saturating_sub(1);
        let last = cuts.begun_below(upper).min(cuts.parts());
        first..last.max(first)
    }
}

/// The number of parts along each axis of [`Split::balanced`].
fn balanced_counts(grid: &Grid, parts: usize) -> Vec<usize> {
    let mut counts = vec![1usize; grid.axes()];
    for factor in prime_factors(parts) {
        let first = usize::from(grid.is_cubed_sphere());
        if first == 1 && grid.extent(0).is_multiple_of(counts[0] * factor) {
            counts[0] *= factor;
            continue;
        }
        // The first of the axes with the longest parts; cross multiplication compares them exactly.
        let longest = (first..counts.len()).fold(first, |best, axis| {
            let longer = grid.extent(axis) as u128 * counts[best] as u128
                > grid.extent(best) as u128 * counts[axis] as u128;
            if longer { axis } else { best }
        });
        counts[longest] *= factor;
    }
    counts
}

/// The prime factors of `number`, largest first.
fn prime_factors(mut number: usize) -> Vec<usize> {
    let mut factors = Vec::new();
    let mut candidate = 2;
    while candidate * candidate <= number {
        while number.is_multiple_of(candidate) {
            factors.push(candidate);
            number /= candidate;
        }
        candidate += 1;
    }
    if number > 1 {
        factors.push(number);
    }
    factors.reverse();
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_tile_the_grid_and_are_found_again() {
        let grid = Grid::new([7, 5, 3]).unwrap();
        let split = Split::even(&grid, [3, 2, 5]).unwrap();
        let parts: Vec<_> = (0..split.parts()).map(|part| split.part(part).unwrap()).collect();
        assert_eq!(parts.iter().map(IndexBox::cells).sum::<u128>(), 105);
        assert!(split.part(split.parts()).is_none());
        for (number, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            let position: Vec<usize> = (0..3)
                .map(|axis| {
                    let found: Vec<usize> = split
                        .overlapping(axis, part.lower()[axis], part.upper()[axis])
                        .filter(|&at| split.cuts[axis].begin(at) < split.cuts[axis].begin(at + 1))
                        .collect();
                    assert_eq!(found.len(), 1, "{part} on axis {axis}");
                    found[0]
                })
                .collect();
            assert_eq!(split.number(&position), number);
        }
    }

    #[test]
    fn balanced_splits_cut_the_longest_axis() {
        let grid = Grid::new([100, 10]).unwrap();
        assert_eq!(balanced_counts(&grid, 4), [4, 1]);
        let cube = Grid::new([64, 64, 64]).unwrap();
        assert_eq!(balanced_counts(&cube, 8), [2, 2, 2]);
        assert_eq!(
            Split::balanced(&grid, 0).unwrap_err().to_string(),
            "the split of axis 0 has 0 parts, expected 1 to 16777216"
        );
    }

    #[test]
    fn even_cuts_are_found_as_those_of_a_table_are() {
        for (extent, parts) in [(10, 3), (10, 10), (3, 7), (1, 1), (97, 16)] {
            let even = Cuts::Even { extent, parts };
            let table = Cuts::At((0..=parts).map(|part| even.begin(part)).collect());
            assert_eq!((table.begin(0), table.begin(parts)), (0, extent as i64));
            for index in -2..extent as i64 + 3 {
                let (found, expected) = (even.begun_below(index), table.begun_below(index));
                assert_eq!(found, expected, "below {index} of {extent} cells in {parts} parts");
            }
        }
    }

    #[test]
    fn sizes_must_add_up() {
        let grid = Grid::new([10]).unwrap();
        assert_eq!(Split::sizes(&grid, &[vec![4, 0, 6]]).unwrap().parts(), 3);
        let error = Split::sizes(&grid, &[vec![4, 5]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the split of axis 0 has parts of [4, 5] cells, expected sizes that add up to 10"
        );
    }
}
