//! What is written between exchanges: the owned cells that other domains have in their halos.

use std::ops::Range;

use clap::{Args, ValueEnum};
use haloport::device::DeviceInfo;
use haloport::field::BlockLayout;
use haloport::{Communicator, Element, Pattern};
use serde::Serialize;

use super::block::{Block, for_each_cell, list_index};
use crate::command::failure::Failure;

/// What a batch does with owned cells between exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Boundary {
    /// Those near the halo are rewritten before each exchange, which is timed apart. So lines that a neighbour has read are fetched
    /// back, as in a model.
    Written,
    /// They stay as they are, and in the caches of all that read them.
    Unchanged,
}

/// The state of the owned cells near the halo.
#[derive(Debug, Clone, Args)]
pub(super) struct BoundaryArgs {
    /// Owned cells near the halo before each exchange; the time to write them is subtracted. Raw sends have no cells. [default:
    /// written, if that is possible]
    #[arg(long)]
    boundary: Option<Boundary>,
}

/// The writes of a step of a model: values of cells, which are copied into the fields.
pub(super) struct BoundaryWrites<T> {
    /// Where they lie in the list of a field's values, in ascending order.
    runs: Vec<Range<usize>>,
    /// For one field after the other.
    values: Vec<T>,
}

impl BoundaryArgs {
    /// What they ask for, if the fields lie on `device` and nothing else is in the way; `obstacle` says what is.
    ///
    /// # Errors
    /// [`Failure::BadInput`] if that is not possible.
    pub(super) fn choose(&self, device: &DeviceInfo, obstacle: Option<&str>) -> Result<Boundary, Failure> {
        let of_device = (!device.host_accessible).then_some("the host cannot write memory of this device");
        match (self.boundary, of_device.or(obstacle)) {
            (Some(Boundary::Written), Some(why)) => {
                Err(Failure::BadInput(format!("--boundary: expected unchanged, as {why}, found written")))
            }
            (Some(boundary), _) => Ok(boundary),
            (None, Some(_)) => Ok(Boundary::Unchanged),
            (None, None) => Ok(Boundary::Written),
        }
    }
}

/// Why writes cannot be timed apart if ranks share cores: each finds other lines in the cache if it writes after the exchanges of
/// the others than if it goes on writing.
pub(super) fn crowded(comm: &Communicator) -> Option<&'static str> {
    let why = "ranks share cores, and find other lines in the cache in exchanges than without";
    comm.info().crowded.then_some(why)
}

impl<T: Element> BoundaryWrites<T> {
    /// Rewrites the values that owned cells near the halo of `pattern` have now in `fields`, which have one layout.
    ///
    /// # Errors
    /// [`Failure::Run`] if they are not in memory of the host.
    pub(super) fn of(fields: &mut [impl Block<T>], pattern: &Pattern) -> Result<BoundaryWrites<T>, Failure> {
        let Some(first) = fields.first() else { return Ok(BoundaryWrites { runs: vec![], values: vec![] }) };
        let layout = first.layout()?;
        let mut places = Vec::new();
        for piece in pattern.sends().values().flatten() {
            if let Some(cells) = piece.source.as_box() {
                for_each_cell(cells, |index| places.extend(list_index(layout, index)));
            }
            for &cell in piece.source.as_list().into_iter().flat_map(|list| list.iter()) {
                places_of(cell, layout, &mut places);
            }
        }
        BoundaryWrites::at(fields, places)
    }

    /// Rewrites the values that `fields` have now at these `places` in the list of a field's values.
    ///
    /// # Errors
    /// As for [`of`](BoundaryWrites::of).
    pub(super) fn at(
        fields: &mut [impl Block<T>],
        mut places: Vec<usize>,
    ) -> Result<BoundaryWrites<T>, Failure> {
        places.sort_unstable();
        places.dedup();
        let runs: Vec<_> =
            places.chunk_by(|one, next| one + 1 == *next).map(|run| run[0]..run[0] + run.len()).collect();
        let mut values = Vec::with_capacity(fields.len() * places.len());
        for field in fields {
            field
                .visit(&mut |all| runs.iter().for_each(|run| values.extend_from_slice(&all[run.clone()])))?;
        }
        Ok(BoundaryWrites { runs, values })
    }

    /// Writes the cells of all fields.
    ///
    /// # Errors
    /// As for [`of`](BoundaryWrites::of).
    pub(super) fn write(&self, fields: &mut [impl Block<T>]) -> Result<(), Failure> {
        let mut rest = &self.values[..];
        for field in fields {
            field.visit(&mut |all| {
                for run in &self.runs {
                    let (values, others) = rest.split_at(run.len());
                    all[run.clone()].copy_from_slice(values);
                    rest = others;
                }
            })?;
        }
        Ok(())
    }
}

/// Adds where the levels of a listed cell lie in the list of a field's values.
pub(super) fn places_of(cell: u32, layout: &BlockLayout, places: &mut Vec<usize>) {
    let axes = layout.allocated().axes();
    let levels = if axes > 1 { layout.allocated().extent(1) } else { 1 };
    places
        .extend((0..levels as i64).filter_map(|level| list_index(layout, &[i64::from(cell), level][..axes])));
}
