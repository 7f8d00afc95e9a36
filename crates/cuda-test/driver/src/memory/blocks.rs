//! The allocations that live.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use haloport_cuda_races::Shadow;

use crate::memory::mapping::{FILLED_BYTES, Mapping};
use crate::memory::pages::{Addresses, Mapped, Physical};
use crate::order::{WORDS, shadow};
use crate::status::{HOST_MEMORY_ALREADY_REGISTERED, INVALID_VALUE, OUT_OF_MEMORY, Status};

/// An allocation. Its memory is mapped as long as work that may use it is under way.
pub(crate) struct Block {
    pub(crate) mapping: Mapping,
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
    /// The context that was current when it was allocated; 0 if it belongs to none.
    pub(crate) context: usize,
    /// The memory that is mapped there, if it is of `cuMemCreate`.
    pub(crate) mapped: Option<Mapped>,
    /// The accesses of devices, if they are watched.
    pub(crate) shadow: Option<Shadow>,
}

/// How memory was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    /// Device memory of a pool of another program.
    Pool,
    Managed,
    /// Host memory that devices reach.
    Pinned,
    /// Host memory that the program has mapped and registered.
    Registered,
    /// Device memory that another process has exported.
    Foreign,
    /// Memory of `cuMemCreate`, mapped at reserved addresses.
    Mapped,
}

impl Kind {
    /// The function that frees such memory.
    pub(crate) fn freed_by(self) -> &'static str {
        match self {
            Kind::Device | Kind::Managed => "cuMemFree",
            Kind::Pool => "cuMemFreeAsync",
            Kind::Pinned => "cuMemFreeHost",
            Kind::Registered => "cuMemHostUnregister",
            Kind::Foreign => "cuIpcCloseMemHandle",
            Kind::Mapped => "cuMemUnmap",
        }
    }

    /// Whether the host reaches it, too.
    pub(crate) fn is_of_host(self) -> bool {
        matches!(self, Kind::Managed | Kind::Pinned | Kind::Registered)
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.bytes, self.mapping.address)
    }
}

/// The allocations at one time, by address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Blocks(Vec<Arc<Block>>);

/// The result of looking for the bytes at an address.
#[derive(Debug)]
pub(crate) enum Found<'b> {
    /// All of the bytes, from this one of the block on.
    Inside(&'b Arc<Block>, usize),
    /// The first of the bytes; they end behind the block.
    Past,
    /// Nothing that the driver knows.
    Outside,
}

static BLOCKS: RwLock<Option<Arc<Blocks>>> = RwLock::new(None);

/// The allocations that live now.
pub(crate) fn blocks() -> Arc<Blocks> {
    BLOCKS.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

/// Allocates memory, and returns its address.
pub(crate) fn allocate(bytes: usize, kind: Kind, context: usize) -> Result<u64, Status> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let mapping = if kind.is_of_host() { Mapping::of_host(bytes) } else { Mapping::of_device(bytes) };
    let mapping = mapping.map_err(|_| OUT_OF_MEMORY)?;
    if bytes <= FILLED_BYTES {
        // SAFETY: the mapping is that long, and has no other user yet.
        unsafe { mapping.at(0).write_bytes(0xEE, bytes) };
    }
    Ok(add(mapping, bytes, kind, context))
}

/// Adds memory that the program has mapped.
pub(crate) fn register(address: u64, bytes: usize, context: usize) -> Result<(), Status> {
    let pages = Mapping::of_program(address as usize, bytes);
    let apart = |block: &Arc<Block>| {
        let begin = block.mapping.address as u64;
        begin + block.bytes as u64 <= address || address + bytes as u64 <= begin
    };
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    if !blocks().iter().all(apart) {
        return Err(HOST_MEMORY_ALREADY_REGISTERED);
    }
    add(pages, bytes, Kind::Registered, context);
    Ok(())
}

/// Adds a block, and returns its address.
pub(crate) fn add(mapping: Mapping, bytes: usize, kind: Kind, context: usize) -> u64 {
    let shadow = shadow(mapping.address, bytes);
    add_block(Block { mapping, bytes, kind, context, mapped: None, shadow })
}

/// Maps all of some memory at one of the addresses that are reserved for it. No device gets access.
pub(crate) fn map(addresses: &Addresses, address: usize, memory: &Arc<Physical>) -> Result<(), Status> {
    let bytes = memory.bytes;
    let mapping = Mapping::at_reserved(address, &memory.file, bytes).map_err(|_| OUT_OF_MEMORY)?;
    let (shadow, mapped) = (shadow(address, bytes), Some(Mapped::new(memory, addresses)));
    add_block(Block { mapping, bytes, kind: Kind::Mapped, context: 0, mapped, shadow });
    Ok(())
}

fn add_block(block: Block) -> u64 {
    let address = block.mapping.address;
    let mut blocks = BLOCKS.write().unwrap_or_else(PoisonError::into_inner);
    let blocks = Arc::make_mut(blocks.get_or_insert_default());
    blocks.0.insert(blocks.before(address), Arc::new(block));
    address as u64
}

/// Removes the block that begins at an address, if the function `by` frees it.
pub(crate) fn free(address: u64, by: &str) -> Result<(), Status> {
    let mut blocks = BLOCKS.write().unwrap_or_else(PoisonError::into_inner);
    let blocks = Arc::make_mut(blocks.get_or_insert_default());
    let at = blocks.before(address as usize);
    match blocks.0.get(at) {
        Some(block) if block.mapping.address == address as usize && block.kind.freed_by() == by => {
            let block = blocks.0.remove(at);
            WORDS.forget(address..address + block.bytes as u64);
            Ok(())
        }
        _ => Err(INVALID_VALUE),
    }
}

impl Blocks {
    /// Finds the memory of an address.
    pub(crate) fn find(&self, address: u64, bytes: usize) -> Found<'_> {
        let begin = address as usize;
        let after = self.0.partition_point(|block| block.mapping.address <= begin);
        let block = after.checked_sub(1).map(|at| &self.0[at]);
        match block.map(|block| (block, begin - block.mapping.address)) {
            Some((block, offset)) if offset < block.bytes => {
                if bytes <= block.bytes - offset {
                    Found::Inside(block, offset)
                } else {
                    Found::Past
                }
            }
            _ => Found::Outside,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.0.iter()
    }

    /// The number of blocks before an address.
    fn before(&self, address: usize) -> usize {
        self.0.partition_point(|block| block.mapping.address < address)
    }
}
