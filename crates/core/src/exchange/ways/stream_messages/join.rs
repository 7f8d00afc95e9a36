//! The groups of ranks whose streams send each other messages, one for each device of an exchange.
//!
//! Joining is collective and slow, so that the exchanges of a communicator share a group, which the communicator keeps.
//! A group connects its ranks when they join. If a later exchange has other neighbours, or a rank has aborted the group,
//! all ranks join another one.
//!
//! Without [`DataPath::StreamMessages`], ranks that once could not form a group do not try again: the attempt may have
//! taken as long as the time limit.

use std::sync::Arc;
use std::time::Duration;

use super::AnyGroup;
use crate::comm::Communicator;
use crate::device::{StreamGroup, StreamMessagesOffer};
use crate::exchange::options::{BindError, DataPath};
use crate::exchange::ways::PartFields;
use crate::pattern::Pattern;
use crate::transport::{Reach, Reduction, TransportError};

/// Maximum time for joining groups that the option `path` does not ask for, and for agreeing on the outcome; the time
/// limit, if that is shorter. Half of it is for joining, shared by the groups.
const JOIN_LIMIT: Duration = Duration::from_secs(120);

/// What a communicator keeps for a device.
struct Kept {
    /// The number of the attempt to form the group, the same on all ranks; never 0.
    number: u32,
    /// The ranks that this one is connected to.
    peers: Vec<usize>,
    /// `None` if the attempt has failed.
    group: Option<Arc<dyn AnyGroup>>,
}

/// The groups of an exchange.
#[derive(Clone, Default)]
pub(crate) struct StreamGroups {
    /// One for each part; `None` if its messages go by the transport.
    pub(crate) of_parts: Vec<Option<Arc<dyn AnyGroup>>>,
    /// Whether fields go to every neighbour by streams, not only to those on other nodes.
    pub(crate) to_all: bool,
}

impl StreamGroups {
    /// The path on which the fields of a part come from `peer`, given the one that is asked for.
    pub(crate) fn path_from(&self, part: usize, pattern: &Pattern, peer: usize, asked: DataPath) -> DataPath {
        let has_group = self.of_parts.get(part).is_some_and(Option::is_some);
        match asked {
            _ if has_group && (self.to_all || is_far(pattern, peer)) => DataPath::StreamMessages,
            DataPath::StreamMessages => DataPath::Messages,
            asked => asked,
        }
    }
}

impl PartFields {
    /// Whether this rank would have its streams exchange messages with `pattern`'s neighbours.
    ///
    /// By the model they do so between nodes, if the transport cannot reach the memory of the device: then a message
    /// crosses the bus into memory of the host and back, and waits for the host at either end. A transport that reaches
    /// the memory does so by itself. Nothing was measured.
    pub(crate) fn wants_stream_messages(&self, pattern: &Pattern, path: DataPath) -> bool {
        match path {
            // Such messages are unpacked, not combined.
            _ if pattern.reversal().is_some() => false,
            DataPath::StreamMessages => peers(pattern).next().is_some(),
            DataPath::Quickest => {
                self.device.has_stream_messages()
                    && self.is_staged(pattern)
                    && peers(pattern).any(|peer| is_far(pattern, peer))
            }
            DataPath::Direct | DataPath::Shared | DataPath::Messages => false,
        }
    }
}

/// Collective: the groups of an exchange. `wanted` tells for each part whether any rank wants one.
///
/// # Errors
/// [`BindError::Refused`] with the reason if the path is [`DataPath::StreamMessages`] and a group cannot be formed.
pub(crate) fn join_groups(
    pattern: &Pattern,
    parts: &[PartFields],
    path: DataPath,
    wanted: &[bool],
) -> Result<StreamGroups, BindError> {
    let to_all = path == DataPath::StreamMessages;
    let mut groups = StreamGroups { of_parts: vec![None; parts.len()], to_all };
    let wanted: Vec<usize> = (0..parts.len()).filter(|&part| wanted.get(part) == Some(&true)).collect();
    if wanted.is_empty() {
        return Ok(groups);
    }
    let comm = pattern.comm();
    let mut attempts = Vec::new();
    for (part, common) in wanted.iter().zip(common_groups(pattern, parts, &wanted)?) {
        match common {
            Some(kept) if kept.connects && (kept.kept.group.is_some() || !to_all) => {
                groups.of_parts[*part].clone_from(&kept.kept.group);
            }
            common => attempts.push(Attempt::new(pattern, *part, common.map(|common| common.kept))),
        }
    }
    if attempts.is_empty() {
        return Ok(groups);
    }
    match join(comm, parts, &attempts, to_all)? {
        Ok(joined) => {
            for (Attempt { part, peers }, (number, group)) in attempts.into_iter().zip(joined) {
                groups.of_parts[part] = Some(Arc::clone(&group));
                keep(comm, &parts[part], Kept { number, peers, group: Some(group) });
            }
        }
        Err(why) if to_all => {
            let text =
                format!("fields cannot go in messages of streams, which the option `path` asks for: {why}");
            return Err(BindError::Refused(text));
        }
        Err(why) => {
            tracing::info!("messages between nodes go by the transport, not by streams: {why}");
            for Attempt { part, peers } in attempts {
                keep(comm, &parts[part], Kept { number: comm.next_number(), peers, group: None });
            }
        }
    }
    Ok(groups)
}

/// A group that all ranks keep for a part.
struct Common {
    kept: Arc<Kept>,
    /// Whether it connects all neighbours on all ranks; also true if the ranks have failed to form it.
    connects: bool,
}

/// Collective: the groups that all ranks keep for these parts, if they keep the same.
fn common_groups(
    pattern: &Pattern,
    parts: &[PartFields],
    wanted: &[usize],
) -> Result<Vec<Option<Common>>, TransportError> {
    let comm = pattern.comm();
    let kept = wanted.iter().map(|&part| {
        let kept = comm.kept().get::<Kept>(parts[part].device.info().id);
        kept.filter(|kept| !kept.group.as_ref().is_some_and(|group| group.is_aborted()))
    });
    let kept: Vec<Option<Arc<Kept>>> = kept.collect();
    let words = kept.iter().map(|kept| {
        let number = kept.as_ref().map_or(0, |kept| u64::from(kept.number));
        let connects = |kept: &Arc<Kept>| {
            kept.group.is_none() || peers(pattern).all(|peer| kept.peers.binary_search(&peer).is_ok())
        };
        [number, !number, u64::from(!kept.as_ref().is_some_and(connects))]
    });
    let mut words: Vec<u64> = words.flatten().collect();
    comm.all_reduce(&mut words, Reduction::Max)?;
    let agreed = kept.into_iter().zip(words.as_chunks().0).map(|(kept, &[largest, smallest, lacks])| {
        let is_same = largest == !smallest;
        Some(Common { kept: kept.filter(|_| is_same)?, connects: lacks == 0 })
    });
    Ok(agreed.collect())
}

/// A group that is to be formed.
struct Attempt {
    part: usize,
    /// Ascending.
    peers: Vec<usize>,
}

impl Attempt {
    /// Connects the neighbours of `pattern`, and those that were connected before.
    fn new(pattern: &Pattern, part: usize, before: Option<Arc<Kept>>) -> Attempt {
        let mut all: Vec<usize> = before.iter().flat_map(|kept| kept.peers.iter().copied()).collect();
        all.extend(peers(pattern));
        all.sort_unstable();
        all.dedup();
        Attempt { part, peers: all }
    }
}

/// The groups that were joined, each with its number, or why not.
type Joined = Result<Vec<(u32, Arc<dyn AnyGroup>)>, String>;

/// Collective: forms all groups, or none.
fn join(
    comm: &Communicator,
    parts: &[PartFields],
    attempts: &[Attempt],
    to_all: bool,
) -> Result<Joined, TransportError> {
    let tokens = match tokens(comm, parts, attempts)? {
        Ok(tokens) => tokens,
        Err(why) => return Ok(Err(why)),
    };
    let limit = comm.time_limit().unwrap_or(Duration::MAX);
    // Afterwards all ranks agree, within the limit, also with a rank that has failed at once.
    let time_limit =
        (if to_all { limit } else { limit.min(JOIN_LIMIT) }) / (2 * attempts.len().max(1)) as u32;
    let mut joined: Vec<(u32, Arc<dyn AnyGroup>)> = Vec::with_capacity(attempts.len());
    let mut failed = None;
    for (Attempt { part, peers }, token) in attempts.iter().zip(&tokens) {
        let number = comm.next_number();
        // If this rank fails to join, the others wait for it until their time limit.
        let group = StreamGroup { token, rank: comm.rank(), ranks: comm.size(), peers, time_limit };
        match parts[*part].device.join_stream_messages(&group) {
            Ok(group) => joined.push((number, group)),
            Err(error) => failed = failed.or(Some(error.to_string())),
        }
    }
    let agreed = comm.agree(failed);
    if !matches!(agreed, Ok(Ok(()))) {
        joined.iter().for_each(|(_, group)| group.abort());
    }
    Ok(agreed?.map(|()| joined))
}

/// Collective: the token of each group, or why ranks cannot form one of them.
fn tokens(
    comm: &Communicator,
    parts: &[PartFields],
    attempts: &[Attempt],
) -> Result<Result<Vec<Vec<u8>>, String>, TransportError> {
    type Offers = Vec<Result<StreamMessagesOffer, String>>;

    let devices = || attempts.iter().map(|attempt| &parts[attempt.part].device);
    let mine: Offers =
        devices().map(|device| device.offer_stream_messages().map_err(|error| error.to_string())).collect();
    let all = comm.gather(0, &mine)?;
    let decide = |all: Vec<Offers>| -> Result<Vec<Vec<u8>>, String> {
        let mut by_rank: Vec<_> = all.into_iter().map(Vec::into_iter).collect();
        let tokens = devices().map(|device| {
            let next = |(rank, offers): (usize, &mut std::vec::IntoIter<_>)| match offers.next() {
                Some(Ok(offer)) => Ok(offer),
                Some(Err(error)) => Err(format!("rank {rank}: {error}")),
                None => Err(format!("rank {rank} has made too few offers")),
            };
            let offers = by_rank.iter_mut().enumerate().map(next).collect::<Result<Vec<_>, String>>()?;
            match StreamMessagesOffer::reason_against_group(&offers) {
                Some(why) => Err(why),
                None => device.stream_messages_token().map_err(|error| format!("rank 0: {error}")),
            }
        });
        tokens.collect()
    };
    let decided = all.map_or(Ok(Vec::new()), decide);
    comm.broadcast(0, &decided)
}

fn keep(comm: &Communicator, part: &PartFields, kept: Kept) {
    comm.kept().set(part.device.info().id, Arc::new(kept));
}

/// The other ranks with which `pattern` exchanges cells; some twice.
fn peers(pattern: &Pattern) -> impl Iterator<Item = usize> {
    let rank = pattern.comm().rank();
    pattern.sends().keys().chain(pattern.receives().keys()).copied().filter(move |&peer| peer != rank)
}

/// Whether `peer` shares no memory with this rank.
fn is_far(pattern: &Pattern, peer: usize) -> bool {
    let transport = pattern.comm().transport();
    transport.info().reach != Reach::Process && !transport.is_near(peer)
}
