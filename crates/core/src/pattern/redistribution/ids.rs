//! Redistribution of numbered cells.
//!
//! The keepers of the ids know which domain of the source owns each id, and see those that two own. A rank looks up the ids that
//! it owns in the target, and asks their owners in the source for the cells. An owner in the source counts how often it is asked
//! for each cell as an owned one: if that is not once, no rank or several own the cell in the target. So no second
//! directory is needed.

use std::collections::BTreeMap;
use std::iter;

use crate::comm::Communicator;
use crate::domain::IndexSet;
use crate::pattern::locations::Location;
use crate::pattern::piece::{Piece, Pieces};
use crate::pattern::redistribution::numbered::Numbered;
use crate::pattern::unstructured::{self, WantedCell, owns};
use crate::pattern::{Pattern, PatternError, SetupCost, agree_on_findings, check_sends, id_directory};
use crate::transport::Reduction;

/// The pieces of cells that a target owns, and those of its halo.
type OwnedAndHalo = (Vec<Piece>, Vec<Piece>);

/// Those that come from each owner in the source.
type Wanted = BTreeMap<usize, OwnedAndHalo>;

/// Collective: finds the owners, among the domains of `source`, of the cells that `target` owns, and of those of its `halo`
/// that are filled, and asks them for the cells. This rank has the domains of both.
pub(super) fn pieces(
    comm: &Communicator,
    source: &Numbered<'_>,
    target: &Numbered<'_>,
    halo: &[WantedCell],
    cost: &mut SetupCost,
) -> Result<Pieces, PatternError> {
    let owned = owned_cells(&target.sets);
    let ids: Vec<i64> = owned.iter().chain(halo).map(|cell| cell.id).collect();
    cost.count_table(ids.len());
    let mut owned_by_all = [id_directory::owned_ids(&source.sets) as u64];
    comm.all_reduce(&mut owned_by_all, Reduction::Sum)?;
    let (locations, complaint) = id_directory::look_up(comm, &source.sets, &ids, owned_by_all[0], cost)?;
    let (of_owned, of_halo) = locations.split_at(owned.len());
    let twice = complaint.map(|text| format!("in the source of a redistribution, {text}"));
    let lost = first_lost(comm, "owns", (&owned, of_owned), target)
        .or_else(|| first_lost(comm, "has in the halo that is filled", (halo, of_halo), target));
    agree_on_findings(comm, twice.or(lost))?;

    let mut wanted = Wanted::new();
    for (owner, pieces) in unstructured::pieces(&owned, of_owned) {
        wanted.entry(owner).or_default().0 = pieces;
    }
    for (owner, pieces) in unstructured::pieces(halo, of_halo) {
        wanted.entry(owner).or_default().1 = pieces;
    }
    ask(comm, source, wanted, cost)
}

/// The owned cells, domain by domain in local order.
fn owned_cells(domains: &[IndexSet]) -> Vec<WantedCell> {
    let mut owned = Vec::with_capacity(id_directory::owned_ids(domains));
    for (domain, set) in domains.iter().enumerate() {
        let cell = |(index, id)| WantedCell { domain: domain as u32, index, id, owner: None };
        owned.extend(set.cells(true).map(cell));
    }
    owned
}

/// The halo cells that an exchange of the pattern fills, domain by domain in local order.
pub(super) fn filled_cells(pattern: &Pattern) -> Vec<WantedCell> {
    let sets = pattern.index_sets();
    let mut filled = Vec::new();
    for piece in pattern.receives().values().flatten() {
        let (domain, ids) = (piece.target_domain, sets[piece.target_domain].ids());
        let cells = piece.target.as_list().into_iter().flat_map(|list| list.iter());
        filled.extend(cells.map(|&index| {
            let id = ids[index as usize];
            WantedCell { domain: domain as u32, index, id, owner: None }
        }));
    }
    filled.sort_unstable_by_key(|cell| (cell.domain, cell.index));
    filled
}

/// Describes in words the first cell that no domain of the source owns. `has`: the relation of its domain to the cell.
fn first_lost(
    comm: &Communicator,
    has: &str,
    (wanted, locations): (&[WantedCell], &[Location]),
    target: &Numbered<'_>,
) -> Option<String> {
    let mut found = wanted.iter().zip(locations);
    let (cell, _) = found.find(|(_, location)| **location == Location::NONE)?;
    let (WantedCell { domain, id, .. }, me) = (cell, comm.rank());
    let name = target.name(*id);
    Some(format!(
        "in the target of a redistribution, domain {domain} of rank {me} {has} {name}, but no rank owns it in the \
         source; pass two patterns that own the same ids"
    ))
}

/// Collective: asks the owners for the `wanted` cells.
fn ask(
    comm: &Communicator,
    source: &Numbered<'_>,
    wanted: Wanted,
    cost: &mut SetupCost,
) -> Result<Pieces, PatternError> {
    let wanted: Vec<(usize, OwnedAndHalo)> = wanted.into_iter().collect();
    cost.messages += wanted.iter().filter(|(owner, _)| *owner != comm.rank()).count();
    let asked = comm.sparse_exchange(&wanted)?;
    let (receives, sends) = (joined(&wanted), joined(&asked));
    let claims = asked.iter().flat_map(|(rank, (owned, _))| owned.iter().map(move |piece| (*rank, piece)));
    let found = match check_sends(&sends, |piece| owns(&source.sets, piece)) {
        Ok(()) => not_owned_once(comm, source, &claims.collect::<Vec<_>>()),
        Err(error) => Some(error.to_string()),
    };
    agree_on_findings(comm, found)?;
    cost.count_table(sends.values().flatten().map(|piece| piece.source.count() as usize).sum());
    Ok(Pieces { receives, sends })
}

/// All pieces of each rank, those of owned cells first.
fn joined(pieces: &[(usize, OwnedAndHalo)]) -> BTreeMap<usize, Vec<Piece>> {
    let of_rank = |(rank, (owned, halo)): &(usize, OwnedAndHalo)| (*rank, [&owned[..], &halo[..]].concat());
    pieces.iter().map(of_rank).collect()
}

/// Describes in words the first cell of this rank that no rank owns in the target, or that is owned there twice. `claims`
/// are the pieces for owned cells that other ranks ask for, each with its rank.
fn not_owned_once(comm: &Communicator, source: &Numbered<'_>, claims: &[(usize, &Piece)]) -> Option<String> {
    let cells_of = |piece: &Piece| piece.source.as_list().cloned().unwrap_or_default();
    let mut owners: Vec<Vec<u8>> = source.sets.iter().map(|set| vec![0; set.len()]).collect();
    for (_, piece) in claims {
        for &index in &*cells_of(piece) {
            let count = &mut owners[piece.source_domain][index as usize];
            *count = count.saturating_add(1);
        }
    }
    for (domain, set) in source.sets.iter().enumerate() {
        let wrong = set.cells(true).find(|(index, _)| owners[domain][*index as usize] != 1);
        let Some((index, id)) = wrong else { continue };
        let asked = claims.iter().filter(|(_, piece)| piece.source_domain == domain);
        let of_cell = asked.flat_map(|(rank, piece)| {
            let times = cells_of(piece).iter().filter(|other| **other == index).count();
            iter::repeat_n(format!("domain {} of rank {rank}", piece.target_domain), times)
        });
        let name = source.name(id);
        return Some(match &of_cell.take(2).collect::<Vec<_>>()[..] {
            [one, two] => {
                format!("in the target of a redistribution, {name} is owned twice: by {one} and by {two}")
            }
            _ => format!(
                "in the target of a redistribution, no rank owns {name}, which domain {domain} of rank {} owns in the \
                 source; pass two patterns that own the same ids",
                comm.rank()
            ),
        });
    }
    None
}
