//! Memory that ranks of one node share, though they are processes.

use std::any::Any;
use std::fmt;
use std::ops::Range;

use crate::device::Pointer;

/// Memory that another rank has mapped as well: all of it, or some parts.
pub struct SharedMemory {
    pointer: Pointer,
    bytes: usize,
    /// What is shared: in ascending order, and none touches the next.
    parts: Vec<Range<usize>>,
    /// Owns the mapping.
    _owner: Box<dyn Any + Send + Sync>,
}

/// Memory made for the ranks of this node ([`Transport::share`](super::Transport::share)).
#[derive(Debug)]
pub struct Lease {
    /// The memory, as this rank sees it: it may use all of it, also what it does not share.
    pub memory: SharedMemory,
    /// What peers find it by ([`Transport::map`](super::Transport::map)), as long as `name` is kept.
    pub token: Vec<u8>,
    /// Withdraws the token when it is dropped. Who has mapped the memory by then keeps it.
    pub name: Box<dyn Any + Send + Sync>,
}

impl SharedMemory {
    /// Memory of `bytes` bytes from `pointer` on, of which `parts` are shared: ranges of bytes counted from `pointer`.
    /// What reaches beyond the end is cut off.
    ///
    /// # Safety
    /// As long as `owner` lives, `pointer` is aligned to 128 bytes, and the parts are initialised, readable and writable.
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

    /// The length, with what is not shared between the parts. Of a peer's memory, nothing but the shared parts is there.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the bytes of `range`, counted from the begin, are shared. No bytes always are.
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
