//! Who owns which cells of a grid: a directory of boxes that is spread over the ranks.
//!
//! The grid is cut into about as many equal bins as there are ranks, and rank `b` keeps bin `b`: the boxes that
//! overlap it, with their owners. A rank registers its domains with the bins that they overlap and asks the bins
//! that its halos overlap, so what it keeps and sends grows with its own cells and neighbours alone. The keeper of
//! a bin sees gaps and overlaps in it.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::regions::Wanted;
use super::{Cells, PatternError, Piece, SetupCost, agree_on_findings};
use crate::domain::{Grid, GridError, IndexBox, Split, balanced_counts};
use crate::transport::{Communicator, TransportError};

/// The bins of a grid.
#[derive(Debug)]
pub(super) struct Directory {
    bins: Split,
    axes: usize,
}

/// A domain and who owns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Owner {
    rank: usize,
    domain: usize,
}

/// The number of what was wanted, and a domain that holds cells of it.
type Answer = (usize, Owner, IndexBox);

/// What this rank keeps for others: the domains that overlap its bin.
#[derive(Debug)]
pub(super) struct Known {
    domains: Vec<(Owner, IndexBox)>,
}

impl Directory {
    pub(super) fn new(grid: &Grid, ranks: usize) -> Result<Directory, GridError> {
        let counts: Vec<usize> = balanced_counts(grid, ranks)
            .into_iter()
            .enumerate()
            .map(|(axis, count)| count.min(grid.extent(axis)))
            .collect();
        Ok(Directory { bins: Split::even(grid, counts)?, axes: grid.axes() })
    }

    /// Collective: tells the keepers of the bins what this rank owns, and checks that every cell is owned once.
    pub(super) fn register(
        &self,
        comm: &Communicator,
        domains: &[IndexBox],
        cost: &mut SetupCost,
    ) -> Result<Known, PatternError> {
        let mut messages: BTreeMap<usize, Vec<(Owner, IndexBox)>> = BTreeMap::new();
        for (number, domain) in domains.iter().enumerate().filter(|(_, domain)| !domain.is_empty()) {
            let owner = Owner { rank: comm.rank(), domain: number };
            for bin in self.overlapping(domain) {
                messages.entry(bin).or_default().push((owner, *domain));
            }
        }
        let messages: Vec<_> = messages.into_iter().collect();
        let known =
            exchange_lists(comm, &messages, cost)?.into_iter().flat_map(|(_, domains)| domains).collect();
        let complaint = self.bins.part(comm.rank()).and_then(|bin| complaint(&bin, &known));
        agree_on_findings(comm, complaint)?;
        Ok(Known { domains: known })
    }

    /// Collective: finds the owners of the wanted cells. The result is ordered by owner, and for one owner as
    /// wanted.
    pub(super) fn look_up(
        &self,
        comm: &Communicator,
        known: &Known,
        wanted: &[Wanted],
        cost: &mut SetupCost,
    ) -> Result<BTreeMap<usize, Vec<Piece>>, PatternError> {
        let mut questions: BTreeMap<usize, Vec<(usize, IndexBox)>> = BTreeMap::new();
        for (number, want) in wanted.iter().enumerate() {
            for bin in self.overlapping(&want.source()) {
                questions.entry(bin).or_default().push((number, want.source()));
            }
        }
        let questions: Vec<_> = questions.into_iter().collect();
        let answers: Vec<(usize, Vec<Answer>)> = exchange_lists(comm, &questions, cost)?
            .into_iter()
            .map(|(asker, questions)| {
                let found = questions.iter().flat_map(|(number, source)| {
                    let overlapping =
                        known.domains.iter().filter(|(_, domain)| domain.intersection(source).is_some());
                    overlapping.map(|(owner, domain)| (*number, *owner, *domain))
                });
                (asker, found.collect())
            })
            .collect();
        let mut found: Vec<Answer> =
            exchange_lists(comm, &answers, cost)?.into_iter().flat_map(|(_, found)| found).collect();
        // A domain that overlaps several bins is reported by each of them.
        found.sort_by_key(|(number, owner, domain)| (*number, domain.lower().to_vec(), *owner));
        found.dedup();
        let mut pieces: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
        for (number, owner, domain) in found {
            let want = wanted[number];
            let Some(source) = domain.intersection(&want.source()) else { continue };
            pieces.entry(owner.rank).or_default().push(Piece {
                source_domain: owner.domain,
                source: Cells::Box(source),
                target_domain: want.domain,
                target: Cells::Box(want.placement.target(&source)),
                orientation: want.placement.orientation,
            });
        }
        Ok(pieces)
    }

    /// The bins that hold cells of `cells`.
    fn overlapping(&self, cells: &IndexBox) -> Vec<usize> {
        let mut positions = vec![Vec::new()];
        for axis in 0..self.axes {
            let (lower, upper) = (cells.lower()[axis], cells.upper()[axis]);
            positions = positions
                .into_iter()
                .flat_map(|position: Vec<usize>| {
                    self.bins.overlapping(axis, lower, upper).map(move |at| {
                        let mut longer = position.clone();
                        longer.push(at);
                        longer
                    })
                })
                .collect();
        }
        positions.iter().map(|position| self.bins.number(position)).collect()
    }
}

/// Collective: a sparse exchange of lists, which counts the messages and the entries of what is sent and received.
pub(super) fn exchange_lists<T: Serialize + DeserializeOwned>(
    comm: &Communicator,
    messages: &[(usize, Vec<T>)],
    cost: &mut SetupCost,
) -> Result<Vec<(usize, Vec<T>)>, TransportError> {
    let entries = |lists: &[(usize, Vec<T>)]| lists.iter().map(|(_, list)| list.len()).sum();
    cost.messages += messages.iter().filter(|(peer, _)| *peer != comm.rank()).count();
    cost.hold(entries(messages));
    let received = comm.sparse_exchange(messages)?;
    cost.hold(entries(&received));
    Ok(received)
}

/// What is wrong in a bin: two domains that overlap, or a cell that nobody owns.
fn complaint(bin: &IndexBox, known: &Vec<(Owner, IndexBox)>) -> Option<String> {
    let name = |owner: &Owner| format!("domain {} of rank {}", owner.domain, owner.rank);
    let mut sorted: Vec<_> = known.iter().collect();
    sorted.sort_by_key(|(_, domain)| domain.lower()[0]);
    for (position, (owner, domain)) in sorted.iter().enumerate() {
        let later =
            sorted[position + 1..].iter().take_while(|(_, other)| other.lower()[0] < domain.upper()[0]);
        for (other_owner, other) in later {
            if let Some(both) = domain.intersection(other) {
                return Some(format!(
                    "the domains overlap: {} ({domain}) and {} ({other}) both own {both}",
                    name(owner),
                    name(other_owner)
                ));
            }
        }
    }
    let owned: u128 =
        known.iter().filter_map(|(_, domain)| domain.intersection(bin)).map(|part| part.cells()).sum();
    if owned == bin.cells() {
        return None;
    }
    let mut free = vec![*bin];
    for (_, domain) in known {
        free = free.iter().flat_map(|part| part.minus(domain)).collect();
    }
    free.first().map(|gap| format!("the domains leave a gap: nobody owns {gap}"))
}
