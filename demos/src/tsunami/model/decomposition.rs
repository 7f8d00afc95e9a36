//! The rectangle of the grid that each rank owns.

use haloport::domain::GridError;
use haloport::{Grid, Split};
use thiserror::Error;

use crate::tsunami::model::block::MARGIN;

/// The error of a grid that cannot be divided among ranks.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DecompositionError {
    /// Some ranks would get blocks that are thinner than their neighbours' margins.
    #[error(
        "{ranks} ranks cannot share a grid of {nx} x {ny} cells: expected a number of ranks for which blocks of at \
         least {MARGIN} x {MARGIN} cells make up the grid, found none for {ranks}; {fewer} would do"
    )]
    TooThin {
        /// The number of ranks.
        ranks: usize,
        /// Columns of the grid.
        nx: usize,
        /// Rows of the grid.
        ny: usize,
        /// The next smaller number of ranks that can share it.
        fewer: usize,
    },
    /// There is no such grid.
    #[error(transparent)]
    Grid(#[from] GridError),
}

/// The grid of `ny` rows and `nx` columns, in this order of axes, cut into one block for each rank, at least
/// [`MARGIN`] cells wide and high.
///
/// The split is the balanced one or, if that has thinner blocks, the one with the shortest borders.
///
/// # Errors
/// [`DecompositionError`].
pub fn decompose(nx: usize, ny: usize, ranks: usize) -> Result<(Grid, Split), DecompositionError> {
    let grid = Grid::new([ny, nx])?;
    let balanced = Split::balanced(&grid, ranks)?;
    let parts = balanced.parts_per_axis();
    if is_thick([ny, nx], [parts[0], parts[1]]) {
        return Ok((grid, balanced));
    }
    match thick_parts(nx, ny, ranks) {
        Some(parts) => Ok((grid, Split::even(&grid, parts)?)),
        None => {
            let fewer = (1..ranks).rev().find(|&fewer| thick_parts(nx, ny, fewer).is_some());
            Err(DecompositionError::TooThin { ranks, nx, ny, fewer: fewer.unwrap_or(0) })
        }
    }
}

/// Parts along rows and columns with the shortest borders and blocks that are thick enough.
fn thick_parts(nx: usize, ny: usize, ranks: usize) -> Option<[usize; 2]> {
    let all = (1..=ranks.min(ny)).filter(|rows| ranks.is_multiple_of(*rows)).map(|rows| [rows, ranks / rows]);
    all.filter(|&parts| is_thick([ny, nx], parts)).min_by_key(|[rows, columns]| rows * nx + columns * ny)
}

fn is_thick(cells: [usize; 2], parts: [usize; 2]) -> bool {
    cells.iter().zip(parts).all(|(cells, parts)| cells / parts >= MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_as_thick_as_a_margin() {
        for ranks in [1, 2, 3, 4, 7, 8, 24, 45, 59, 90, 2700] {
            let (grid, split) = decompose(120, 91, ranks).unwrap();
            let parts: Vec<_> = (0..ranks).map(|rank| split.part(rank).unwrap()).collect();
            assert!(parts.iter().all(|part| part.extent(0) >= MARGIN && part.extent(1) >= MARGIN), "{ranks}");
            assert_eq!(parts.iter().map(|part| part.cells()).sum::<u128>(), grid.bounds().cells());
        }
    }

    #[test]
    fn another_factorisation_is_taken_where_the_balanced_one_is_too_thin() {
        let (_, split) = decompose(5, 4, 4).unwrap();
        assert_eq!(split.parts_per_axis(), [2, 2]);
        // 3 columns of 5 cells would be 1 cell wide.
        let (_, split) = decompose(5, 9, 6).unwrap();
        assert_eq!(split.parts_per_axis(), [3, 2]);
        assert_eq!(
            decompose(120, 91, 97).unwrap_err().to_string(),
            "97 ranks cannot share a grid of 120 x 91 cells: expected a number of ranks for which blocks of at least \
             2 x 2 cells make up the grid, found none for 97; 96 would do"
        );
        assert!(decompose(120, 91, 0).is_err());
    }
}
