//! The ranks that share memory with this one: found once, pair by pair, by trying.

use std::io;
use std::slice;

use haloport_core::TransportError;
use haloport_core::transport::{Lease, Reach, SharedMemory};

use super::bell::Bells;
use super::segment::{self, Token};
use crate::raw::{Comm, Permit};

/// Maximum length of the text of a refusal, in words of 8 bytes; the rest is cut off.
const TEXT_WORDS: usize = 24;
/// The number of words that say whose memory a rank has mapped, a bit for each rank of the node.
const MASK_WORDS: usize = 32;
/// The ranks of a node that can share memory: those that have a bit.
const MOST_RANKS: usize = 64 * MASK_WORDS;

/// The ranks of this node.
pub(crate) struct Node {
    /// The other ranks with which this one shares memory: each of both has mapped memory of the other.
    pub(crate) near: Vec<usize>,
    /// The same for the transport's information, with the reason for the others.
    pub(crate) reach: Reach,
    /// The bells by which the near ranks and this one wake each other; `None` if there are no near ranks.
    pub(crate) bells: Option<Bells>,
}

/// The message of a rank to the others of its node before they try to map its memory: its number, the namespace of its
/// process and its memory.
#[derive(Clone, Copy)]
struct Offer {
    rank: usize,
    /// The namespace of process numbers, 0 if it is unknown.
    namespace: u64,
    /// `None` if it has no memory to share.
    token: Option<Token>,
}

/// The result of a rank's attempts to map memory.
struct Tried {
    /// Memory of other ranks, by their places among the ranks of the node.
    mapped: Vec<(usize, SharedMemory)>,
    /// The first refusal.
    refusal: Option<String>,
}

impl Node {
    /// Collective among the ranks of `node`: each makes some memory and maps that of the others.
    pub(crate) fn find(permit: &Permit, node: Comm, rank: usize) -> Result<Node, TransportError> {
        let made = make();
        let token = made.as_ref().ok().map(|(_, token)| *token);
        let mine = Offer { rank, namespace: process_namespace(), token };
        let all: Vec<Offer> = node.gather(permit, &mine.words())?.iter().map(Offer::of_words).collect();
        let (lease, tried) = match made {
            Ok((lease, _)) => (Some(lease), Tried::of(&all, rank)),
            Err(error) => (None, Tried { mapped: Vec::new(), refusal: Some(error.to_string()) }),
        };
        // The files stay open until all ranks have tried.
        let masks = node.gather(permit, &tried.mask())?;
        let refusals = node.gather(permit, &words(tried.refusal.as_deref().unwrap_or_default()))?;

        let Tried { mut mapped, .. } = tried;
        if let Some(own) = all.iter().position(|offer| offer.rank == rank) {
            mapped.retain(|(place, _)| masks.get(*place).is_some_and(|mask| has_bit(mask, own)));
        }
        let is_near = |place: usize| mapped.iter().any(|(near, _)| *near == place);
        let apart = (0..all.len()).find(|&place| all[place].rank != rank && !is_near(place));
        let reason = apart.map(|place| {
            let told = |rank, text: String| format!("rank {rank} was refused it: {text}");
            let of = |place: usize| text(&refusals[place]);
            let own = all.iter().position(|offer| offer.rank == rank).map(of).unwrap_or_default();
            match all[place] {
                Offer { rank: other, namespace, .. } if namespace != mine.namespace => format!(
                    "rank {other} is in another namespace of processes, as that of another container: start the ranks \
                     of a node in one container, or with the namespace of its host"
                ),
                _ if !own.is_empty() => told(rank, own),
                Offer { rank: other, .. } => told(other, of(place)),
            }
        });
        let near: Vec<usize> = mapped.iter().map(|(place, _)| all[*place].rank).collect();
        let reach = match reason {
            _ if all.len() == 1 => Reach::Own { reason: "there is no other rank on this node".into() },
            Some(reason) if near.is_empty() => Reach::Own { reason },
            apart => Reach::Node { ranks: near.len() + 1, apart },
        };
        let theirs = mapped.into_iter().map(|(place, memory)| (all[place].rank, memory)).collect();
        let bells = lease.filter(|_| !near.is_empty()).and_then(|lease| Bells::new(lease.memory, theirs));
        Ok(Node { near, reach, bells })
    }
}

impl Offer {
    fn words(self) -> [u64; 6] {
        let [number, process, descriptor, inode] = self.token.unwrap_or_default();
        [self.rank as u64, self.namespace, number, process, descriptor, inode]
    }

    fn of_words(words: &[u64; 6]) -> Offer {
        let [rank, namespace, token @ ..] = *words;
        Offer { rank: rank as usize, namespace, token: (token != Token::default()).then_some(token) }
    }
}

impl Tried {
    /// Maps the memory of each other rank that has some.
    fn of(all: &[Offer], rank: usize) -> Tried {
        let mut tried = Tried { mapped: Vec::new(), refusal: None };
        for (place, offer) in all.iter().enumerate().filter(|(_, offer)| offer.rank != rank) {
            let Some(token) = &offer.token else { continue };
            let found = match place {
                0..MOST_RANKS => segment::find(token),
                _ => Err(io::Error::other(format!("there are more than {MOST_RANKS} ranks on this node"))),
            };
            match found {
                Ok(memory) => tried.mapped.push((place, memory)),
                Err(error) => drop(tried.refusal.get_or_insert_with(|| error.to_string())),
            }
        }
        tried
    }

    fn mask(&self) -> [u64; MASK_WORDS] {
        let mut mask = [0; MASK_WORDS];
        self.mapped.iter().for_each(|(place, _)| mask[place / 64] |= 1 << (place % 64));
        mask
    }
}

fn has_bit(mask: &[u64; MASK_WORDS], place: usize) -> bool {
    mask.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
}

/// Checks whether this process can make memory for other processes of its node, and map such memory.
/// [`from_raw`](crate::from_raw) checks the same on all ranks; this does so without MPI, in this
/// process alone.
///
/// # Errors
/// The call that the system refuses, and the reason.
pub fn try_node_memory() -> io::Result<()> {
    let (_lease, token) = make()?;
    segment::find(&token).map(drop)
}

fn make() -> io::Result<(Lease, Token)> {
    let word = 0..size_of::<u64>();
    let lease = segment::make(word.len(), slice::from_ref(&word))?;
    let token = bytemuck::pod_read_unaligned(&lease.token);
    Ok((lease, token))
}

/// A number of the namespace in which this process has its number; 0 if it is unknown. Processes of two such namespaces
/// do not find each other's files.
#[cfg(target_os = "linux")]
fn process_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// Other systems have no such namespaces.
#[cfg(not(target_os = "linux"))]
fn process_namespace() -> u64 {
    0
}

fn words(text: &str) -> [u64; TEXT_WORDS] {
    let mut words = [0; TEXT_WORDS];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    words
}

fn text(words: &[u64; TEXT_WORDS]) -> String {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string()
}
