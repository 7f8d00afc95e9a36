//! The memory that a kernel reaches.

use std::sync::Arc;

use haloport_cuda_ptx::Memory;
use haloport_cuda_races::{Race, Work};

use crate::lane::Context;
use crate::memory::blocks::{Block, Blocks, Found};
use crate::work::access::may_reach;

/// The memory that kernels of a context reach: its own, that of peers, and that of the host which is pinned or managed.
pub(crate) struct Reach<'w> {
    blocks: Arc<Blocks>,
    context: &'w Context,
    /// The blocks of the last accesses.
    last: [Option<Arc<Block>>; 2],
    /// The kernel.
    work: &'w Work,
    /// Its first access that nothing orders with another one.
    pub(crate) race: Option<Race>,
}

impl<'w> Reach<'w> {
    pub(crate) fn new(blocks: Arc<Blocks>, context: &'w Context, work: &'w Work) -> Reach<'w> {
        Reach { blocks, context, last: [None, None], work, race: None }
    }
}

// SAFETY: the blocks stay mapped as long as `blocks` holds them, and device memory is reached by the driver alone; that
// pinned memory is not used by others meanwhile is what the program promised that launched the kernel.
unsafe impl Memory for Reach<'_> {
    fn find(&mut self, address: u64, bytes: u32, writes: bool) -> Option<*mut u8> {
        let (begin, bytes) = (address as usize, bytes as usize);
        let inside = |block: &&Arc<Block>| {
            let offset = begin.wrapping_sub(block.mapping.address);
            offset < block.bytes && bytes <= block.bytes - offset
        };
        if !self.last.iter().flatten().any(|block| inside(&block)) {
            let Found::Inside(block, _) = self.blocks.find(address, bytes) else { return None };
            if !may_reach(block, self.context) {
                return None;
            }
            let block = Arc::clone(block);
            self.last.swap(0, 1);
            self.last[0] = Some(block);
        }
        let block = self.last.iter().flatten().find(inside)?;
        let offset = begin - block.mapping.address;
        if let Some(shadow) = &block.shadow {
            let race = shadow.access(offset..offset + bytes, writes, self.work);
            self.race = self.race.take().or(race);
        }
        Some(block.mapping.at(offset))
    }
}
