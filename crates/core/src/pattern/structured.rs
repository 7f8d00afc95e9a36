//! Patterns of boxes of a grid.

use super::boxes::Directory;
use super::{Description, Domains, Pattern, PatternError, Piece, SetupCost, agree, regions};
use crate::domain::{Grid, Halo, IndexBox};
use crate::transport::Communicator;

/// Collective: see [`Pattern::structured`].
pub(super) fn make(
    comm: &Communicator,
    grid: &Grid,
    domains: &[IndexBox],
    halo: &Halo,
) -> Result<Pattern, PatternError> {
    let widths = halo.on(grid);
    let description = widths.as_ref().map_err(ToString::to_string).map(|widths| Description::Structured {
        cells: grid.cells(),
        periodic: grid.periodic_axes().to_vec(),
        cubed_sphere: grid.is_cubed_sphere(),
        widths: *widths,
    });
    agree(comm, &description, stray_domain(grid, domains))?;
    let widths = widths?;

    let directory = Directory::new(grid, comm.size())?;
    let known = directory.register(comm, domains)?;
    let wanted = regions::wanted(grid, &widths, domains);
    let receives = directory.look_up(comm, &known, &wanted)?;
    let requests: Vec<(usize, Vec<Piece>)> =
        receives.iter().map(|(&owner, pieces)| (owner, pieces.clone())).collect();
    let sends = comm.sparse_exchange(&requests)?.into_iter().collect();
    let domains = Domains::Structured { grid: *grid, widths, boxes: domains.to_vec() };
    Ok(Pattern::new(comm, domains, receives, sends, SetupCost::default()))
}

fn stray_domain(grid: &Grid, domains: &[IndexBox]) -> Option<String> {
    domains.iter().enumerate().find_map(|(number, domain)| {
        if domain.axes() != grid.axes() {
            return Some(format!(
                "domain {number} has {} axes, expected the {} of the grid",
                domain.axes(),
                grid.axes()
            ));
        }
        (!grid.cells().encloses(domain)).then(|| {
            format!("domain {number} ({domain}) reaches outside of the grid, which is {}", grid.cells())
        })
    })
}
