//! Memory with handles, and reserved addresses.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the driver's functions of these names"
)]

use std::ffi::c_int;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::sync::Arc;

use crate::api::context::{MEMORY_BYTES, device};
use crate::api::functions;
use crate::memory::blocks::{Found, blocks, free, map};
use crate::memory::foreign::{IpcHandle, device_of};
use crate::memory::pages::{Addresses, GRANULARITY, Physical};
use crate::objects::Object;
use crate::settings::{Handles, settings};
use crate::state::State;
use crate::status::{
    INVALID_HANDLE, INVALID_VALUE, NOT_PERMITTED, NOT_READY_SYSTEM, NOT_SUPPORTED, OUT_OF_MEMORY, Status,
};

/// The kinds of handles: `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR` and `CU_MEM_HANDLE_TYPE_FABRIC`.
const DESCRIPTOR: u32 = 1;
const FABRIC: u32 = 8;

/// `CUmemLocation`.
#[repr(C)]
pub(crate) struct Location {
    kind: u32,
    device: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
pub(crate) struct Properties {
    kind: u32,
    handles: u32,
    location: Location,
    windows: usize,
    compression: u8,
    for_network_cards: u8,
    usage: u16,
    reserved: [u8; 4],
}

/// `CUmemAccessDesc`.
#[repr(C)]
pub(crate) struct Access {
    location: Location,
    flags: u32,
}

impl Properties {
    /// Checks that the driver has such memory: pinned to a device, with handles that it offers.
    fn check(&self) -> Result<(), Status> {
        device(self.location.device)?;
        let offered = match settings().handles {
            Handles::Missing => return Err(NOT_SUPPORTED),
            Handles::Descriptors => DESCRIPTOR,
            Handles::Fabric | Handles::Denied | Handles::Unready => DESCRIPTOR | FABRIC,
        };
        if self.kind != 1 || self.location.kind != 1 || self.handles & !offered != 0 {
            return Err(INVALID_VALUE);
        }
        let is_denied = settings().handles == Handles::Denied && self.handles & FABRIC != 0;
        if is_denied { Err(NOT_PERMITTED) } else { Ok(()) }
    }
}

impl State {
    fn memory(&self, handle: u64) -> Result<&Arc<Physical>, Status> {
        match self.objects.get(&(handle as usize)) {
            Some(Object::Memory(memory)) => Ok(memory),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// The reserved addresses that hold this range.
    fn addresses(&self, begin: usize, bytes: usize) -> Result<&Addresses, Status> {
        let found = self.objects.values().find_map(|object| match object {
            Object::Addresses(addresses) => Some(addresses).filter(|addresses| {
                let range = addresses.range();
                range.contains(&begin) && bytes <= range.end - begin
            }),
            _ => None,
        });
        found.ok_or(INVALID_VALUE)
    }

    /// The reserved addresses around this one.
    pub(crate) fn reserved(&self, address: u64) -> Option<Range<usize>> {
        self.addresses(address as usize, 1).ok().map(Addresses::range)
    }
}

functions! {
    call cuMemGetAllocationGranularity(granularity: *mut usize, properties: *const Properties, option: u32) |state| {
        (*properties).check()?;
        *granularity = GRANULARITY;
        Ok(())
    }
    call cuMemCreate(handle: *mut u64, bytes: usize, properties: *const Properties, flags: u64) |state| {
        let properties = &*properties;
        properties.check()?;
        state.outside_of_captures()?;
        if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
            return Err(INVALID_VALUE);
        }
        if bytes > MEMORY_BYTES {
            return Err(OUT_OF_MEMORY);
        }
        let memory = Physical::new(bytes, properties.location.device, properties.handles)?;
        *handle = state.make(Object::Memory(Arc::new(memory))) as u64;
        Ok(())
    }
    give_back cuMemRelease(handle: u64) |state| { state.destroy(handle as usize, "memory") }
    call cuMemAddressReserve(address: *mut u64, bytes: usize, alignment: usize, wanted: u64, flags: u64) |state| {
        let addresses = Addresses::new(bytes, alignment)?;
        *address = addresses.range().start as u64;
        state.objects.insert(addresses.range().start, Object::Addresses(addresses));
        Ok(())
    }
    give_back cuMemAddressFree(address: u64, bytes: usize) |state| {
        match state.objects.get(&(address as usize)) {
            Some(Object::Addresses(addresses)) if addresses.range().len() == bytes => {
                let used = blocks().iter().any(|block| {
                    block.mapped.as_ref().is_some_and(|mapped| mapped.range() == addresses.range())
                });
                if used { Err(INVALID_VALUE) } else { state.destroy(address as usize, "addresses") }
            }
            _ => Err(INVALID_VALUE),
        }
    }
    call cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) |state| {
        let memory = state.memory(handle)?;
        if offset != 0 || bytes != memory.bytes || !(address as usize).is_multiple_of(GRANULARITY) {
            return Err(INVALID_VALUE);
        }
        if !matches!(blocks().find(address, bytes), Found::Outside) {
            return Err(INVALID_VALUE);
        }
        map(state.addresses(address as usize, bytes)?, address as usize, memory)
    }
    give_back cuMemUnmap(address: u64, bytes: usize) |state| {
        match blocks().find(address, bytes) {
            Found::Inside(block, 0) if block.bytes == bytes => free(address, "cuMemUnmap"),
            _ => Err(INVALID_VALUE),
        }
    }
    call cuMemSetAccess(address: u64, bytes: usize, access: *const Access, count: usize) |state| {
        let blocks = blocks();
        let Found::Inside(block, 0) = blocks.find(address, bytes) else { return Err(INVALID_VALUE) };
        let mapped = block.mapped.as_ref().filter(|_| block.bytes == bytes).ok_or(INVALID_VALUE)?;
        for number in 0..count {
            let Access { location, flags } = access.add(number).read();
            device(location.device)?;
            let is_peer = location.device != mapped.memory.device;
            if location.kind != 1 || !matches!(flags, 0 | 3) || is_peer && !settings().has_peers {
                return Err(INVALID_VALUE);
            }
            mapped.set_access(location.device, flags == 3);
        }
        Ok(())
    }
    call cuMemExportToShareableHandle(shareable: *mut u8, handle: u64, kind: u32, flags: u64) |state| {
        let memory = state.memory(handle)?;
        if memory.kinds & kind == 0 {
            return Err(INVALID_VALUE);
        }
        if kind == FABRIC {
            shareable.cast::<IpcHandle>().write(IpcHandle::of(&memory.file, memory.bytes)?);
        } else {
            let file = memory.file.try_clone().map_err(|_| OUT_OF_MEMORY)?;
            shareable.cast::<c_int>().write(file.into_raw_fd());
        }
        Ok(())
    }
    call cuMemImportFromShareableHandle(handle: *mut u64, shareable: *mut u8, kind: u32) |state| {
        state.in_context()?;
        let (file, bytes) = match kind {
            _ if settings().handles == Handles::Missing => return Err(NOT_SUPPORTED),
            FABRIC if settings().handles == Handles::Denied => return Err(NOT_PERMITTED),
            FABRIC if settings().handles == Handles::Unready => return Err(NOT_READY_SYSTEM),
            FABRIC => shareable.cast::<IpcHandle>().read().open()?,
            DESCRIPTOR => {
                let file: File = BorrowedFd::borrow_raw(shareable.addr() as c_int)
                    .try_clone_to_owned()
                    .map_err(|_| INVALID_VALUE)?
                    .into();
                let bytes = file.metadata().map_err(|_| INVALID_VALUE)?.len() as usize;
                (file, bytes)
            }
            _ => return Err(INVALID_VALUE),
        };
        // The number of the device is that of the process that created it: all processes see the same devices.
        let memory = Physical { bytes, device: device_of(&file)?, kinds: 0, file };
        *handle = state.make(Object::Memory(Arc::new(memory))) as u64;
        Ok(())
    }
}
