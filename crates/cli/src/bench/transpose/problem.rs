//! The grid in rows and in columns, the fields, and their values.

use haloport::device::Device;
use haloport::exchange::SourceTarget;
use haloport::field::BlockLayout;
use haloport::{Communicator, Field, Grid, Halo, Pattern, Split};

use super::args::TransposeArgs;
use crate::bench::block::{Block as _, for_each_cell, list_index};
use crate::command::failure::Failure;

/// The grid, in parts along its first axis and along its second.
pub(super) struct Problem {
    pub(super) rows: Split,
    pub(super) columns: Split,
    /// The patterns of this rank.
    pub(super) patterns: [Pattern; 2],
}

impl Problem {
    /// Collective.
    ///
    /// # Errors
    /// [`Failure::BadInput`] unless each rank gets as many cells as the others.
    pub(super) fn new(comm: &Communicator, args: &TransposeArgs) -> Result<Problem, Failure> {
        let (cells, ranks) = (&args.cells.0, comm.size());
        if cells.len() < 2 || cells[..2].iter().any(|cells| !cells.is_multiple_of(ranks)) {
            return Err(Failure::BadInput(format!(
                "--cells: expected at least 2 axes, and along the first two a multiple of the {ranks} ranks; found {cells:?}"
            )));
        }
        let grid =
            Grid::new(cells.clone()).map_err(|error| Failure::BadInput(format!("--cells: {error}")))?;
        let split = |axis: usize| -> Result<(Split, Pattern), Failure> {
            let mut parts = vec![1; cells.len()];
            parts[axis] = ranks;
            let split = Split::even(&grid, &parts).map_err(|error| Failure::BadInput(error.to_string()))?;
            let mine = split.part(comm.rank());
            let pattern = Pattern::structured(comm, &grid, mine.as_slice(), &Halo::uniform(0))?;
            Ok((split, pattern))
        };
        let ((rows, first), (columns, second)) = (split(0)?, split(1)?);
        Ok(Problem { rows, columns, patterns: [first, second] })
    }
}

/// Pairs of fields in rows and in columns.
pub(super) type Pairs<D> = Vec<SourceTarget<Field<f64, D>, Field<f64, D>>>;

/// Sets the sources to the values of their cells, and the targets to one that no cell has.
pub(super) fn fill<D: Device>(pairs: &mut Pairs<D>) -> Result<(), Failure> {
    for (number, SourceTarget { source, target }) in pairs.iter_mut().enumerate() {
        let layout = source.layout(0)?.clone();
        source.store(&values(&layout, number))?;
        target.store(&vec![-1.0; target.layout(0)?.span().1.unsigned_abs()])?;
    }
    Ok(())
}

/// Checks every cell of the targets.
pub(super) fn check<D: Device>(pairs: &Pairs<D>, contestant: &str) -> Result<(), Failure> {
    for (number, SourceTarget { target, .. }) in pairs.iter().enumerate() {
        let (layout, found) = (target.layout(0)?, target.load()?);
        let expected = values(layout, number);
        if let Some(at) = (0..found.len()).find(|&at| found[at] != expected[at]) {
            let (found, expected) = (found[at], expected[at]);
            return Err(Failure::Run(format!(
                "the check of {contestant} failed: value {at} of field {number} is {found}, not {expected}"
            )));
        }
    }
    Ok(())
}

/// The values of a block: each cell has another one, as far as floats tell them apart.
fn values(layout: &BlockLayout, field: usize) -> Vec<f64> {
    let mut values = vec![0.0; layout.span().1.unsigned_abs()];
    for_each_cell(&layout.owned(), |index| {
        if let Some(at) = list_index(layout, index) {
            values[at] = index.iter().fold(field as f64, |number, &at| number * 4096.0 + at as f64);
        }
    });
    values
}
