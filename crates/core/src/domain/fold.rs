//! The north fold of tripolar grids, as the ocean models NEMO, MOM and POP have it.
//!
//! The upper end of the axis y is folded onto itself: the grid goes on beyond it, turned by 180° about a pivot on the
//! fold line. With cells at whole numbers `(i, j)`, `n` = number of cells along x and `m` along y, the pivot is the
//! centre of the cell `(0, m - 1)` for [`Pivot::Cell`], and the corner `(-1/2, m - 1/2)` for [`Pivot::Corner`]; a second
//! one is n / 2 further along x. Turning a point that lies at `(i + p, j + q)`, with p and q of 0 or 1/2, about the
//! pivot `(x, y)` leads to `(2x - i - p, 2y - j - q)`, which is the point of the same kind with the indices
//! `(2x - 2p - i, 2y - 2q - j)`. So point `(i, j)` is the same as `(a - i mod n, b - j)`:
//!
//! | points | p, q | a, b with [`Pivot::Cell`] | a, b with [`Pivot::Corner`] |
//! | --- | --- | --- | --- |
//! | [`Points::Cells`] (T) | 0, 0 | n, 2m - 2 | n - 1, 2m - 1 |
//! | [`Points::EastEdges`] (U) | 1/2, 0 | n - 1, 2m - 2 | n - 2, 2m - 1 |
//! | [`Points::NorthEdges`] (V) | 0, 1/2 | n, 2m - 3 | n - 1, 2m - 2 |
//! | [`Points::Corners`] (F) | 1/2, 1/2 | n - 1, 2m - 3 | n - 2, 2m - 2 |
//!
//! NEMO's `lbc_nfd` has the same relations, in indices from 1 with one halo cell: `npolj` 3 and 4 for `Cell` (ORCA2,
//! ORCA025, ORCA12), 5 and 6 for `Corner` (ORCA05, ORCA1). MOM folds about corners; so does POP, with velocities at
//! corners.
//!
//! Some points within the grid appear twice: those of row b / 2, which lies on the fold line, if b is even; those of
//! row m - 1 and of row m - 2, if b is 2m - 3. The one with the lower row is the owner, and in one row the one with the
//! lower index along x, as in NEMO (but for the two U points beside the pivot n / 2 of `Cell`, of which NEMO keeps the
//! eastern one). The other one is a *duplicate*, which exchanges fill as they fill halos. The pivots themselves belong
//! to no pair; exchanges leave them as they are, also the components of vectors, which can only be 0 there.

use serde::{Deserialize, Serialize};

use super::{IndexBox, MAX_AXES, Orientation, Renumbering};

/// The points about which the north fold turns the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pivot {
    /// Centres of cells: the fold line runs through the centres of the last row of cells.
    Cell,
    /// Corners of cells: the fold line runs along the upper edges of the last row of cells.
    Corner,
}

/// The kind of points that a pattern of a folded grid exchanges, by their place in the cell with the same indices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Points {
    /// The centres of cells (T points).
    #[default]
    Cells,
    /// The middles of the upper edges along x (U points of a C grid).
    EastEdges,
    /// The middles of the upper edges along y (V points of a C grid).
    NorthEdges,
    /// The upper corners (F points of a C grid, velocities of a B grid).
    Corners,
}

/// The fold of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// The axis whose upper end is folded.
    pub y: usize,
    /// The axis along which it is folded, which is periodic.
    pub x: usize,
    /// The points about which the grid is turned.
    pub pivot: Pivot,
    /// The points that a pattern exchanges.
    pub points: Points,
}

/// A fold with the extents of its axes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoldLine {
    y: usize,
    x: usize,
    /// The number of cells along x.
    cells: i64,
    /// Point `(i, j)` is the same as `(a - i, b - j)`.
    a: i64,
    b: i64,
    rows: i64,
}

impl FoldLine {
    /// The fold line of a grid with `rows` cells along y and `cells` along x.
    pub(crate) fn new(fold: &Fold, rows: usize, cells: usize) -> FoldLine {
        let (rows, cells) = (rows as i64, cells as i64);
        let east = i64::from(matches!(fold.points, Points::EastEdges | Points::Corners));
        let north = i64::from(matches!(fold.points, Points::NorthEdges | Points::Corners));
        let (a, b) = match fold.pivot {
            Pivot::Cell => (cells, 2 * rows - 2),
            Pivot::Corner => (cells - 1, 2 * rows - 1),
        };
        FoldLine { y: fold.y, x: fold.x, cells, a: a - east, b: b - north, rows }
    }

    /// The width of the widest halo beyond the fold, in cells.
    pub(crate) fn widest(&self) -> usize {
        usize::try_from(self.b + 1 - self.rows).unwrap_or(0)
    }

    /// Whether the last row of the grid has points that belong to another point.
    pub(crate) fn has_duplicates(&self) -> bool {
        self.b < 2 * self.rows - 1
    }

    /// Cuts `region` into parts that lie in one image of the grid each, with their numbering in the grid. Every part
    /// leads to owners, not to duplicates. Rows below the grid are left out.
    pub(crate) fn images(&self, region: &IndexBox) -> Vec<(IndexBox, Renumbering)> {
        // Rows of owners, the row of the fold line if it has points of its own, and rows beyond.
        let (line, beyond) = ((self.b + 1) / 2, self.b / 2 + 1);
        let (lower, upper) = region.bounds(self.y);
        let rows = |from: i64, to: i64| region.with_axis(self.y, lower.max(from), upper.min(to));
        let (cells, past) = (self.cells, (self.a + 1).min(self.cells));
        let first = self.a / 2 + 1;
        let mut parts = Vec::new();
        self.cut(&rows(0, line), 0..cells, false, &mut parts);
        self.cut(&rows(line, beyond), 0..first, false, &mut parts);
        self.cut(&rows(line, beyond), first..past, true, &mut parts);
        self.cut(&rows(line, beyond), past..cells, false, &mut parts);
        self.cut(&rows(beyond, i64::MAX), self.a + 1 - cells..self.a + 1, true, &mut parts);
        parts
    }

    /// Adds the parts of `rows` in one range of indices along x in each period, which is at most one period long.
    fn cut(
        &self,
        rows: &IndexBox,
        range: std::ops::Range<i64>,
        turned: bool,
        parts: &mut Vec<(IndexBox, Renumbering)>,
    ) {
        if rows.is_empty() || range.is_empty() {
            return;
        }
        let (lower, upper) = rows.bounds(self.x);
        let first = (lower - range.start).div_euclid(self.cells);
        let last = (upper - 1 - range.start).div_euclid(self.cells);
        for period in first..=last {
            let begin = period * self.cells;
            let part = rows.with_axis(self.x, lower.max(begin + range.start), upper.min(begin + range.end));
            if !part.is_empty() {
                parts.push((part, self.numbering(begin, turned)));
            }
        }
    }

    /// The numbering of points in the period that begins at the index `begin` along x.
    fn numbering(&self, begin: i64, turned: bool) -> Renumbering {
        let mut shift = [0; MAX_AXES];
        if !turned {
            shift[self.x] = -begin;
            return Renumbering { orientation: Orientation::default(), shift };
        }
        shift[self.x] = self.a + begin;
        shift[self.y] = self.b;
        let orientation =
            Orientation::default().with_axis(self.x, self.x, true).with_axis(self.y, self.y, true);
        Renumbering { orientation, shift }
    }
}
