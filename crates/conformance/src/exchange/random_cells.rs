//! Random ids, owners, halos and lists of cells to fill.

use std::collections::HashSet;

use haloport_core::IndexSet;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

#[derive(Debug, Clone)]
pub(super) struct Domain {
    pub(super) ids: Vec<i64>,
    pub(super) owned: Vec<bool>,
    /// The owners of the halo cells, if they are named.
    owners: Option<Vec<usize>>,
}

impl Domain {
    pub(super) fn index_set(&self) -> IndexSet {
        let first = self.owned.iter().take_while(|owned| **owned).count();
        let set = if self.owned[first..].contains(&true) {
            IndexSet::in_order(self.ids.clone(), self.owned.clone())
        } else {
            IndexSet::new(&self.ids[..first], &self.ids[first..])
        };
        match &self.owners {
            Some(owners) => set.with_owners(owners.clone()),
            None => set,
        }
    }
}

/// Distinct ids, none negative, in an order in which neighbours belong together.
pub(super) fn random_ids(random: &mut StdRng, cells: usize) -> Vec<i64> {
    let count = cells as i64;
    match random.random_range(0..6) {
        0 => (0..count).collect(),
        1 => (0..count).map(|cell| (1 << 33) + cell).collect(),
        2 => (0..count).map(|cell| i64::MAX - cell).collect(),
        3 => (0..count).map(|cell| cell << 40).collect(),
        kind => {
            let bound = if kind == 4 { 1 << 62 } else { 4 * count + 1 };
            let mut ids = Vec::with_capacity(cells);
            let mut known = HashSet::new();
            while ids.len() < cells {
                let id = random.random_range(0..bound);
                if known.insert(id) {
                    ids.push(id);
                }
            }
            if random.random_bool(0.5) {
                ids.sort_unstable();
            }
            ids
        }
    }
}

/// The domain that owns each cell, and the rank of each domain. Domains have very different sizes, some own nothing;
/// ranks have several domains or none.
pub(super) fn deal(random: &mut StdRng, cells: usize, ranks: usize) -> (Vec<usize>, Vec<usize>) {
    let count = random.random_range(1..=2 * ranks);
    let rank = |number: usize, random: &mut StdRng| {
        if number < ranks && random.random_bool(0.8) { number } else { random.random_range(0..ranks) }
    };
    let rank_of = (0..count).map(|number| rank(number, random)).collect();
    let owner_of = if random.random_bool(0.3) {
        (0..cells).map(|_| random.random_range(0..count)).collect()
    } else {
        // Intervals, shorter at the beginning.
        let mut ends: Vec<usize> = (1..count)
            .map(|_| (random.random::<f64>().powi(2) * (cells + 1) as f64) as usize)
            .chain([cells])
            .collect();
        ends.sort_unstable();
        (0..cells).map(|cell| ends.partition_point(|&end| end <= cell)).collect()
    };
    (owner_of, rank_of)
}

pub(super) fn random_domains(
    random: &mut StdRng,
    ids: &[i64],
    owner_of: &[usize],
    rank_of: &[usize],
    ranks: usize,
) -> Vec<Vec<Domain>> {
    // All domains name owners, or some, or none.
    let named = [0.0, 0.0, 0.5, 1.0][random.random_range(0..4)];
    let scattered = random.random_bool(0.3);
    let reach = random.random_range(1..=4);
    let mut made = vec![Vec::new(); ranks];
    for (domain, &rank) in rank_of.iter().enumerate() {
        let owned: Vec<usize> = (0..ids.len()).filter(|&cell| owner_of[cell] == domain).collect();
        let mut cells: Vec<(usize, bool)> = owned.iter().map(|&cell| (cell, true)).collect();
        let halo = if ids.is_empty() || random.random_bool(0.1) {
            0
        } else {
            random.random_range(0..=1 + ids.len() / 2)
        };
        for _ in 0..halo {
            let cell = match owned.choose(random) {
                Some(&near) if !scattered => {
                    let last = ids.len() - 1;
                    let near = if random.random_bool(0.5) { owned[0] } else { near };
                    random.random_range(near.saturating_sub(reach)..=(near + reach).min(last))
                }
                _ => random.random_range(0..ids.len()),
            };
            // A domain's own cells are seldom in its halo; an id may be there several times.
            if owner_of[cell] != domain || random.random_bool(0.1) {
                cells.push((cell, false));
            }
        }
        match random.random_range(0..3) {
            0 => cells.shuffle(random),
            1 => {
                let run = random.random_range(1..=5);
                let mut runs: Vec<_> = cells.chunks(run).map(<[_]>::to_vec).collect();
                runs.shuffle(random);
                cells = runs.concat();
            }
            _ => {}
        }
        let owners = cells.iter().filter(|(_, owned)| !owned).map(|(cell, _)| rank_of[owner_of[*cell]]);
        made[rank].push(Domain {
            ids: cells.iter().map(|(cell, _)| ids[*cell]).collect(),
            owned: cells.iter().map(|(_, owned)| *owned).collect(),
            owners: random.random_bool(named).then(|| owners.collect()),
        });
    }
    made
}

/// A list of some ids of the halos, some of them twice, or an empty list; `None` for no list.
pub(super) fn random_list(random: &mut StdRng, domains: &[Domain]) -> Option<Vec<i64>> {
    if random.random_bool(0.2) {
        return None;
    }
    let share = random.random_range(0.0..1.0);
    let halo =
        domains.iter().flat_map(|domain| domain.ids.iter().zip(&domain.owned)).filter(|(_, owned)| !**owned);
    let mut list: Vec<i64> = halo.map(|(id, _)| *id).filter(|_| random.random_bool(share)).collect();
    list.shuffle(random);
    Some(list)
}
