//! The ids of the cells that a pattern owns: those of numbered cells, or the numbers of the cells of a grid.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::domain::{Grid, IndexBox, IndexSet};
use crate::pattern::Pattern;
use crate::pattern::piece::{Cells, Piece};

/// The cells of the domains of a pattern, with their ids.
pub(super) struct Numbered<'p> {
    /// Those of a grid have their numbers in the box of the domain as local indices.
    pub(super) sets: Cow<'p, [IndexSet]>,
    grid: Option<&'p Grid>,
}

impl<'p> Numbered<'p> {
    /// Those of a pattern that is not [too large](too_large).
    pub(super) fn of(pattern: &'p Pattern) -> Numbered<'p> {
        let Some(grid) = pattern.grid() else {
            return Numbered { sets: pattern.index_sets().into(), grid: None };
        };
        let sets: Vec<IndexSet> = pattern.boxes().iter().map(|owned| set_of(grid, owned)).collect();
        Numbered { sets: sets.into(), grid: Some(grid) }
    }

    /// The number of axes of the grid, if there is one.
    pub(super) fn axes(&self) -> Option<usize> {
        self.grid.map(Grid::axes)
    }

    /// An id in words, with the index of the cell of a grid.
    pub(super) fn name(&self, id: i64) -> String {
        let Some(grid) = self.grid else { return format!("the id {id}") };
        let (mut rest, mut cell) = (id, vec![0; grid.axes()]);
        for axis in (0..grid.axes()).rev() {
            let extent = grid.extent(axis).max(1) as i64;
            (rest, cell[axis]) = (rest / extent, rest % extent);
        }
        format!("the cell {cell:?} with the id {id}")
    }
}

/// The cells of a box with their numbers in the grid as ids.
fn set_of(grid: &Grid, owned: &IndexBox) -> IndexSet {
    let cells = owned.cells() as usize;
    let mut ids = Vec::with_capacity(cells);
    let mut cell = owned.lower().to_vec();
    while ids.len() < cells {
        ids.push(cell.iter().enumerate().fold(0, |id, (axis, index)| id * grid.extent(axis) as i64 + index));
        for axis in (0..cell.len()).rev() {
            cell[axis] += 1;
            if cell[axis] < owned.upper()[axis] {
                break;
            }
            cell[axis] = owned.lower()[axis];
        }
    }
    IndexSet::in_order(ids, vec![true; cells])
}

/// Describes in words why the cells of a pattern cannot be numbered.
pub(super) fn too_large(pattern: &Pattern) -> Option<String> {
    let grid = pattern.grid()?;
    let cells = grid.bounds().cells();
    if i64::try_from(cells).is_err() {
        return Some(format!(
            "the grid of a redistribution has {cells} cells, expected fewer than 2^63 to number them"
        ));
    }
    let boxes = pattern.boxes().iter().enumerate();
    let (domain, cells) = boxes
        .map(|(domain, owned)| (domain, owned.cells()))
        .find(|(_, cells)| u32::try_from(*cells).is_err())?;
    Some(format!(
        "domain {domain} has {cells} cells of a grid, expected fewer than 2^32 for a redistribution between a grid and numbered \
         cells; cut it into several"
    ))
}

/// The pieces with a list in a box in place of each list on the side of a grid, which has this number of axes.
pub(super) fn of_each(
    pieces: BTreeMap<usize, Vec<Piece>>,
    source_axes: Option<usize>,
    target_axes: Option<usize>,
) -> BTreeMap<usize, Vec<Piece>> {
    let numbered = |cells: Cells, axes: Option<usize>| match (cells, axes) {
        (Cells::List(numbers), Some(axes)) => Cells::ListInBox { axes, numbers },
        (cells, _) => cells,
    };
    let of_piece = |piece: Piece| Piece {
        source: numbered(piece.source, source_axes),
        target: numbered(piece.target, target_axes),
        ..piece
    };
    pieces.into_iter().map(|(rank, pieces)| (rank, pieces.into_iter().map(of_piece).collect())).collect()
}
