//! Boxes of cells in the global index space.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum number of axes of a grid.
pub const MAX_AXES: usize = 4;

/// A box of cells: along each axis the indices from `lower` up to, but not including, `upper`.
///
/// Along the axes that the grid does not have, up to [`MAX_AXES`], the bounds are 0 and 1. Global indices are signed:
/// the halo below a domain at the lower end of an axis has negative ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "ReadBox")]
pub struct IndexBox {
    lower: [i64; MAX_AXES],
    upper: [i64; MAX_AXES],
    axes: u8,
}

/// A deserialised box that is not checked yet.
#[derive(Deserialize)]
struct ReadBox {
    lower: [i64; MAX_AXES],
    upper: [i64; MAX_AXES],
    axes: u8,
}

impl TryFrom<ReadBox> for IndexBox {
    type Error = String;

    fn try_from(read: ReadBox) -> Result<IndexBox, String> {
        let ReadBox { lower, upper, axes } = read;
        let count = usize::from(axes);
        if count > MAX_AXES {
            return Err(format!("expected a box of at most {MAX_AXES} axes, found {count}"));
        }
        let made = IndexBox::new(&lower[..count], &upper[..count]);
        if (made.lower, made.upper) != (lower, upper) {
            return Err(format!(
                "expected a box with the bounds 0 and 1 beyond its {count} axes, found {lower:?} to {upper:?}"
            ));
        }
        Ok(made)
    }
}

impl IndexBox {
    /// The box between `lower` and `upper`, which have one entry for each axis, at most [`MAX_AXES`]; entries beyond
    /// that, or beyond the shorter of the two, are ignored. If an `upper` is below its `lower`, the box is empty.
    pub fn new(lower: impl AsRef<[i64]>, upper: impl AsRef<[i64]>) -> IndexBox {
        let (low, up) = (lower.as_ref(), upper.as_ref());
        let axes = low.len().min(up.len()).min(MAX_AXES);
        let mut made = IndexBox { lower: [0; MAX_AXES], upper: [1; MAX_AXES], axes: axes as u8 };
        made.lower[..axes].copy_from_slice(&low[..axes]);
        made.upper[..axes].copy_from_slice(&up[..axes]);
        made
    }

    /// The number of axes.
    #[inline]
    pub fn axes(&self) -> usize {
        usize::from(self.axes).min(MAX_AXES)
    }

    /// The first index along each axis.
    #[inline]
    pub fn lower(&self) -> &[i64] {
        &self.lower[..self.axes()]
    }

    /// One past the last index along each axis.
    #[inline]
    pub fn upper(&self) -> &[i64] {
        &self.upper[..self.axes()]
    }

    /// The number of cells along `axis`; 1 for an axis that the grid does not have.
    #[inline]
    pub fn extent(&self, axis: usize) -> usize {
        let (lower, upper) = self.bounds(axis);
        if lower < upper { usize::try_from(upper.abs_diff(lower)).unwrap_or(usize::MAX) } else { 0 }
    }

    /// The number of cells.
    pub fn cells(&self) -> u128 {
        (0..MAX_AXES).map(|axis| self.extent(axis) as u128).fold(1, u128::saturating_mul)
    }

    /// Whether the box has no cells.
    pub fn is_empty(&self) -> bool {
        (0..MAX_AXES).any(|axis| self.lower[axis] >= self.upper[axis])
    }

    /// Whether the cell `index` lies in the box.
    pub fn contains(&self, index: &[i64]) -> bool {
        index.len() == self.axes()
            && index.iter().enumerate().all(|(axis, &i)| self.lower[axis] <= i && i < self.upper[axis])
    }

    /// Whether all of `other` lies in the box.
    pub fn encloses(&self, other: &IndexBox) -> bool {
        other.is_empty()
            || (0..MAX_AXES)
                .all(|axis| self.lower[axis] <= other.lower[axis] && other.upper[axis] <= self.upper[axis])
    }

    /// The cells in both boxes; `None` if there are none.
    pub fn intersection(&self, other: &IndexBox) -> Option<IndexBox> {
        let mut both = *self;
        for axis in 0..MAX_AXES {
            both.lower[axis] = self.lower[axis].max(other.lower[axis]);
            both.upper[axis] = self.upper[axis].min(other.upper[axis]);
        }
        (!both.is_empty()).then_some(both)
    }

    /// The cells of this box that are not in `other`, as disjoint boxes (at most two for each axis).
    pub fn minus(&self, other: &IndexBox) -> Vec<IndexBox> {
        let Some(hole) = self.intersection(other) else {
            return if self.is_empty() { Vec::new() } else { vec![*self] };
        };
        let mut rest = *self;
        let mut pieces = Vec::new();
        for axis in 0..self.axes() {
            for (lower, upper) in [(rest.lower[axis], hole.lower[axis]), (hole.upper[axis], rest.upper[axis])]
            {
                if lower < upper {
                    pieces.push(rest.with_axis(axis, lower, upper));
                }
            }
            rest = rest.with_axis(axis, hole.lower[axis], hole.upper[axis]);
        }
        pieces
    }

    /// The largest box that remains if one side is trimmed until no cell of `other` is left; `None` if nothing remains.
    pub(crate) fn minus_one_side(&self, other: &IndexBox) -> Option<IndexBox> {
        let Some(hole) = self.intersection(other) else { return Some(*self) };
        (0..self.axes())
            .flat_map(|axis| {
                [
                    self.with_axis(axis, hole.upper[axis], self.upper[axis]),
                    self.with_axis(axis, self.lower[axis], hole.lower[axis]),
                ]
            })
            .filter(|rest| !rest.is_empty())
            .max_by_key(IndexBox::cells)
    }

    /// The same box with other bounds along `axis`; unchanged for an axis that it does not have.
    #[must_use]
    pub fn with_axis(&self, axis: usize, lower: i64, upper: i64) -> IndexBox {
        let mut changed = *self;
        if axis >= self.axes() {
            return changed;
        }
        changed.lower[axis] = lower;
        changed.upper[axis] = upper;
        changed
    }

    /// The same cells with one more axis, with the indices from `lower` to below `upper`, such as the levels of a field;
    /// unchanged if it has [`MAX_AXES`] axes already.
    ///
    /// ```
    /// use haloport::IndexBox;
    ///
    /// let cells = IndexBox::new([0, 8], [4, 16]);
    /// assert_eq!(cells.with_further_axis(0, 80), IndexBox::new([0, 8, 0], [4, 16, 80]));
    /// ```
    #[must_use]
    pub fn with_further_axis(&self, lower: i64, upper: i64) -> IndexBox {
        let axis = self.axes();
        let axes = self.axes + u8::from(axis < MAX_AXES);
        IndexBox { axes, ..*self }.with_axis(axis, lower, upper)
    }

    /// The box with `cells` more cells on each side; an empty box stays empty. Ends at the limits of `i64`.
    ///
    /// ```
    /// use haloport::IndexBox;
    ///
    /// let owned = IndexBox::new([0, 8], [4, 16]);
    /// assert_eq!(owned.grown(1), IndexBox::new([-1, 7], [5, 17]));
    /// assert_eq!(owned.grown(1).shrunk(1), owned);
    /// assert_eq!(owned.grown_along(1, 0, 2), IndexBox::new([0, 8], [4, 18]));
    /// assert!(owned.shrunk(2).is_empty());
    /// ```
    #[must_use]
    pub fn grown(&self, cells: usize) -> IndexBox {
        (0..self.axes()).fold(*self, |grown, axis| grown.grown_along(axis, cells, cells))
    }

    /// The box with `cells` fewer cells on each side, which may be empty.
    #[must_use]
    pub fn shrunk(&self, cells: usize) -> IndexBox {
        (0..self.axes()).fold(*self, |shrunk, axis| shrunk.shrunk_along(axis, cells, cells))
    }

    /// The box with `below` and `above` more cells on the two sides along `axis`; unchanged if it is empty or does not
    /// have the axis. Ends at the limits of `i64`.
    #[must_use]
    pub fn grown_along(&self, axis: usize, below: usize, above: usize) -> IndexBox {
        let (lower, upper) = self.bounds(axis);
        if self.is_empty() {
            return *self;
        }
        self.with_axis(axis, lower.saturating_sub(clamped(below)), upper.saturating_add(clamped(above)))
    }

    /// The box with `below` and `above` fewer cells on the two sides along `axis`, which may be empty; unchanged for an
    /// axis that it does not have.
    #[must_use]
    pub fn shrunk_along(&self, axis: usize, below: usize, above: usize) -> IndexBox {
        let (lower, upper) = self.bounds(axis);
        let first = lower.saturating_add(clamped(below));
        self.with_axis(axis, first, upper.saturating_sub(clamped(above)).max(first))
    }

    /// The box moved by `shift` cells along each axis. Bounds stop at the limits of `i64`.
    #[must_use]
    pub fn shifted(&self, shift: &[i64; MAX_AXES]) -> IndexBox {
        let mut moved = *self;
        for (axis, cells) in shift.iter().enumerate().take(self.axes()) {
            moved.lower[axis] = moved.lower[axis].saturating_add(*cells);
            moved.upper[axis] = moved.upper[axis].saturating_add(*cells);
        }
        moved
    }

    /// The bounds along `axis`: 0 and 1 for an axis that the grid does not have.
    pub(crate) fn bounds(&self, axis: usize) -> (i64, i64) {
        if axis < MAX_AXES { (self.lower[axis], self.upper[axis]) } else { (0, 1) }
    }
}

fn clamped(cells: usize) -> i64 {
    i64::try_from(cells).unwrap_or(i64::MAX)
}

impl fmt::Display for IndexBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for axis in 0..self.axes() {
            let times = if axis > 0 { " × " } else { "" };
            write!(f, "{times}{}..{}", self.lower[axis], self.upper[axis])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_grow_and_shrink_within_the_limits_of_their_indices() {
        let made = IndexBox::new([0, 10], [4, 16]);
        assert_eq!(made.shrunk(1), IndexBox::new([1, 11], [3, 15]));
        assert_eq!(made.grown_along(0, 2, 3), IndexBox::new([-2, 10], [7, 16]));
        assert_eq!(made.shrunk_along(1, 0, 3), IndexBox::new([0, 10], [4, 13]));
        assert_eq!((made.grown_along(2, 1, 1), made.shrunk_along(7, 1, 1)), (made, made));
        // A box that shrinks too much is empty, and stays empty.
        for none in [made.shrunk(2), made.shrunk(9), made.shrunk_along(0, 3, 2), made.shrunk(usize::MAX)] {
            assert!(none.is_empty() && none.grown(100).is_empty() && none.cells() == 0, "{none}");
        }
        let all = made.grown(usize::MAX);
        assert_eq!(all, IndexBox::new([-i64::MAX, 10 - i64::MAX], [i64::MAX; 2]));
        assert_eq!(all.grown(usize::MAX), IndexBox::new([i64::MIN; 2], [i64::MAX; 2]));
    }

    #[test]
    fn a_box_minus_its_middle_is_the_rest_in_disjoint_pieces() {
        let whole = IndexBox::new([0, 0, 0], [5, 6, 7]);
        let hole = IndexBox::new([1, 2, 3], [3, 4, 5]);
        let pieces = whole.minus(&hole);
        assert_eq!(pieces.iter().map(IndexBox::cells).sum::<u128>() + hole.cells(), whole.cells());
        for (k, piece) in pieces.iter().enumerate() {
            assert!(piece.intersection(&hole).is_none());
            assert!(pieces[..k].iter().all(|other| other.intersection(piece).is_none()));
        }
        assert_eq!(whole.minus(&IndexBox::new([9, 9, 9], [10, 10, 10])), vec![whole]);
        assert!(whole.minus(&whole).is_empty());
    }
}
