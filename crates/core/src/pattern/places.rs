//! Where owned cells are, by id.

use bytemuck::{Pod, Zeroable};
use hashbrown::HashTable;

/// Where the owned copy of a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Place {
    pub(super) rank: u32,
    pub(super) domain: u32,
    /// The local index within the domain.
    pub(super) index: u32,
}

impl Place {
    /// Of a cell that nobody owns.
    pub(super) const NOWHERE: Place = Place { rank: u32::MAX, domain: u32::MAX, index: u32::MAX };
}

/// Places by id. Cells of one domain that are added one after the other share the entry that names it.
#[derive(Debug)]
pub(super) struct Places {
    ids: Vec<i64>,
    indices: Vec<u32>,
    /// The first entry, the rank and the domain of each run.
    runs: Vec<(u32, u32, u32)>,
    /// The numbers of the entries.
    slots: HashTable<u32>,
    twice: Option<String>,
}

impl Places {
    /// With room for as many cells as are said.
    pub(super) fn with_capacity(cells: usize) -> Places {
        Places {
            ids: Vec::with_capacity(cells),
            indices: Vec::with_capacity(cells),
            runs: Vec::new(),
            slots: HashTable::with_capacity(cells),
            twice: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds the place of an id, unless it has one; then there is a complaint.
    pub(super) fn add(&mut self, id: i64, place: Place) {
        let entry = self.ids.len() as u32;
        let Places { ids, slots, .. } = self;
        let slot =
            slots.entry(hash(id), |&other| ids[other as usize] == id, |&other| hash(ids[other as usize]));
        match slot {
            hashbrown::hash_table::Entry::Occupied(occupied) => {
                let other = *occupied.get();
                let mut both = [self.place(other), place];
                both.sort_by_key(|place| (place.rank, place.domain, place.index));
                let [one, two] = both.map(|place| format!("domain {} of rank {}", place.domain, place.rank));
                self.twice
                    .get_or_insert_with(|| format!("the id {id} is owned twice: by {one} and by {two}"));
                return;
            }
            hashbrown::hash_table::Entry::Vacant(vacant) => vacant.insert(entry),
        };
        if self.runs.last().is_none_or(|&(_, rank, domain)| (rank, domain) != (place.rank, place.domain)) {
            self.runs.push((entry, place.rank, place.domain));
        }
        self.ids.push(id);
        self.indices.push(place.index);
    }

    /// Where the cell with this id is.
    pub(super) fn find(&self, id: i64) -> Option<Place> {
        let entry = self.slots.find(hash(id), |&entry| self.ids[entry as usize] == id)?;
        Some(self.place(*entry))
    }

    /// The first id that was added twice, in words.
    pub(super) fn complaint(self) -> Option<String> {
        self.twice
    }

    fn place(&self, entry: u32) -> Place {
        let run = self.runs.partition_point(|&(first, ..)| first <= entry).saturating_sub(1);
        let (_, rank, domain) = self.runs[run];
        Place { rank, domain, index: self.indices[entry as usize] }
    }
}

/// An id with its bits mixed: the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
pub(super) fn mixed(id: i64) -> u64 {
    let mut hash = id as u64;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

/// The upper bits pick the keeper, so all ids of one keeper share them: they come last here.
fn hash(id: i64) -> u64 {
    mixed(id).rotate_left(32)
}
