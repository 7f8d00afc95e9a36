//! Memory: allocations of the host that stand for those of a device.

use std::alloc::{Layout, alloc, dealloc};

use crate::objects::{Block, Object};
use crate::state::{State, current};
use crate::status::{INVALID_VALUE, OUT_OF_MEMORY, Status};

/// The alignment of allocations in bytes, as a driver's.
const ALIGNMENT: usize = 256;

impl State {
    /// Allocates memory, filled with nonzero bytes.
    pub(crate) fn allocate(&mut self, bytes: usize, freed_by: &'static str) -> Result<usize, Status> {
        let layout = Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| OUT_OF_MEMORY)?;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the size is not 0, and the memory has that size.
        let memory = unsafe {
            let memory = alloc(layout);
            if memory.is_null() {
                return Err(OUT_OF_MEMORY);
            }
            memory.write_bytes(0xEE, bytes);
            memory
        };
        let address = memory.expose_provenance();
        let block = Block { layout, freed_by, context: current(), managed: false };
        self.blocks.insert(address, block);
        Ok(address)
    }

    /// Frees memory. Fails if the function `by` does not free such memory.
    pub(crate) fn free(&mut self, address: usize, by: &str) -> Result<(), Status> {
        match self.blocks.remove(&address) {
            Some(block) if block.freed_by == by => {
                let memory = std::ptr::with_exposed_provenance_mut::<u8>(address);
                // SAFETY: the memory was allocated with this layout, and is freed once.
                unsafe { dealloc(memory, block.layout) };
                Ok(())
            }
            Some(block) => {
                self.blocks.insert(address, block);
                Err(INVALID_VALUE)
            }
            None => Err(INVALID_VALUE),
        }
    }

    /// Checks that a range lies within one allocation, or in memory of another owner; returns its begin.
    pub(crate) fn holds(&self, address: u64, bytes: usize) -> Result<*mut u8, Status> {
        let begin = address as usize;
        let block = self.blocks.range(..=begin).next_back();
        let inside = block.filter(|(first, block)| begin < **first + block.layout.size());
        match inside {
            Some((first, block)) if begin + bytes > first + block.layout.size() => Err(INVALID_VALUE),
            _ => Ok(std::ptr::with_exposed_provenance_mut(begin)),
        }
    }
}

impl State {
    /// An attribute of the memory at an address; 0 for memory of another owner.
    pub(crate) fn attribute(&self, attribute: u32, address: u64) -> u64 {
        let begin = address as usize;
        let block = self.blocks.range(..=begin).next_back();
        let Some((first, block)) = block.filter(|(first, block)| begin < **first + block.layout.size())
        else {
            return 0;
        };
        match attribute {
            1 => block.context as u64,
            2 => {
                if block.freed_by == "cuMemFreeHost" {
                    1
                } else {
                    2
                }
            }
            8 => u64::from(block.managed),
            9 => match self.objects.get(&block.context) {
                Some(Object::Context { device, .. }) => *device as u64,
                _ => 0,
            },
            11 => *first as u64,
            12 => block.layout.size() as u64,
            _ => 0,
        }
    }
}

/// `CUipcMemHandle`: here, the address and the size of the memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct IpcHandle([u64; 8]);

impl State {
    /// The handle that another process opens memory with.
    pub(crate) fn export(&self, address: u64) -> Result<IpcHandle, Status> {
        match self.blocks.get(&(address as usize)) {
            Some(block) if block.freed_by == "cuMemFree" => {
                Ok(IpcHandle([address, block.layout.size() as u64, 0, 0, 0, 0, 0, 0]))
            }
            _ => Err(INVALID_VALUE),
        }
    }

    /// Allocates memory of the same size, which stands for that of another process.
    pub(crate) fn import(&mut self, IpcHandle([address, bytes, ..]): IpcHandle) -> Result<u64, Status> {
        if address == 0 {
            return Err(INVALID_VALUE);
        }
        Ok(self.allocate(bytes as usize, "cuIpcCloseMemHandle")? as u64)
    }
}
