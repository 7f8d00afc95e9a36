//! Patterns of boxes of a grid.

use std::collections::BTreeMap;

use super::box_directory::{Directory, exchange_lists};
use super::halo_boxes::{WantedBox, halo_boxes};
use super::piece::Pieces;
use super::{Description, Domains, Pattern, PatternError, Piece, SetupCost, agree, check_sends};
use crate::comm::{CollectiveCall, Communicator};
use crate::domain::{Grid, GridError, Halo, IndexBox};

/// Collective: see [`Pattern::structured`].
pub(super) fn make(
    comm: &Communicator,
    grid: &Grid,
    domains: &[IndexBox],
    halo: &Halo,
) -> Result<Pattern, PatternError> {
    let steps = comm.enter(CollectiveCall::Pattern)?;
    let widths = halo.on(grid);
    let description = widths.as_ref().map_err(ToString::to_string).map(|widths| Description::Structured {
        cells: grid.bounds(),
        periodic: grid.periodic_axes().to_vec(),
        cubed_sphere: grid.is_cubed_sphere(),
        fold: grid.fold(),
        widths: Box::new(*widths),
    });
    agree(comm, &description, stray_domain(grid, domains))?;
    let widths = widths?;

    let mut cost = SetupCost::default();
    cost.count_table(domains.len());
    let halo = halo_boxes(grid, &widths, domains);
    let Pieces { receives, sends } = pieces(comm, (grid, domains), &halo, &mut cost)?;
    let domains = Domains::Structured { grid: *grid, widths, boxes: domains.to_vec() };
    Ok(Pattern::new((comm, steps.number()), domains, receives, sends, cost))
}

/// Collective: finds the owners of the cells that this rank wants, and asks them for the cells. This rank owns `domains` of
/// `grid`.
pub(super) fn pieces(
    comm: &Communicator,
    (grid, domains): (&Grid, &[IndexBox]),
    wanted: &[WantedBox],
    cost: &mut SetupCost,
) -> Result<Pieces, PatternError> {
    let directory = Directory::new(comm, grid, domains)?;
    let bin = directory.register(comm, domains, cost)?;
    let receives = directory.look_up(comm, &bin, wanted, cost)?;
    let requests: Vec<(usize, Vec<Piece>)> =
        receives.iter().map(|(&owner, pieces)| (owner, pieces.clone())).collect();
    let sends: BTreeMap<usize, Vec<Piece>> = exchange_lists(comm, &requests, cost)?.into_iter().collect();
    check_sends(&sends, |piece| {
        let (owned, source) = (domains.get(piece.source_domain), piece.source.as_box());
        owned.zip(source).is_some_and(|(owned, source)| {
            owned.axes() == source.axes() && !source.is_empty() && owned.encloses(source)
        })
    })?;
    Ok(Pieces { receives, sends })
}

/// Collective: tells the other ranks, which make a pattern, that this one has no grid.
pub(super) fn refuse(comm: &Communicator, error: GridError) -> PatternError {
    let told = comm.enter(CollectiveCall::Pattern).map_err(PatternError::from);
    let told = told.and_then(|_steps| agree(comm, &Err(error.to_string()), None));
    told.err().unwrap_or(PatternError::Grid(error))
}

/// The text of the error for a domain that does not fit the grid.
fn stray_domain(grid: &Grid, domains: &[IndexBox]) -> Option<String> {
    domains.iter().enumerate().find_map(|(number, domain)| {
        if domain.axes() != grid.axes() {
            return Some(format!(
                "domain {number} has {} axes, but the grid has {}",
                domain.axes(),
                grid.axes()
            ));
        }
        (!grid.bounds().encloses(domain)).then(|| {
            format!("domain {number} ({domain}) reaches outside of the grid, which is {}", grid.bounds())
        })
    })
}
