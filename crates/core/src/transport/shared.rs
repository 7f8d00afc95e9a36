//! Memory that processes of one node share.

use std::any::Any;
use std::fmt;
use std::ops::Range;

use crate::device::Pointer;

/// Memory that other ranks can map too: all of it, or some parts.
pub struct SharedMemory {
    pointer: Pointer,
    bytes: usize,
    /// The shared parts, in ascending order with gaps between them.
    parts: Vec<Range<usize>>,
    /// Owns the mapping.
    _owner: Box<dyn Any + Send + Sync>,
}

/// Memory allocated for the ranks of this node ([`Transport::share`](super::Transport::share)).
#[derive(Debug)]
pub struct Lease {
    /// The memory in this process, which may use all of it, even the parts that it does not share.
    pub memory: SharedMemory,
    /// The token by which peers map it ([`Transport::map`](super::Transport::map)) as long as `name` exists.
    pub token: Vec<u8>,
    /// Withdraws the token when it is dropped. Existing mappings stay valid.
    pub name: Box<dyn Any + Send + Sync>,
}

impl SharedMemory {
    /// Describes memory of `bytes` bytes from `pointer` on, of which `parts` are shared: ranges of bytes counted from
    /// `pointer`, cut off at the end of the memory.
    ///
    /// # Safety
    /// As long as `owner` exists, `pointer` is aligned to 128 bytes, and the parts are initialised, readable and
    /// writable.
    pub unsafe fn new(
        pointer: Pointer,
        bytes: usize,
        parts: impl IntoIterator<Item = Range<usize>>,
        owner: Box<dyn Any + Send + Sync>,
    ) -> SharedMemory {
        let mut given: Vec<_> = parts.into_iter().map(|part| part.start..part.end.min(bytes)).collect();
        given.retain(|part| !part.is_empty());
        given.sort_by_key(|part| part.start);
        let mut parts: Vec<Range<usize>> = Vec::with_capacity(given.len());
        for part in given {
            match parts.last_mut() {
                Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
                _ => parts.push(part),
            }
        }
        SharedMemory { pointer, bytes, parts, _owner: owner }
    }

    /// The address, in this process.
    pub fn pointer(&self) -> Pointer {
        self.pointer
    }

    /// The length in bytes, including the gaps between the parts. Of a peer's memory, only the shared parts exist here.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the bytes of `range`, counted from the beginning, are shared. An empty range always is.
    pub fn covers(&self, range: Range<usize>) -> bool {
        let part = self.parts.partition_point(|part| part.end < range.end);
        let within = |part: &Range<usize>| part.start <= range.start && range.end <= part.end;
        range.is_empty() || self.parts.get(part).is_some_and(within)
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedMemory { pointer, bytes, parts, .. } = self;
        write!(f, "SharedMemory({bytes} bytes at {pointer:?}, shared: {parts:?})")
    }
}
