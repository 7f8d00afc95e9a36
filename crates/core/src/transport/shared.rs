//! Memory that ranks of one node share, though they are processes.

use std::any::Any;
use std::fmt;

use crate::device::Pointer;

/// Memory that another rank has mapped as well.
pub struct SharedMemory {
    pointer: Pointer,
    bytes: usize,
    /// Owns the mapping.
    _owner: Box<dyn Any + Send + Sync>,
}

/// Memory made for the ranks of this node ([`Transport::share`](super::Transport::share)).
#[derive(Debug)]
pub struct Lease {
    /// The memory, as this rank sees it.
    pub memory: SharedMemory,
    /// What peers find it by ([`Transport::map`](super::Transport::map)), as long as `name` is kept.
    pub token: Vec<u8>,
    /// Withdraws the token when it is dropped. Who has mapped the memory by then keeps it.
    pub name: Box<dyn Any + Send + Sync>,
}

impl SharedMemory {
    /// Memory of `bytes` bytes from `pointer` on.
    ///
    /// # Safety
    /// It is initialised, readable, writable and aligned to 128 bytes as long as `owner` lives.
    pub unsafe fn new(pointer: Pointer, bytes: usize, owner: Box<dyn Any + Send + Sync>) -> SharedMemory {
        SharedMemory { pointer, bytes, _owner: owner }
    }

    /// The address, in this process.
    pub fn pointer(&self) -> Pointer {
        self.pointer
    }

    /// The length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMemory({} bytes at {:?})", self.bytes, self.pointer)
    }
}
