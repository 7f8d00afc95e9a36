//! Memory, copies and fills.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the driver's functions of these names"
)]

use std::sync::Arc;

use crate::api::context::MEMORY_BYTES;
use crate::api::{call, functions, give_back};
use crate::memory::blocks::{Found, Kind, allocate, blocks, free, register};
use crate::memory::foreign::{IpcHandle, export, import};
use crate::objects::Object;
use crate::order::host_follows;
use crate::settings::{Freeing, settings};
use crate::state::{State, current, state};
use crate::status::{CAPTURE_UNSUPPORTED, INVALID_VALUE, OUT_OF_MEMORY, Status};
use crate::work::access::is_of_host;
use crate::work::job::Work;

/// A fill with `count` elements of these bytes.
fn fill(target: u64, pattern: &[u8], count: usize) -> Result<Work, Status> {
    if !target.is_multiple_of(pattern.len() as u64) {
        return Err(INVALID_VALUE);
    }
    Ok(Work::Fill { target, pattern: pattern.into(), count })
}

/// Allocates memory in the current context.
fn allocate_now(state: &mut State, bytes: usize, kind: Kind) -> Result<u64, Status> {
    state.outside_of_captures()?;
    let most = if kind == Kind::Pinned { isize::MAX as usize } else { MEMORY_BYTES };
    if bytes > most { Err(OUT_OF_MEMORY) } else { allocate(bytes, kind, current()) }
}

/// An attribute of the memory at an address; 0 for memory of another owner.
fn attribute(state: &State, attribute: u32, address: u64) -> u64 {
    let blocks = blocks();
    let Found::Inside(block, _) = blocks.find(address, 1) else {
        return state.reserved(address).map_or(0, |range| match attribute {
            2 => 2,
            11 => range.start as u64,
            12 => range.len() as u64,
            _ => 0,
        });
    };
    let begin = block.mapping.address;
    let range = block.mapped.as_ref().map_or(begin..begin + block.bytes, |mapped| mapped.range());
    match attribute {
        1 => block.context as u64,
        2 => 1 + u64::from(!matches!(block.kind, Kind::Pinned | Kind::Registered)),
        8 => u64::from(block.kind == Kind::Managed),
        9 => match (&block.mapped, state.objects.get(&block.context)) {
            (Some(mapped), _) => mapped.memory.device as u64,
            (None, Some(Object::Context { context, .. })) => context.device as u64,
            _ => 0,
        },
        10 => u64::from(block.kind == Kind::Device),
        11 => range.start as u64,
        12 => range.len() as u64,
        // Drivers may say otherwise for memory of pools.
        13 => u64::from(block.kind != Kind::Pool),
        14 => block.mapped.as_ref().map_or(0, |mapped| mapped.memory.kinds.into()),
        17 => u64::from(block.kind == Kind::Pool),
        18 if block.kind == Kind::Mapped => block.bytes as u64,
        19 if block.kind == Kind::Mapped => begin as u64,
        _ => 0,
    }
}

/// Copies bytes in the order of a stream. Memory of the host that is not pinned is read before the call returns, or is
/// written before it returns: then no other thread can call the driver meanwhile, as was seen with driver 580.159.04 on an
/// H100.
fn copy(state: &mut State, [target, source]: [u64; 2], bytes: usize, stream: usize) -> Result<(), Status> {
    let is_known = |address| !matches!(blocks().find(address, 1), Found::Outside);
    if !is_known(target) && state.is_captured(stream) {
        return Err(CAPTURE_UNSUPPORTED);
    }
    if is_known(source) {
        state.put(stream, Work::Copy { source, target, bytes })?;
    } else {
        let from = std::ptr::with_exposed_provenance::<u8>(source as usize);
        // SAFETY: the program that copies promises that the memory is valid.
        let bytes: Arc<[u8]> = unsafe { std::slice::from_raw_parts(from, bytes) }.into();
        state.put(stream, Work::Write { target, bytes })?;
    }
    if !is_known(target) {
        host_follows(&state.stream(stream)?.point_behind().wait());
    }
    Ok(())
}

/// Frees memory after all work of the context, as the settings say.
fn free_after_work(name: &str, address: u64) -> Status {
    let by = if name == "cuMemFree_v2" { "cuMemFree" } else { name };
    if settings().freeing == Freeing::Waits {
        // Other threads can call the driver meanwhile.
        let points = state().points_of(current());
        points.iter().for_each(|point| host_follows(&point.wait()));
    }
    give_back(
        name,
        || format!("address={address:#x}"),
        |state| {
            if settings().freeing == Freeing::Locks {
                state.points_of(current()).iter().for_each(|point| host_follows(&point.wait()));
            }
            free(address, by)
        },
    )
}

functions! {
    call cuMemAlloc_v2(address: *mut u64, bytes: usize) |state| {
        *address = allocate_now(state, bytes, Kind::Device)?;
        Ok(())
    }
    call cuMemAllocManaged(address: *mut u64, bytes: usize, flags: u32) |state| {
        *address = allocate_now(state, bytes, Kind::Managed)?;
        Ok(())
    }
    call cuMemHostAlloc(address: *mut u64, bytes: usize, flags: u32) |state| {
        *address = allocate_now(state, bytes, Kind::Pinned)?;
        Ok(())
    }
    call cuPointerGetAttributes(count: u32, attributes: *const u32, values: *mut *mut u64, address: u64) |state| {
        for number in 0..count as usize {
            let value: *mut u64 = values.add(number).read();
            value.write(attribute(state, attributes.add(number).read(), address));
        }
        Ok(())
    }
    call cuIpcGetMemHandle(handle: *mut IpcHandle, address: u64) |state| {
        state.in_context()?;
        *handle = export(address)?;
        Ok(())
    }
    call cuMemHostRegister_v2(address: u64, bytes: usize, flags: u32) |state| {
        state.in_context()?;
        state.outside_of_captures()?;
        register(address, bytes, current())
    }
    call cuMemHostGetDevicePointer_v2(pointer: *mut u64, address: u64, flags: u32) |state| {
        state.in_context()?;
        if !is_of_host(address) {
            return Err(INVALID_VALUE);
        }
        *pointer = address;
        Ok(())
    }
    give_back cuIpcCloseMemHandle(address: u64) |state| { free(address, "cuIpcCloseMemHandle") }
    call cuMemcpyAsync(target: u64, source: u64, bytes: usize, stream: usize) |state| {
        copy(state, [target, source], bytes, stream)
    }
    call cuMemsetD8Async(target: u64, value: u8, count: usize, stream: usize) |state| {
        state.put(stream, fill(target, &value.to_ne_bytes(), count)?)
    }
    call cuMemsetD16Async(target: u64, value: u16, count: usize, stream: usize) |state| {
        state.put(stream, fill(target, &value.to_ne_bytes(), count)?)
    }
    call cuMemsetD32Async(target: u64, value: u32, count: usize, stream: usize) |state| {
        state.put(stream, fill(target, &value.to_ne_bytes(), count)?)
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemFree_v2(address: u64) -> Status {
    free_after_work("cuMemFree_v2", address)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemFreeHost(address: u64) -> Status {
    free_after_work("cuMemFreeHost", address)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemHostUnregister(address: u64) -> Status {
    free_after_work("cuMemHostUnregister", address)
}

/// Apart from the others, because it takes its handle by value.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuIpcOpenMemHandle_v2(
    address: *mut u64,
    handle: IpcHandle,
    flags: u32,
) -> Status {
    call(
        "cuIpcOpenMemHandle_v2",
        || format!("flags={flags}"),
        |state| {
            state.in_context()?;
            let imported = import(handle, current())?;
            // SAFETY: the caller of the driver's function vouches for the address.
            unsafe { *address = imported };
            Ok(())
        },
    )
}
