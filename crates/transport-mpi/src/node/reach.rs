//! The ranks that share memory with this one: found once, by trying.

use std::io;
use std::slice;

use haloport_core::TransportError;
use haloport_core::transport::{Lease, Reach, SharedMemory};

use super::bell::Bells;
use super::segment::{self, Token};
use crate::raw::{Comm, Permit};

/// Maximum length of the text of a refusal, in words of 8 bytes; the rest is cut off.
const TEXT_WORDS: usize = 24;

/// The ranks of this node.
pub(crate) struct Node {
    /// The other ranks with which this one can share memory: all, or none if any rank cannot map the memory of another.
    pub(crate) near: Vec<usize>,
    /// The same for the transport's information, with the reason.
    pub(crate) reach: Reach,
    /// Those by which the near ranks and this one wake each other; `None` if there are no near ranks.
    pub(crate) bells: Option<Bells>,
}

impl Node {
    /// Collective among the ranks of `node`: each makes some memory and maps that of the others.
    pub(crate) fn find(permit: &Permit, node: Comm, rank: usize) -> Result<Node, TransportError> {
        let made = make();
        let mut mine = [rank as u64, 0, 0, 0, 0];
        if let Ok((_, token)) = &made {
            mine[1..].copy_from_slice(token);
        }
        let all = node.gather(permit, &mine)?;
        let others = || all.iter().filter(|of| of[0] != rank as u64);
        let found = made.and_then(|(lease, _)| {
            // A rank that has no memory to share reports that itself.
            let theirs = others()
                .filter(|of| of[1..] != Token::default())
                .map(|of| Ok((of[0] as usize, segment::find(&[of[1], of[2], of[3], of[4]])?)))
                .collect::<io::Result<Vec<(usize, SharedMemory)>>>()?;
            Ok((lease, theirs))
        });
        // The files stay open until all ranks have tried.
        let refusal = found.as_ref().err().map(io::Error::to_string);
        let refusals = node.gather(permit, &words(refusal.as_deref().unwrap_or_default()))?;

        let refused = all.iter().zip(&refusals).find(|(_, words)| words[0] != 0);
        let reason = match refused {
            Some((of, words)) => Some(format!("rank {} was refused it: {}", of[0], text(words))),
            None if all.len() == 1 => Some("there is no other rank on this node".into()),
            None => None,
        };
        Ok(match reason {
            Some(reason) => Node { near: Vec::new(), reach: Reach::Own { reason }, bells: None },
            None => Node {
                near: others().map(|of| of[0] as usize).collect(),
                reach: Reach::Node { ranks: all.len() },
                bells: found.ok().and_then(|(lease, theirs)| Bells::new(lease.memory, theirs)),
            },
        })
    }
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
