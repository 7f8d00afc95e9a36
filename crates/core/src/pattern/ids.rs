//! Who owns which ids: a directory that is spread over the ranks.
//!
//! Every id has a keeper, a rank that its hash picks, for short runs of consecutive ids at once: a rank mostly owns such
//! runs, and has the fewer keepers to tell. A rank tells the keepers which ids it owns and asks them for
//! those of its halos in the same letter, and gets the answers in the order of its questions. So what a rank keeps
//! and sends grows with its own cells alone. The keeper of an id sees that two own it, or nobody does.

use bytemuck::{Pod, Zeroable};
use rustc_hash::FxHashMap;

use super::SetupCost;
use super::places::{Place, Places, mixed};
use crate::comm::Communicator;
use crate::domain::IndexSet;
use crate::transport::TransportError;

/// The places of the cells that were looked for, and what is wrong with the owned ones, in words.
pub(super) type Found = (Vec<Place>, Option<String>);

/// A cell with its domain, on its way to the keeper.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    id: i64,
    domain: u32,
    index: u32,
}

/// How many runs of ids each rank keeps at least, where it keeps as many ids: enough to even out what chance gives it.
const RUNS: u64 = 256;

/// Who keeps which id.
#[derive(Debug, Clone, Copy)]
struct Keepers {
    ranks: usize,
    /// The bits of an id that count within its run.
    within: u32,
}

impl Keepers {
    fn new(ranks: usize, owned_by_all: u64) -> Keepers {
        Keepers { ranks, within: (owned_by_all / ranks as u64 / RUNS).checked_ilog2().unwrap_or(0) }
    }

    /// The rank that keeps an id: runs are spread evenly, however ids are numbered.
    fn of(self, id: i64) -> usize {
        ((u128::from(mixed(id >> self.within)) * self.ranks as u128) >> 64) as usize
    }
}

/// Collective: finds the place of each of the ids `wanted`, which are not negative, in their order, among the
/// `owned_by_all` ids that all ranks own.
pub(super) fn look_up(
    comm: &Communicator,
    domains: &[IndexSet],
    wanted: &[i64],
    owned_by_all: u64,
    cost: &mut SetupCost,
) -> Result<Found, TransportError> {
    let keepers = Keepers::new(comm.size(), owned_by_all);
    let (answers, keepers, complaint) = register(comm, domains, wanted, keepers, cost)?;
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

/// The answers of this rank as a keeper for each asker, the keeper of each wanted id, and what is wrong with the ids
/// that this rank keeps.
type Asked = (Vec<(usize, Vec<Place>)>, Vec<usize>, Option<String>);

/// Tells and asks the keepers, and answers what this rank is asked as a keeper.
fn register(
    comm: &Communicator,
    domains: &[IndexSet],
    wanted: &[i64],
    keepers: Keepers,
    cost: &mut SetupCost,
) -> Result<Asked, TransportError> {
    let (me, size) = (comm.rank(), comm.size());
    let keeper_of = |id| keepers.of(id);
    let owned = owned_ids(domains);
    let keepers: Vec<usize> = wanted.iter().map(|&id| keeper_of(id)).collect();
    // What this rank keeps for itself needs no letter. The largest lists are the first to be made: memory that is new to the
    // process costs more than all the rest.
    let mut places = Places::with_capacity(with_slack(owned));
    let mut letters: FxHashMap<usize, Letter> = FxHashMap::default();
    let expected = with_slack(owned / size);
    for (domain, set) in domains.iter().enumerate() {
        let domain = domain as u32;
        for (index, id) in set.cells(true) {
            match keeper_of(id) {
                keeper if keeper == me => places.add(id, Place { rank: me as u32, domain, index }),
                keeper => letters.entry(keeper).or_insert_with(|| Letter::new(expected)).tell(Entry {
                    id,
                    domain,
                    index,
                }),
            }
        }
    }
    let mut own_questions = Vec::new();
    for (&keeper, &id) in keepers.iter().zip(wanted) {
        if keeper == me {
            own_questions.push(id);
        } else {
            letters.entry(keeper).or_insert_with(|| Letter::new(0)).questions.push(id);
        }
    }
    cost.messages += letters.len();
    let letters = letters.into_iter().map(|(keeper, letter)| (keeper, letter.seal())).collect();
    let mut asked = vec![(me, own_questions)];
    for (sender, letter) in comm.sparse_exchange_bytes(letters)? {
        let (entries, questions) = Letter::open(&letter).ok_or_else(|| TransportError::Malformed {
            sender,
            why: "its list of ids is cut short".into(),
        })?;
        for entry in entries {
            places.add(entry.id, Place { rank: sender as u32, domain: entry.domain, index: entry.index });
        }
        asked.push((sender, questions.collect()));
    }
    asked.retain(|(_, questions)| !questions.is_empty());
    cost.hold(places.len());
    cost.hold(asked.iter().map(|(_, questions)| questions.len()).sum());
    let place = |id: &i64| places.find(*id).unwrap_or(Place::NOWHERE);
    let answers =
        asked.iter().map(|(asker, questions)| (*asker, questions.iter().map(place).collect())).collect();
    Ok((answers, keepers, places.complaint()))
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
            if !bytes.len().is_multiple_of(size_of::<T>()) {
                let why = format!("{} bytes are no list of entries of {}", bytes.len(), size_of::<T>());
                return Err(TransportError::Malformed { sender, why });
            }
            Ok((sender, values_of(&bytes).collect()))
        })
        .collect()
}

/// What a rank tells and asks a keeper: as bytes, the number of entries, the entries, and the ids that are asked for.
struct Letter {
    bytes: Vec<u8>,
    questions: Vec<i64>,
}

impl Letter {
    /// With room for about as many entries as are said.
    fn new(entries: usize) -> Letter {
        let mut bytes = Vec::with_capacity(size_of::<u64>() + entries * size_of::<Entry>());
        bytes.extend_from_slice(&[0; size_of::<u64>()]);
        Letter { bytes, questions: Vec::new() }
    }

    fn tell(&mut self, entry: Entry) {
        self.bytes.extend_from_slice(bytemuck::bytes_of(&entry));
    }

    fn seal(mut self) -> Vec<u8> {
        let entries = (self.bytes.len() - size_of::<u64>()) / size_of::<Entry>();
        self.bytes[..size_of::<u64>()].copy_from_slice(&(entries as u64).to_ne_bytes());
        self.bytes.extend_from_slice(bytemuck::cast_slice(&self.questions));
        self.bytes
    }

    /// The entries and the questions; `None` where some are missing.
    fn open(bytes: &[u8]) -> Option<(impl Iterator<Item = Entry>, impl Iterator<Item = i64>)> {
        let (count, rest) = bytes.split_first_chunk()?;
        let entries = usize::try_from(u64::from_ne_bytes(*count)).ok()?.checked_mul(size_of::<Entry>())?;
        let (entries, questions) = rest.split_at_checked(entries)?;
        let whole = questions.len().is_multiple_of(size_of::<i64>());
        whole.then(|| (values_of(entries), values_of(questions)))
    }
}

/// Room for what chance may add to as many entries.
fn with_slack(entries: usize) -> usize {
    entries + entries / 8 + 16
}

/// Bytes as values, wherever they lie.
fn values_of<T: Pod>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)
}

/// How many ids the domains own.
pub(super) fn owned_ids(domains: &[IndexSet]) -> usize {
    domains.iter().map(|set| set.cells(true).count()).sum()
}
