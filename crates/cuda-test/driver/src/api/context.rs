//! Devices and contexts.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the driver's functions of these names"
)]

use std::ffi::{c_char, c_int, c_void};

use crate::api::functions;
use crate::lane::Context;
use crate::objects::Object;
use crate::settings::{Handles, RemoteWrites, settings};
use crate::state::{CONTEXTS, current};
use crate::status::{
    DEVICE_UNAVAILABLE, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, NO_DEVICE, NOT_FOUND, NOT_SUPPORTED,
    PEER_ENABLED, Status,
};

/// The memory that each device reports, in bytes.
pub(crate) const MEMORY_BYTES: usize = 1 << 30;

/// Checks that there is a device of this number.
pub(crate) fn device(number: c_int) -> Result<(), Status> {
    if (0..settings().devices).contains(&number) { Ok(()) } else { Err(INVALID_DEVICE) }
}

/// Checks that a device has not failed.
fn works(number: c_int) -> Result<(), Status> {
    if settings().broken == Some(number) { Err(DEVICE_UNAVAILABLE) } else { device(number) }
}

functions! {
    call cuInit(flags: u32) |state| { if settings().devices > 0 { Ok(()) } else { Err(NO_DEVICE) } }
    call cuDriverGetVersion(version: *mut c_int) |state| { *version = settings().version; Ok(()) }
    call cuDeviceGetCount(count: *mut c_int) |state| { *count = settings().devices; Ok(()) }
    call cuDeviceGet(handle: *mut c_int, ordinal: c_int) |state| { *handle = ordinal; device(ordinal) }
    call cuDeviceGetName(name: *mut c_char, length: c_int, of: c_int) |state| {
        let text = c"a driver for tests";
        name.copy_from_nonoverlapping(text.as_ptr(), text.count_bytes() + 1);
        device(of)
    }
    call cuDeviceTotalMem_v2(bytes: *mut usize, of: c_int) |state| { *bytes = MEMORY_BYTES; works(of) }
    call cuDeviceGetAttribute(value: *mut c_int, attribute: u32, of: c_int) |state| {
        works(of)?;
        *value = match attribute {
            16 => 4,  // multiprocessors
            33 => of, // number of the PCI bus
            75 | 76 => 9, // compute capability
            78 | 89 => 1, // priorities of streams, shared memory
            98 => c_int::from(settings().remote_writes == RemoteWrites::Wait), // flushes by waits
            117 => c_int::from(settings().remote_writes == RemoteWrites::Host), // flushes by the host
            118 => 200 * c_int::from(settings().remote_writes == RemoteWrites::Ordered), // their order
            102 | 103 => c_int::from(settings().handles != Handles::Missing), // memory with handles, descriptors
            110 => 1, // the same memory for network cards
            128 => c_int::from(matches!(settings().handles, Handles::Fabric | Handles::Denied | Handles::Unready)),
            _ => 0,
        };
        device(of)
    }
    call cuDevicePrimaryCtxRetain(context: *mut usize, of: c_int) |state| {
        device(of)?;
        let known = state.objects.iter_mut().find_map(|(handle, object)| match object {
            Object::Context { context, retained } if context.device == of => Some((*handle, retained)),
            _ => None,
        });
        *context = match known {
            Some((handle, retained)) => {
                *retained += 1;
                handle
            }
            None => {
                let handle = state.next_handle();
                state.objects.insert(handle, Object::Context { context: Context::new(handle, of), retained: 1 });
                handle
            }
        };
        Ok(())
    }
    give_back cuDevicePrimaryCtxRelease_v2(of: c_int) |state| {
        let known = state.objects.iter_mut().find_map(|(handle, object)| match object {
            Object::Context { context, retained } if context.device == of => {
                *retained -= 1;
                Some((*handle, *retained))
            }
            _ => None,
        });
        match known {
            Some((handle, 0)) => state.destroy_context(handle),
            Some(_) => Ok(()),
            None => Err(INVALID_DEVICE),
        }
    }
    call cuCtxGetCurrent(context: *mut usize) |state| { *context = current(); Ok(()) }
    call cuCtxPushCurrent_v2(context: usize) |state| {
        if !matches!(state.objects.get(&context), Some(Object::Context { .. })) {
            return Err(INVALID_HANDLE);
        }
        CONTEXTS.with_borrow_mut(|contexts| contexts.push(context));
        Ok(())
    }
    give_back cuCtxPopCurrent_v2(context: *mut usize) |state| {
        *context = CONTEXTS.with_borrow_mut(Vec::pop).unwrap_or(0);
        Ok(())
    }
    call cuCtxSynchronize() |state| {
        state.outside_of_captures()?;
        state.awaited = state.points_of(current());
        Ok(())
    }
    call cuFlushGPUDirectRDMAWrites(target: u32, scope: u32) |state| {
        let context = state.in_context()?;
        if settings().remote_writes != RemoteWrites::Host {
            return Err(NOT_SUPPORTED);
        }
        context.see_remote_writes();
        Ok(())
    }
    call cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) |state| {
        state.in_context()?;
        (*least, *greatest) = (0, -5);
        Ok(())
    }
    call cuDeviceCanAccessPeer(can: *mut c_int, of: c_int, peer: c_int) |state| {
        device(of)?;
        device(peer)?;
        *can = c_int::from(of != peer && settings().has_peers);
        Ok(())
    }
    call cuCtxEnablePeerAccess(peer: usize, flags: u32) |state| {
        let own = state.in_context()?;
        match state.objects.get(&peer) {
            Some(Object::Context { .. }) if peer != own.handle && settings().has_peers => {
                if own.reach(peer) { Ok(()) } else { Err(PEER_ENABLED) }
            }
            _ => Err(INVALID_CONTEXT),
        }
    }
}

/// NVRTC asks a driver for tables that this one does not have.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetExportTable(table: *mut *const c_void, _id: *const c_void) -> Status {
    // SAFETY: the caller's promise.
    unsafe { *table = std::ptr::null() };
    NOT_FOUND
}
