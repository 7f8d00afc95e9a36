//! Who owns which cells of a grid: a directory of boxes that is spread over the ranks.
//!
//! The grid is cut into equal bins of about the shape of a domain, no more of them than ranks, and rank `b` keeps bin
//! `b`: the boxes that overlap it, with their owners. A rank registers its domains with the bins that they overlap and
//! asks the bins that its halos overlap, so what it keeps and sends grows with its own cells and neighbours alone: bins
//! of another shape would overlap the more domains the more ranks there are. The keeper of a bin sees gaps and overlaps
//! in it.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::regions::Wanted;
use super::{Cells, PatternError, Piece, SetupCost, agree_on_findings};
use crate::comm::Communicator;
use crate::domain::{Grid, IndexBox, Split};
use crate::transport::{Reduction, TransportError};

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
    /// Collective: agrees on the bins.
    pub(super) fn new(
        comm: &Communicator,
        grid: &Grid,
        domains: &[IndexBox],
    ) -> Result<Directory, PatternError> {
        // The number of all domains, and the sums of their extents: no more than the grid has cells, if none overlap.
        let mut sums = vec![0; 1 + grid.axes()];
        for domain in domains.iter().filter(|domain| !domain.is_empty()) {
            sums[0] += 1;
            for (axis, sum) in sums[1..].iter_mut().enumerate() {
                // Domains that overlap, which are refused later, may have any sum.
                *sum = u64::saturating_add(*sum, domain.extent(axis) as u64);
            }
        }
        comm.all_reduce(&mut sums, Reduction::Sum)?;
        let counts = bins_per_axis(grid, comm.size(), sums[0], &sums[1..]);
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
            let Some(want) = wanted.get(number) else {
                let why = format!("box {number} of {} is answered", wanted.len());
                return Err(TransportError::Malformed { sender: owner.rank, why }.into());
            };
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

/// The number of bins along each axis, for `domains` domains whose extents have these sums: together at least half as many
/// bins as there are domains or ranks, whichever are fewer, and no more than either.
fn bins_per_axis(grid: &Grid, ranks: usize, domains: u64, sums: &[u64]) -> Vec<usize> {
    let most = (ranks as u128).min(u128::from(domains)).max(1);
    let extent = |axis: usize| grid.extent(axis) as u128;
    // As many as mean domains fit.
    let mut counts: Vec<u128> = (0..grid.axes())
        .map(|axis| {
            let sum = u128::from(sums[axis]);
            let fit = (extent(axis) * u128::from(domains) + sum / 2).checked_div(sum).unwrap_or(1);
            fit.clamp(1, extent(axis).min(most))
        })
        .collect();
    // A bin holds several domains where there are more of them than ranks.
    while counts.iter().product::<u128>() > most {
        let Some(count) = counts.iter_mut().max() else { break };
        *count = count.div_ceil(2);
    }
    // Domains of very different shapes have a mean one of which few fit.
    while 2 * counts.iter().product::<u128>() <= most {
        let can_grow = (0..counts.len()).filter(|&axis| 2 * counts[axis] <= extent(axis));
        // The axis with the longest bins, measured in mean domains.
        let length = |axis: &usize| extent(*axis) as f64 / (counts[*axis] as f64 * sums[*axis] as f64);
        let Some(longest) = can_grow.max_by(|a, b| length(a).total_cmp(&length(b))) else { break };
        counts[longest] *= 2;
    }
    counts.into_iter().map(|count| count as usize).collect()
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn bins_have_the_shape_of_domains() {
        let grid = Grid::new([64, 64, 64]).unwrap();
        // Bricks, columns and slabs, one for each rank.
        assert_eq!(bins_per_axis(&grid, 64, 64, &[64 * 16, 64 * 16, 64 * 16]), [4, 4, 4]);
        assert_eq!(bins_per_axis(&grid, 64, 64, &[64 * 64, 64 * 8, 64 * 8]), [1, 8, 8]);
        assert_eq!(bins_per_axis(&grid, 64, 64, &[64, 64 * 64, 64 * 64]), [64, 1, 1]);
        // Eight bricks for each rank, and bricks for some ranks alone.
        assert_eq!(bins_per_axis(&grid, 8, 64, &[64 * 16, 64 * 16, 64 * 16]), [2, 2, 2]);
        assert_eq!(bins_per_axis(&grid, 1000, 64, &[64 * 16, 64 * 16, 64 * 16]), [4, 4, 4]);
    }

    #[test]
    fn bins_are_about_as_many_as_ranks_whatever_the_domains() {
        let grid = Grid::new([100, 100]).unwrap();
        // Strips of both directions, one large domain among specks, domains that overlap, and none.
        for (domains, sums) in
            [(200, [10_100, 10_100]), (1000, [1100, 1100]), (1 << 40, [u64::MAX, 1]), (0, [0, 0])]
        {
            for ranks in [1, 2, 7, 200, 100_000] {
                let counts = bins_per_axis(&grid, ranks, domains, &sums);
                let (bins, most) = (counts[0] * counts[1], ranks.min(domains as usize).clamp(1, 10_000));
                assert!(bins <= most && 4 * bins >= most, "{counts:?} for {domains} domains, {ranks} ranks");
                assert!(counts.iter().all(|count| (1..=100).contains(count)), "{counts:?}");
            }
        }
    }
}
