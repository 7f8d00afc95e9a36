//! Memory of `cuMemCreate`: physical memory with handles, and the reserved addresses at which it is mapped.

use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::memory::mapping::{FILLED_BYTES, Mapping, Reserved, new_file};
use crate::status::{INVALID_VALUE, OUT_OF_MEMORY, Status};

/// The size of such memory is a multiple of this, and so is its address.
pub(crate) const GRANULARITY: usize = 2 << 20;

/// Memory, which lives as long as a handle, a mapping or a descriptor of any process.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) file: File,
    pub(crate) bytes: usize,
    pub(crate) device: i32,
    /// The kinds of handles that it can be exported by; 0 if it was imported.
    pub(crate) kinds: u32,
}

/// Reserved addresses.
#[derive(Debug, Clone)]
pub(crate) struct Addresses(Arc<Reserved>);

/// Memory that is mapped at reserved addresses.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) memory: Arc<Physical>,
    addresses: Addresses,
    /// The devices that were given access.
    readers: Mutex<Vec<i32>>,
}

impl Physical {
    pub(crate) fn new(bytes: usize, device: i32, kinds: u32) -> Result<Physical, Status> {
        let file = new_file(bytes, device).map_err(|_| OUT_OF_MEMORY)?;
        if bytes <= FILLED_BYTES {
            let mapping = Mapping::at_reserved(0, &file, bytes).map_err(|_| OUT_OF_MEMORY)?;
            // SAFETY: the mapping is that long, and has no other user yet.
            unsafe { mapping.at(0).write_bytes(0xEE, bytes) };
        }
        Ok(Physical { file, bytes, device, kinds })
    }
}

impl Addresses {
    pub(crate) fn new(bytes: usize, alignment: usize) -> Result<Addresses, Status> {
        let alignment = alignment.max(GRANULARITY);
        if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) || !alignment.is_power_of_two() {
            return Err(INVALID_VALUE);
        }
        Ok(Addresses(Arc::new(Reserved::new(bytes, alignment).map_err(|_| OUT_OF_MEMORY)?)))
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.0.address..self.0.address + self.0.bytes
    }
}

impl Mapped {
    /// No device has access to it.
    pub(crate) fn new(memory: &Arc<Physical>, addresses: &Addresses) -> Mapped {
        let (memory, addresses) = (Arc::clone(memory), addresses.clone());
        Mapped { memory, addresses, readers: Mutex::default() }
    }

    /// The reserved addresses that it is mapped at, or beside.
    pub(crate) fn range(&self) -> Range<usize> {
        self.addresses.range()
    }

    /// Lets the work of a device reach it, or no longer.
    pub(crate) fn set_access(&self, device: i32, access: bool) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| *reader != device);
        if access {
            readers.push(device);
        }
    }

    /// Whether the work of a device may reach it.
    pub(crate) fn lets(&self, device: i32) -> bool {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).contains(&device)
    }
}
