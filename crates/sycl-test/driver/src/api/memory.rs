//! Memory.

use std::ffi::c_void;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

use super::{functions, give, taken};
use crate::memory::{Kind, PAGE, allocate, close, file_at, find, free, open};
use crate::objects::{CONTEXTS, DEVICE, Handle, device};
use crate::settings::settings;
use crate::status::INVALID_ARGUMENT;
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
        if bytes.is_null() { Ok(()) } else { give(bytes, found.bytes) }
    }

    // The handle starts with the file's number in this process, as those of Intel's driver do: another process that opens it has
    // got a number of its own for the file before.

    zeMemGetIpcHandle(context: Handle, memory: *const c_void, ipc: *mut IpcHandle) {
        CONTEXTS.get(context)?;
        let mut bytes = [0; 64];
        bytes[..4].copy_from_slice(&file_at(context.addr(), memory.addr())?.to_ne_bytes());
        give(ipc, IpcHandle { bytes })
    }

    zeMemPutIpcHandle(context: Handle, _ipc: IpcHandle) { CONTEXTS.get(context).map(drop) }

    zeMemOpenIpcHandle(context: Handle, handle: Handle, ipc: IpcHandle, _flags: u32, memory: *mut *mut c_void) {
        CONTEXTS.get(context)?;
        device(handle)?;
        let [a, b, c, d, ..] = ipc.bytes;
        let file = RawFd::from_ne_bytes([a, b, c, d]);
        if file < 0 || !settings().imports {
            return Err(INVALID_ARGUMENT);
        }
        give(memory, open(context.addr(), BorrowedFd::borrow_raw(file))?)
    }

    zeMemCloseIpcHandle(context: Handle, memory: *const c_void) {
        CONTEXTS.get(context)?;
        close(context.addr(), memory.cast_mut())
    }
}
