//! The owners of the cells of a grid: a directory of boxes that is distributed over the ranks.
//!
//! The grid is cut into equal bins of about the shape of a domain, at most one for each rank. Rank `b` is the keeper of
//! bin `b`: it stores the domains that overlap the bin, with their owners, and detects gaps and overlaps in it. A rank
//! registers its domains with the bins that they overlap, and asks the bins that overlap the cells that it wants:
//! its halos, or its domains in another pattern. So the memory and the messages of a rank grow only with its own cells and
//! neighbours. With bins of another shape, the number of domains that overlap a bin would grow with the number of ranks.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::halo_boxes::WantedBox;
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

/// A domain and the rank that owns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Owner {
    rank: usize,
    domain: usize,
}

/// The number of a wanted box, and a domain that owns cells of it.
type Answer = (usize, Owner, IndexBox);

/// The domains that overlap the bin of this rank.
#[derive(Debug)]
pub(super) struct Bin {
    domains: Vec<(Owner, IndexBox)>,
}

impl Directory {
    /// Collective: agrees on the bins.
    pub(super) fn new(
        comm: &Communicator,
        grid: &Grid,
        domains: &[IndexBox],
    ) -> Result<Directory, PatternError> {
        // The number of all domains, and the sums of their extents: at most the number of cells, if no domains overlap.
        let mut sums = vec![0; 1 + grid.axes()];
        for domain in domains.iter().filter(|domain| !domain.is_empty()) {
            sums[0] += 1;
            for (axis, sum) in sums[1..].iter_mut().enumerate() {
                // Overlapping domains, which `register` refuses, may have any sum.
                *sum = u64::saturating_add(*sum, domain.extent(axis) as u64);
            }
        }
        comm.all_reduce(&mut sums, Reduction::Sum)?;
        let counts = bins_per_axis(grid, comm.size(), sums[0], &sums[1..]);
        Ok(Directory { bins: Split::even(grid, counts)?, axes: grid.axes() })
    }

    /// Collective: registers the domains of this rank with the bins, and checks that each cell is owned once.
    pub(super) fn register(
        &self,
        comm: &Communicator,
        domains: &[IndexBox],
        cost: &mut SetupCost,
    ) -> Result<Bin, PatternError> {
        let mut messages: BTreeMap<usize, Vec<(Owner, IndexBox)>> = BTreeMap::new();
        for (number, domain) in domains.iter().enumerate().filter(|(_, domain)| !domain.is_empty()) {
            let owner = Owner { rank: comm.rank(), domain: number };
            for bin in self.overlapping(domain) {
                messages.entry(bin).or_default().push((owner, *domain));
            }
        }
        let messages: Vec<_> = messages.into_iter().collect();
        let domains =
            exchange_lists(comm, &messages, cost)?.into_iter().flat_map(|(_, domains)| domains).collect();
        let complaint = self.bins.part(comm.rank()).and_then(|bin| complaint(&bin, &domains));
        agree_on_findings(comm, complaint)?;
        Ok(Bin { domains })
    }

    /// Collective: finds the owners of the cells that are `wanted`. The result is ordered by owner, and for one owner in
    /// the order of `wanted`.
    pub(super) fn look_up(
        &self,
        comm: &Communicator,
        bin: &Bin,
        wanted: &[WantedBox],
        cost: &mut SetupCost,
    ) -> Result<BTreeMap<usize, Vec<Piece>>, PatternError> {
        let mut questions: BTreeMap<usize, Vec<(usize, IndexBox)>> = BTreeMap::new();
        for (number, part) in wanted.iter().enumerate() {
            for bin in self.overlapping(&part.source()) {
                questions.entry(bin).or_default().push((number, part.source()));
            }
        }
        let questions: Vec<_> = questions.into_iter().collect();
        let answers: Vec<(usize, Vec<Answer>)> = exchange_lists(comm, &questions, cost)?
            .into_iter()
            .map(|(asker, questions)| {
                let found = questions.iter().flat_map(|(number, source)| {
                    let overlapping =
                        bin.domains.iter().filter(|(_, domain)| domain.intersection(source).is_some());
                    overlapping.map(|(owner, domain)| (*number, *owner, *domain))
                });
                (asker, found.collect())
            })
            .collect();
        let mut found: Vec<Answer> =
            exchange_lists(comm, &answers, cost)?.into_iter().flat_map(|(_, found)| found).collect();
        // Each bin that a domain overlaps reports it.
        found.sort_by_key(|(number, owner, domain)| (*number, domain.lower().to_vec(), *owner));
        found.dedup();
        let mut pieces: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
        for (number, owner, domain) in found {
            let Some(part) = wanted.get(number) else {
                let why = format!("it answered question {number} of {}", wanted.len());
                return Err(TransportError::Malformed { sender: owner.rank, why }.into());
            };
            let Some(source) = domain.intersection(&part.source()) else { continue };
            pieces.entry(owner.rank).or_default().push(Piece {
                source_domain: owner.domain,
                source: Cells::Box(source),
                target_domain: part.domain,
                target: Cells::Box(part.numbering.target(&source)),
                orientation: part.numbering.orientation,
            });
        }
        Ok(pieces)
    }

    /// The numbers of the bins that overlap `cells`.
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

/// The number of bins along each axis, for `domains` domains whose extents have these sums. The total is at most the
/// number of domains and the number of ranks, and at least half the smaller of the two.
fn bins_per_axis(grid: &Grid, ranks: usize, domains: u64, sums: &[u64]) -> Vec<usize> {
    let most = (ranks as u128).min(u128::from(domains)).max(1);
    let extent = |axis: usize| grid.extent(axis) as u128;
    // The number of domains of mean extent that fit.
    let mut counts: Vec<u128> = (0..grid.axes())
        .map(|axis| {
            let sum = u128::from(sums[axis]);
            let fit = (extent(axis) * u128::from(domains) + sum / 2).checked_div(sum).unwrap_or(1);
            fit.clamp(1, extent(axis).min(most))
        })
        .collect();
    // If there are more domains than ranks, a bin contains several domains.
    while counts.iter().product::<u128>() > most {
        let Some(count) = counts.iter_mut().max() else { break };
        *count = count.div_ceil(2);
    }
    // If the shapes of domains differ much, few domains of mean extents fit.
    while 2 * counts.iter().product::<u128>() <= most {
        let can_grow = (0..counts.len()).filter(|&axis| 2 * counts[axis] <= extent(axis));
        // The axis with the longest bins, measured in mean domains.
        let length = |axis: &usize| extent(*axis) as f64 / (counts[*axis] as f64 * sums[*axis] as f64);
        let Some(longest) = can_grow.max_by(|a, b| length(a).total_cmp(&length(b))) else { break };
        counts[longest] *= 2;
    }
    counts.into_iter().map(|count| count as usize).collect()
}

/// Collective: a sparse exchange of lists. Adds the messages and the sizes of the lists to `cost`.
pub(super) fn exchange_lists<T: Serialize + DeserializeOwned>(
    comm: &Communicator,
    messages: &[(usize, Vec<T>)],
    cost: &mut SetupCost,
) -> Result<Vec<(usize, Vec<T>)>, TransportError> {
    let entries = |lists: &[(usize, Vec<T>)]| lists.iter().map(|(_, list)| list.len()).sum();
    cost.messages += messages.iter().filter(|(peer, _)| *peer != comm.rank()).count();
    cost.count_table(entries(messages));
    let received = comm.sparse_exchange(messages)?;
    cost.count_table(entries(&received));
    Ok(received)
}

/// The text of an error in a bin: two domains that overlap, or cells that no domain owns.
fn complaint(bin: &IndexBox, domains: &Vec<(Owner, IndexBox)>) -> Option<String> {
    let name = |owner: &Owner| format!("domain {} of rank {}", owner.domain, owner.rank);
    let mut sorted: Vec<_> = domains.iter().collect();
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
        domains.iter().filter_map(|(_, domain)| domain.intersection(bin)).map(|part| part.cells()).sum();
    if owned == bin.cells() {
        return None;
    }
    let mut free = vec![*bin];
    for (_, domain) in domains {
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
        // Eight bricks for each rank, and bricks for only some ranks.
        assert_eq!(bins_per_axis(&grid, 8, 64, &[64 * 16, 64 * 16, 64 * 16]), [2, 2, 2]);
        assert_eq!(bins_per_axis(&grid, 1000, 64, &[64 * 16, 64 * 16, 64 * 16]), [4, 4, 4]);
    }

    #[test]
    fn bins_are_about_as_many_as_ranks_whatever_the_domains() {
        let grid = Grid::new([100, 100]).unwrap();
        // Strips in both directions, one large domain among small ones, overlapping domains, and none.
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
