//! The owners of ids: a directory that is distributed over the ranks.
//!
//! Each id has a keeper, a rank that the hash of the id selects. Short runs of consecutive ids have the same keeper: a
//! rank mostly owns such runs, and so registers with fewer keepers. In one request, a rank registers its owned ids with
//! a keeper and asks for the ids of its halos; the answers come in the order of the questions. So the memory and the
//! messages of a rank grow only with its own cells. The keeper of an id detects that two ranks own it, or none.

use bytemuck::{Pod, Zeroable};
use rustc_hash::FxHashMap;

use super::SetupCost;
use super::locations::{Location, Locations, mixed};
use crate::comm::Communicator;
use crate::domain::IndexSet;
use crate::transport::TransportError;

/// The locations of the wanted cells, and the text of an error in the owned ones.
pub(super) type Found = (Vec<Location>, Option<String>);

/// An owned cell in a request.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    id: i64,
    domain: u32,
    index: u32,
}

/// The minimum number of runs of each keeper, if it has at least as many ids: enough to balance keepers in spite of
/// chance.
const RUNS: u64 = 256;

/// The mapping from ids to keepers.
#[derive(Debug, Clone, Copy)]
struct Keepers {
    ranks: usize,
    /// The number of low bits of an id that number it within its run.
    within: u32,
}

impl Keepers {
    fn new(ranks: usize, owned_by_all: u64) -> Keepers {
        Keepers { ranks, within: (owned_by_all / ranks as u64 / RUNS).checked_ilog2().unwrap_or(0) }
    }

    /// The keeper of an id. Runs are distributed evenly for any numbering.
    fn of(self, id: i64) -> usize {
        ((u128::from(mixed(id >> self.within)) * self.ranks as u128) >> 64) as usize
    }
}

/// Collective: finds the locations of the ids `wanted`, which are not negative, in their order, among the
/// `owned_by_all` ids that all ranks own together.
pub(super) fn look_up(
    comm: &Communicator,
    domains: &[IndexSet],
    wanted: &[i64],
    owned_by_all: u64,
    cost: &mut SetupCost,
) -> Result<Found, TransportError> {
    let keepers = Keepers::new(comm.size(), owned_by_all);
    let (answers, keepers, complaint) = register(comm, domains, wanted, keepers, cost)?;
    // For each keeper, its answers in the order of the questions.
    let mut locations: FxHashMap<usize, std::vec::IntoIter<Location>> = FxHashMap::default();
    for (keeper, answers) in exchange_tables::<Location>(comm, answers, cost)? {
        locations.insert(keeper, answers.into_iter());
    }
    let location = |keeper: &usize| {
        let next = locations.get_mut(keeper).and_then(Iterator::next);
        next.ok_or(TransportError::Malformed { sender: *keeper, why: "it left out an answer".into() })
    };
    Ok((keepers.iter().map(location).collect::<Result<_, _>>()?, complaint))
}

/// The answers of this rank to each asker, the keeper of each wanted id, and the text of an error in the ids of which
/// this rank is the keeper.
type Registered = (Vec<(usize, Vec<Location>)>, Vec<usize>, Option<String>);

/// Sends requests to the keepers, and answers the questions to this rank as a keeper.
fn register(
    comm: &Communicator,
    domains: &[IndexSet],
    wanted: &[i64],
    keepers: Keepers,
    cost: &mut SetupCost,
) -> Result<Registered, TransportError> {
    let (me, size) = (comm.rank(), comm.size());
    let keeper_of = |id| keepers.of(id);
    let owned = owned_ids(domains);
    let keepers: Vec<usize> = wanted.iter().map(|&id| keeper_of(id)).collect();
    // A rank needs no request to itself. The largest lists are allocated first: fresh memory costs more than all the
    // rest.
    let mut locations = Locations::with_capacity(with_slack(owned));
    let mut requests: FxHashMap<usize, Request> = FxHashMap::default();
    let expected = with_slack(owned / size);
    for (domain, set) in domains.iter().enumerate() {
        let domain = domain as u32;
        for (index, id) in set.cells(true) {
            match keeper_of(id) {
                keeper if keeper == me => locations.add(id, Location { rank: me as u32, domain, index }),
                keeper => requests.entry(keeper).or_insert_with(|| Request::new(expected)).register(Entry {
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
            requests.entry(keeper).or_insert_with(|| Request::new(0)).questions.push(id);
        }
    }
    cost.messages += requests.len();
    let requests = requests.into_iter().map(|(keeper, request)| (keeper, request.into_bytes())).collect();
    let mut asked = vec![(me, own_questions)];
    for (sender, request) in comm.sparse_exchange_bytes(requests)? {
        let (entries, questions) = Request::parts(&request).ok_or_else(|| TransportError::Malformed {
            sender,
            why: "its list of ids is cut short".into(),
        })?;
        for entry in entries {
            locations
                .add(entry.id, Location { rank: sender as u32, domain: entry.domain, index: entry.index });
        }
        asked.push((sender, questions.collect()));
    }
    asked.retain(|(_, questions)| !questions.is_empty());
    cost.count_table(locations.len());
    cost.count_table(asked.iter().map(|(_, questions)| questions.len()).sum());
    let location = |id: &i64| locations.find(*id).unwrap_or(Location::NONE);
    let answers =
        asked.iter().map(|(asker, questions)| (*asker, questions.iter().map(location).collect())).collect();
    Ok((answers, keepers, locations.complaint()))
}

/// Collective: a sparse exchange of plain values. Adds the messages to `cost`.
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

/// A request to a keeper. As bytes: the number of entries, the owned cells, and the wanted ids.
struct Request {
    bytes: Vec<u8>,
    questions: Vec<i64>,
}

impl Request {
    /// An empty request with room for `entries` entries.
    fn new(entries: usize) -> Request {
        let mut bytes = Vec::with_capacity(size_of::<u64>() + entries * size_of::<Entry>());
        bytes.extend_from_slice(&[0; size_of::<u64>()]);
        Request { bytes, questions: Vec::new() }
    }

    fn register(&mut self, entry: Entry) {
        self.bytes.extend_from_slice(bytemuck::bytes_of(&entry));
    }

    fn into_bytes(mut self) -> Vec<u8> {
        let entries = (self.bytes.len() - size_of::<u64>()) / size_of::<Entry>();
        self.bytes[..size_of::<u64>()].copy_from_slice(&(entries as u64).to_ne_bytes());
        self.bytes.extend_from_slice(bytemuck::cast_slice(&self.questions));
        self.bytes
    }

    /// The entries and the questions of a request; `None` if some are missing.
    fn parts(bytes: &[u8]) -> Option<(impl Iterator<Item = Entry>, impl Iterator<Item = i64>)> {
        let (count, rest) = bytes.split_first_chunk()?;
        let entries = usize::try_from(u64::from_ne_bytes(*count)).ok()?.checked_mul(size_of::<Entry>())?;
        let (entries, questions) = rest.split_at_checked(entries)?;
        let whole = questions.len().is_multiple_of(size_of::<i64>());
        whole.then(|| (values_of(entries), values_of(questions)))
    }
}

/// The capacity for about `entries` entries, whose number varies by chance.
fn with_slack(entries: usize) -> usize {
    entries + entries / 8 + 16
}

/// Bytes, at any alignment, as values.
fn values_of<T: Pod>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)
}

/// The number of ids that the domains own.
pub(super) fn owned_ids(domains: &[IndexSet]) -> usize {
    domains.iter().map(|set| set.cells(true).count()).sum()
}
