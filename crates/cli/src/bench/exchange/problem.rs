//! The grid that the command line describes.

use haloport::device::DeviceInfo;
use haloport::{Communicator, Grid, Halo, Pattern, Split};

use super::args::{ExchangeArgs, SplitChoice};
use crate::command::failure::Failure;
use crate::command::memory::{gib, room};

/// Equal blocks, one for each rank, that form a grid which is periodic along every axis.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) grid: Grid,
    pub(super) split: Split,
    halo: usize,
    /// Bytes of one set of fields with their halos, on one rank.
    set_bytes: u128,
}

impl Problem {
    /// The grid of `ranks` blocks.
    ///
    /// # Errors
    /// [`Failure::BadInput`] if the grid is too large.
    pub(super) fn new(args: &ExchangeArgs, ranks: usize) -> Result<Problem, Failure> {
        let local = &args.local.0;
        let counts = counts(local.len(), ranks, args.split)?;
        let too_large =
            || Failure::BadInput(format!("--local: {local:?} cells on each of {ranks} ranks are too many"));
        let extents: Option<Vec<usize>> =
            local.iter().zip(&counts).map(|(cells, count)| cells.checked_mul(*count)).collect();
        let grid = Grid::new(extents.ok_or_else(too_large)?)
            .and_then(|grid| grid.periodic(vec![true; local.len()]))
            .map_err(|error| Failure::BadInput(format!("--local: {error}")))?;
        let split = Split::even(&grid, &counts).map_err(|error| Failure::BadInput(error.to_string()))?;
        let set_bytes = local
            .iter()
            .try_fold((args.fields * args.dtype.bytes()) as u128, |bytes, &cells| {
                let with_halo = (cells as u128).checked_add((args.halo as u128).checked_mul(2)?)?;
                bytes.checked_mul(with_halo)
            })
            .ok_or_else(too_large)?;
        Ok(Problem { grid, split, halo: args.halo, set_bytes })
    }

    /// Checks that the fields of `ranks` ranks fit into the memory of their device.
    ///
    /// # Errors
    /// [`Failure::BadInput`] if they do not.
    pub(super) fn check_memory(&self, device: &DeviceInfo, ranks: usize) -> Result<(), Failure> {
        // The library's fields, and those of the plain copies.
        let needed = self.set_bytes.saturating_mul(2 * ranks as u128);
        match room(device) {
            Some(room) if room.is_below(needed) => Err(Failure::BadInput(format!(
                "the fields of {ranks} ranks need {:.1} GiB, and there are {room}: choose a smaller --local, --fields, \
                 --halo or --ranks",
                gib(needed)
            ))),
            _ => Ok(()),
        }
    }

    /// Collective: the pattern in which each rank owns its block.
    ///
    /// # Errors
    /// [`Failure::Run`] if the ranks cannot agree.
    pub(super) fn pattern(&self, comm: &Communicator) -> Result<Pattern, Failure> {
        let mine = self.split.part(comm.rank());
        Ok(Pattern::structured(comm, &self.grid, mine.as_slice(), &Halo::uniform(self.halo))?)
    }
}

/// The number of blocks along each axis.
fn counts(axes: usize, ranks: usize, split: SplitChoice) -> Result<Vec<usize>, Failure> {
    let mut counts = vec![1; axes];
    match split {
        SplitChoice::Slowest => counts[0] = ranks,
        SplitChoice::Fastest => counts[axes - 1] = ranks,
        // A cube, since its axes have equal lengths.
        SplitChoice::Balanced => {
            let cube = Grid::new(vec![ranks; axes]).and_then(|cube| Split::balanced(&cube, ranks));
            counts = cube.map_err(|error| Failure::BadInput(error.to_string()))?.parts_per_axis();
        }
    }
    Ok(counts)
}
