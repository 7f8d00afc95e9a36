//! Who owns which ids: a directory that is spread over the ranks.
//!
//! Every id has a keeper, a rank that its hash picks. A rank tells the keepers which ids it owns and asks them for
//! those of its halos in the same message, and gets the answers in the order of its questions. So what a rank keeps
//! and sends grows with its own cells alone. The keeper of an id sees that two own it, or nobody does.

use bytemuck::{Pod, Zeroable};
use rustc_hash::FxHashMap;

use super::SetupCost;
use crate::domain::IndexSet;
use crate::transport::{Communicator, TransportError};

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

/// The places of the cells that were looked for, and what is wrong with the owned ones, in words.
pub(super) type Found = (Vec<Place>, Option<String>);

/// A cell with its owner, on its way to the keeper.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    id: i64,
    domain: u32,
    index: u32,
}

/// Places by id.
pub(super) type Table = FxHashMap<i64, Place>;

/// Collective: finds the place of each of the ids `wanted`, which are not negative, in their order.
pub(super) fn look_up(
    comm: &Communicator,
    domains: &[IndexSet],
    wanted: &[i64],
    cost: &mut SetupCost,
) -> Result<Found, TransportError> {
    let (answers, keepers, complaint) = register(comm, domains, wanted, cost)?;
    // In the order of the keepers, each one's answers in the order of the questions.
    let mut places: FxHashMap<usize, std::vec::IntoIter<Place>> = FxHashMap::default();
    for (keeper, answers) in exchange_tables::<Place>(comm, answers, cost)? {
        places.insert(keeper, answers.into_iter());
    }
    let place = |keeper: &usize| {
        let next = places.get_mut(keeper).and_then(Iterator::next);
        next.ok_or(TransportError::Malformed { sender: *keeper, why: "it left out an answer".into() })
    };
    Ok((keepers.iter().map(place).collect::<Result<_, _>>()?, complaint))
}

/// Tells and asks the keepers, and answers what this rank was asked as a keeper: the answers for each asker, the
/// keeper of each wanted id, and what is wrong with the ids that this rank keeps.
type Asked = (Vec<(usize, Vec<Place>)>, Vec<usize>, Option<String>);

fn register(
    comm: &Communicator,
    domains: &[IndexSet],
    wanted: &[i64],
    cost: &mut SetupCost,
) -> Result<Asked, TransportError> {
    let size = comm.size();
    let mut outgoing: FxHashMap<usize, Letter> = FxHashMap::default();
    for (domain, set) in domains.iter().enumerate() {
        for (index, id) in set.cells(true) {
            let entry = Entry { id, domain: domain as u32, index };
            outgoing.entry(keeper(id, size)).or_default().owned.push(entry);
        }
    }
    let keepers: Vec<usize> = wanted.iter().map(|&id| keeper(id, size)).collect();
    for (&keeper, &id) in keepers.iter().zip(wanted) {
        outgoing.entry(keeper).or_default().questions.push(id);
    }
    let letters = outgoing.into_iter().map(|(keeper, letter)| (keeper, letter.words())).collect();
    let received = exchange_tables::<u64>(comm, letters, cost)?;

    let mut table = Table::default();
    let mut found = None;
    let mut asked = Vec::new();
    for (sender, words) in &received {
        let letter = Letter::read(words).ok_or_else(|| TransportError::Malformed {
            sender: *sender,
            why: "its list of ids is cut short".into(),
        })?;
        table.reserve(letter.owned.len());
        for entry in letter.owned {
            let place = Place { rank: *sender as u32, domain: entry.domain, index: entry.index };
            found = found.or(insert(&mut table, entry.id, place));
        }
        if !letter.questions.is_empty() {
            asked.push((*sender, letter.questions));
        }
    }
    cost.hold(table.len());
    cost.hold(asked.iter().map(|(_, questions)| questions.len()).sum());
    let place = |id: &i64| table.get(id).copied().unwrap_or(Place::NOWHERE);
    let answers =
        asked.iter().map(|(asker, questions)| (*asker, questions.iter().map(place).collect())).collect();
    Ok((answers, keepers, found))
}

/// Notes the place of an id, and says so if it has one already.
pub(super) fn insert(table: &mut Table, id: i64, place: Place) -> Option<String> {
    let before = table.insert(id, place)?;
    let show = |place: &Place| format!("domain {} of rank {}", place.domain, place.rank);
    Some(format!("the id {id} is owned twice: by {} and by {}", show(&before), show(&place)))
}

/// Collective: a sparse exchange of plain values, which counts the messages.
pub(super) fn exchange_tables<T: Pod>(
    comm: &Communicator,
    messages: Vec<(usize, Vec<T>)>,
    cost: &mut SetupCost,
) -> Result<Vec<(usize, Vec<T>)>, TransportError> {
    cost.messages += messages.iter().filter(|(peer, _)| *peer != comm.rank()).count();
    let bytes = messages.into_iter().map(|(peer, values)| (peer, bytemuck::cast_slice(&values).to_vec()));
    let received = comm.sparse_exchange_bytes(bytes.collect())?;
    received
        .into_iter()
        .map(|(sender, bytes)| {
            if bytes.len() % size_of::<T>() != 0 {
                let why = format!("{} bytes are no list of entries of {}", bytes.len(), size_of::<T>());
                return Err(TransportError::Malformed { sender, why });
            }
            Ok((sender, bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()))
        })
        .collect()
}

impl SetupCost {
    /// Notes that a table of this many entries is held.
    pub(super) fn hold(&mut self, entries: usize) {
        self.largest_table = self.largest_table.max(entries);
    }
}

/// What a rank tells and asks a keeper.
#[derive(Debug, Default)]
struct Letter {
    owned: Vec<Entry>,
    questions: Vec<i64>,
}

impl Letter {
    fn words(&self) -> Vec<u64> {
        let mut words = Vec::with_capacity(1 + 2 * self.owned.len() + self.questions.len());
        words.push(self.owned.len() as u64);
        words.extend_from_slice(bytemuck::cast_slice(&self.owned));
        words.extend_from_slice(bytemuck::cast_slice(&self.questions));
        words
    }

    /// `None` where words are missing.
    fn read(words: &[u64]) -> Option<Letter> {
        let (&count, rest) = words.split_first()?;
        let end = usize::try_from(count).ok()?.checked_mul(2)?;
        let (owned, questions) = rest.split_at_checked(end)?;
        Some(Letter {
            owned: bytemuck::cast_slice(owned).to_vec(),
            questions: bytemuck::cast_slice(questions).to_vec(),
        })
    }
}

/// The rank that keeps an id: ids are spread evenly, however they are numbered.
fn keeper(id: i64, ranks: usize) -> usize {
    // The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    let mut hash = id as u64;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^= hash >> 31;
    ((u128::from(hash) * ranks as u128) >> 64) as usize
}
