//! Memory.

use std::ffi::c_void;
use std::ptr;

use super::{functions, give, taken};
use crate::memory::{Kind, PAGE, allocate, find, free};
use crate::objects::{CONTEXTS, DEVICE, Handle, device};
use crate::status::{INVALID_ARGUMENT, UNSUPPORTED_FEATURE};
use crate::structures::{AllocationProperties, IpcHandle};

functions! {
    zeMemAllocDevice(
        context: Handle, _description: *const c_void, bytes: usize, alignment: usize, handle: Handle,
        memory: *mut *mut c_void,
    ) {
        CONTEXTS.get(context)?;
        device(handle)?;
        give(memory, allocate(context.addr(), Kind::Device, bytes, alignment)?)
    }

    zeMemAllocHost(
        context: Handle, _description: *const c_void, bytes: usize, alignment: usize, memory: *mut *mut c_void,
    ) {
        CONTEXTS.get(context)?;
        give(memory, allocate(context.addr(), Kind::Host, bytes, alignment)?)
    }

    zeMemAllocShared(
        context: Handle, _of_device: *const c_void, _of_host: *const c_void, bytes: usize, alignment: usize,
        _handle: Handle, memory: *mut *mut c_void,
    ) {
        CONTEXTS.get(context)?;
        give(memory, allocate(context.addr(), Kind::Shared, bytes, alignment)?)
    }

    zeMemFree(context: Handle, memory: *mut c_void) {
        CONTEXTS.get(context)?;
        free(context.addr(), memory)
    }

    zeMemFreeExt(context: Handle, _description: *const c_void, memory: *mut c_void) {
        CONTEXTS.get(context)?;
        free(context.addr(), memory)
    }

    zeMemGetAllocProperties(
        context: Handle, memory: *const c_void, properties: *mut AllocationProperties, of_device: *mut Handle,
    ) {
        CONTEXTS.get(context)?;
        let header = taken(properties)?.header;
        let found = find(context.addr(), memory.addr());
        let (kind, id) = found.map_or((0, 0), |found| (found.kind as u32, found.id));
        if !of_device.is_null() {
            let owned = matches!(found.map(|found| found.kind), Some(Kind::Device | Kind::Shared));
            let handle = if owned { ptr::without_provenance_mut(DEVICE) } else { ptr::null_mut() };
            give(of_device, handle)?;
        }
        give(properties, AllocationProperties { header, kind, id, page: PAGE as u64 })
    }

    zeMemGetAddressRange(context: Handle, memory: *const c_void, start: *mut *mut c_void, bytes: *mut usize) {
        CONTEXTS.get(context)?;
        let found = find(context.addr(), memory.addr()).ok_or(INVALID_ARGUMENT)?;
        if !start.is_null() {
            give(start, ptr::with_exposed_provenance_mut(found.start))?;
        }
        if bytes.is_null() { Ok(()) } else { give(bytes, found.bytes()) }
    }

    // Memory of other processes is missing. The functions are here since DPC++'s memory pools look for them.

    zeMemGetIpcHandle(_context: Handle, _memory: *const c_void, _ipc: *mut IpcHandle) { Err(UNSUPPORTED_FEATURE) }

    zeMemPutIpcHandle(_context: Handle, _ipc: IpcHandle) { Err(UNSUPPORTED_FEATURE) }

    zeMemOpenIpcHandle(
        _context: Handle, _device: Handle, _ipc: IpcHandle, _flags: u32, _memory: *mut *mut c_void,
    ) {
        Err(UNSUPPORTED_FEATURE)
    }

    zeMemCloseIpcHandle(_context: Handle, _memory: *const c_void) { Err(UNSUPPORTED_FEATURE) }
}
