//! Patterns of numbered cells.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use rustc_hash::FxHashSet;

use super::id_directory::{self, Found, exchange_tables};
use super::locations::{Location, Locations};
use super::{
    Cells, Description, Domains, Pattern, PatternError, Piece, Runs, SetupCost, agree, agree_on_findings,
    check_sends,
};
use crate::comm::{CollectiveCall, Communicator};
use crate::domain::{HaloCells, IndexSet, Orientation};
use crate::transport::{Reduction, TransportError};

/// A cell to fill.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedCell {
    pub(super) domain: u32,
    /// Its local index in the domain.
    pub(super) index: u32,
    pub(super) id: i64,
    /// The owner, if the domain names it.
    pub(super) owner: Option<usize>,
}

impl WantedCell {
    /// The text of the error if the halo cell was not found, or not on the named rank.
    fn complaint(&self, comm: &Communicator, location: &Location) -> Option<String> {
        let WantedCell { domain, index, id, owner } = self;
        let me = comm.rank();
        match owner {
            Some(owner) => (location.rank as usize != *owner).then(|| {
                format!(
                    "domain {domain} of rank {me} names rank {owner} as the owner of the id {id} (local index \
                     {index}), but rank {owner} does not own it"
                )
            }),
            None => (*location == Location::NONE).then(|| {
                format!(
                    "domain {domain} of rank {me} has the id {id} in its halo (local index {index}), but no rank owns \
                     it; let one domain own it, or list the halo cells to fill without it"
                )
            }),
        }
    }
}

/// Collective: see [`Pattern::unstructured`].
pub(super) fn make(
    comm: &Communicator,
    domains: &[IndexSet],
    halo: &HaloCells,
) -> Result<Pattern, PatternError> {
    let steps = comm.enter(CollectiveCall::Pattern)?;
    agree(comm, &Ok(Description::Unstructured), complaint(comm, domains, halo))?;
    let wanted = wanted(domains, halo);
    let mut cost = SetupCost::default();
    cost.count_table(domains.iter().map(IndexSet::len).sum());

    // All domains count, not only those with wanted cells: only the directory detects ids that two ranks own.
    let unknown = domains.iter().any(|set| set.owners().is_none());
    let mut sums = [u64::from(unknown), id_directory::owned_ids(domains) as u64];
    comm.all_reduce(&mut sums, Reduction::Sum)?;
    let [ranks_with_unknown, owned_by_all] = sums;
    let (locations, complaint) = if ranks_with_unknown == 0 {
        ask_owners(comm, domains, &wanted, &mut cost)?
    } else {
        let ids: Vec<i64> = wanted.iter().map(|cell| cell.id).collect();
        id_directory::look_up(comm, domains, &ids, owned_by_all, &mut cost)?
    };
    let lost = wanted.iter().zip(&locations).find_map(|(cell, location)| cell.complaint(comm, location));
    agree_on_findings(comm, complaint.or(lost))?;
    let receives = pieces(&wanted, &locations);
    let requests: Vec<(usize, Vec<Piece>)> =
        receives.iter().map(|(&owner, pieces)| (owner, pieces.clone())).collect();
    cost.messages += requests.iter().filter(|(owner, _)| *owner != comm.rank()).count();
    let sends: BTreeMap<usize, Vec<Piece>> = comm.sparse_exchange(&requests)?.into_iter().collect();
    check_sends(&sends, |piece| owns(domains, piece))?;
    cost.count_table(sends.values().flatten().map(|piece| piece.source.count() as usize).sum());
    let domains = Domains::Unstructured { sets: domains.to_vec(), runs: OnceLock::new() };
    Ok(Pattern::new((comm, steps.number()), domains, receives, sends, cost))
}

/// Whether the domains own the cells that a piece is sent from.
pub(super) fn owns(domains: &[IndexSet], piece: &Piece) -> bool {
    let (set, source) = (domains.get(piece.source_domain), piece.source.as_list());
    set.zip(source).is_some_and(|(set, source)| {
        source.iter().all(|&index| set.owned().get(index as usize).is_some_and(|owned| *owned))
    })
}

/// The longest runs of local indices in each domain: of owned cells, and of owned cells that are not sent.
pub(super) fn runs<'p>(sets: &[IndexSet], sends: impl Iterator<Item = &'p Piece>) -> Vec<Runs> {
    let mut inner: Vec<Vec<bool>> = sets.iter().map(|set| set.owned().to_vec()).collect();
    for piece in sends {
        for &index in piece.source.as_list().into_iter().flat_map(|list| list.iter()) {
            inner[piece.source_domain][index as usize] = false;
        }
    }
    let runs = sets.iter().zip(&inner);
    runs.map(|(set, inner)| Runs { owned: longest(set.owned()), interior: longest(inner) }).collect()
}

/// The longest run of `true`.
fn longest(marks: &[bool]) -> Range<usize> {
    let mut best = 0..0;
    let mut begin = 0;
    for (index, &mark) in marks.iter().enumerate() {
        if !mark {
            begin = index + 1;
        } else if index + 1 - begin > best.len() {
            best = begin..index + 1;
        }
    }
    best
}

/// The text of the first error in the arguments of this rank.
fn complaint(comm: &Communicator, domains: &[IndexSet], halo: &HaloCells) -> Option<String> {
    let of_domain = domains.iter().enumerate().find_map(|(number, domain)| {
        domain.complaint(comm.size()).map(|complaint| format!("domain {number} {complaint}"))
    });
    of_domain.or_else(|| {
        let HaloCells::Ids(listed) = halo else { return None };
        let known: FxHashSet<i64> =
            domains.iter().flat_map(|set| set.cells(false)).map(|(_, id)| id).collect();
        let stray = listed.iter().find(|id| !known.contains(id))?;
        Some(format!("the list of halo cells has the id {stray}, which is in no halo of this rank"))
    })
}

/// The cells to fill, domain by domain in local order.
fn wanted(domains: &[IndexSet], halo: &HaloCells) -> Vec<WantedCell> {
    let listed: Option<FxHashSet<i64>> = match halo {
        HaloCells::All => None,
        HaloCells::Ids(listed) => Some(listed.iter().copied().collect()),
    };
    let mut wanted = Vec::new();
    for (domain, set) in domains.iter().enumerate() {
        for (position, (index, id)) in set.cells(false).enumerate() {
            let owner = set.owners().map(|owners| owners[position]);
            if listed.as_ref().is_none_or(|listed| listed.contains(&id)) {
                wanted.push(WantedCell { domain: domain as u32, index, id, owner });
            }
        }
    }
    wanted
}

/// Collective: finds the locations of the wanted cells, whose owners are all named, by asking these.
fn ask_owners(
    comm: &Communicator,
    domains: &[IndexSet],
    wanted: &[WantedCell],
    cost: &mut SetupCost,
) -> Result<Found, TransportError> {
    let mut locations = Locations::with_capacity(id_directory::owned_ids(domains));
    for (domain, set) in domains.iter().enumerate() {
        for (index, id) in set.cells(true) {
            locations.add(id, Location { rank: comm.rank() as u32, domain: domain as u32, index });
        }
    }
    let mut questions: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    for (owner, id) in wanted.iter().filter_map(|cell| Some((cell.owner?, cell.id))) {
        questions.entry(owner).or_default().push(id);
    }
    let questions = exchange_tables::<i64>(comm, questions.into_iter().collect(), cost)?;
    let answer = |id: &i64| locations.find(*id).unwrap_or(Location::NONE);
    let answers = questions.iter().map(|(asker, ids)| (*asker, ids.iter().map(answer).collect())).collect();
    let mut answers: BTreeMap<usize, std::vec::IntoIter<Location>> =
        exchange_tables::<Location>(comm, answers, cost)?
            .into_iter()
            .map(|(owner, locations)| (owner, locations.into_iter()))
            .collect();
    let location = |cell: &WantedCell| {
        let owner = cell.owner.unwrap_or_default();
        let next = answers.get_mut(&owner).and_then(Iterator::next);
        next.ok_or(TransportError::Malformed { sender: owner, why: "it left out an answer".into() })
    };
    Ok((wanted.iter().map(location).collect::<Result<_, _>>()?, locations.complaint()))
}

/// Collects the cells that one domain sends to another into a piece, in the local order of the target, so that they are
/// unpacked in sequence.
pub(super) fn pieces(wanted: &[WantedCell], locations: &[Location]) -> BTreeMap<usize, Vec<Piece>> {
    type Lists = (Vec<u32>, Vec<u32>);
    let mut lists: BTreeMap<(usize, u32, u32), Lists> = BTreeMap::new();
    for (cell, location) in wanted.iter().zip(locations) {
        let key = (location.rank as usize, cell.domain, location.domain);
        let (sources, targets) = lists.entry(key).or_default();
        sources.push(location.index);
        targets.push(cell.index);
    }
    let mut pieces: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
    for ((rank, target_domain, source_domain), (sources, targets)) in lists {
        pieces.entry(rank).or_default().push(Piece {
            source_domain: source_domain as usize,
            source: Cells::List(sources.into()),
            target_domain: target_domain as usize,
            target: Cells::List(targets.into()),
            orientation: Orientation::default(),
        });
    }
    pieces
}
