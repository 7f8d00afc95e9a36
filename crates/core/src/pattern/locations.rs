//! The locations of owned cells, by id.

use bytemuck::{Pod, Zeroable};
use hashbrown::HashTable;

/// The location of the owned copy of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Location {
    pub(super) rank: u32,
    pub(super) domain: u32,
    /// The local index within the domain.
    pub(super) index: u32,
}

impl Location {
    /// The location of a cell that no rank owns.
    pub(super) const NONE: Location = Location { rank: u32::MAX, domain: u32::MAX, index: u32::MAX };
}

/// A table of locations by id. Consecutive cells of one domain share the entry for their domain.
#[derive(Debug)]
pub(super) struct Locations {
    ids: Vec<i64>,
    indices: Vec<u32>,
    /// The first entry, the rank and the domain of each run of entries.
    runs: Vec<(u32, u32, u32)>,
    /// The numbers of the entries, by the hash of the id.
    entries: HashTable<u32>,
    duplicate: Option<String>,
}

impl Locations {
    /// An empty table with room for `cells` cells.
    pub(super) fn with_capacity(cells: usize) -> Locations {
        Locations {
            ids: Vec::with_capacity(cells),
            indices: Vec::with_capacity(cells),
            runs: Vec::new(),
            entries: HashTable::with_capacity(cells),
            duplicate: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds the location of an id. If the id has one already, records an error instead.
    pub(super) fn add(&mut self, id: i64, location: Location) {
        let entry = self.ids.len() as u32;
        let Locations { ids, entries, .. } = self;
        let found =
            entries.entry(hash(id), |&other| ids[other as usize] == id, |&other| hash(ids[other as usize]));
        match found {
            hashbrown::hash_table::Entry::Occupied(occupied) => {
                let other = *occupied.get();
                let mut both = [self.location(other), location];
                both.sort_by_key(|at| (at.rank, at.domain, at.index));
                let [one, two] = both.map(|at| format!("domain {} of rank {}", at.domain, at.rank));
                self.duplicate
                    .get_or_insert_with(|| format!("the id {id} is owned twice: by {one} and by {two}"));
                return;
            }
            hashbrown::hash_table::Entry::Vacant(vacant) => vacant.insert(entry),
        };
        if self
            .runs
            .last()
            .is_none_or(|&(_, rank, domain)| (rank, domain) != (location.rank, location.domain))
        {
            self.runs.push((entry, location.rank, location.domain));
        }
        self.ids.push(id);
        self.indices.push(location.index);
    }

    /// The location of the cell with this id.
    pub(super) fn find(&self, id: i64) -> Option<Location> {
        let entry = self.entries.find(hash(id), |&entry| self.ids[entry as usize] == id)?;
        Some(self.location(*entry))
    }

    /// The text of the error for the first id that was added twice.
    pub(super) fn complaint(self) -> Option<String> {
        self.duplicate
    }

    fn location(&self, entry: u32) -> Location {
        let run = self.runs.partition_point(|&(first, ..)| first <= entry).saturating_sub(1);
        let (_, rank, domain) = self.runs[run];
        Location { rank, domain, index: self.indices[entry as usize] }
    }
}

/// An id with its bits mixed: the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
pub(super) fn mixed(id: i64) -> u64 {
    let mut hash = id as u64;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

/// The upper bits select the keeper, so that all ids of one keeper share them: here they come last.
fn hash(id: i64) -> u64 {
    mixed(id).rotate_left(32)
}
