//! Commands of lists.

use std::ffi::c_void;

use super::{all_of, functions, taken};
use crate::memory::find;
use crate::objects::{CONTEXTS, EVENTS, Handle, KERNELS, LISTS, device};
use crate::status::{INVALID_ARGUMENT, INVALID_NULL_POINTER, INVALID_SIZE, Status};
use crate::structures::{Extent, Region};
use crate::work::job::{HostFunction, Pitched, Work};

functions! {
    zeCommandListAppendBarrier(list: Handle, signal: Handle, count: u32, waits: *const Handle) {
        append(list, Work::Nothing, true, signal, count, waits)
    }

    zeCommandListAppendMemoryRangesBarrier(
        list: Handle, _ranges: u32, _sizes: *const usize, _starts: *const *const c_void, signal: Handle, count: u32,
        waits: *const Handle,
    ) {
        append(list, Work::Nothing, true, signal, count, waits)
    }

    zeCommandListAppendSignalEvent(list: Handle, event: Handle) {
        EVENTS.get(event)?;
        append(list, Work::Nothing, true, event, 0, std::ptr::null())
    }

    zeCommandListAppendWaitOnEvents(list: Handle, count: u32, events: *const Handle) {
        append(list, Work::Nothing, true, std::ptr::null_mut(), count, events)
    }

    zeCommandListAppendEventReset(list: Handle, event: Handle) {
        let event = EVENTS.get(event)?;
        let work = if event.counts() { Work::Nothing } else { Work::Leave(event.point()) };
        append(list, work, true, std::ptr::null_mut(), 0, std::ptr::null())
    }

    zeCommandListAppendMemoryCopy(
        list: Handle, target: *mut c_void, source: *const c_void, bytes: usize, signal: Handle, count: u32,
        waits: *const Handle,
    ) {
        if target.is_null() || source.is_null() {
            return Err(INVALID_NULL_POINTER);
        }
        append(list, Work::Copy { target, source, bytes }, false, signal, count, waits)
    }

    zeCommandListAppendMemoryCopyRegion(
        list: Handle, target: *mut c_void, target_region: *const Region, target_row: u32, target_slice: u32,
        source: *const c_void, source_region: *const Region, source_row: u32, source_slice: u32, signal: Handle,
        count: u32, waits: *const Handle,
    ) {
        if target.is_null() || source.is_null() {
            return Err(INVALID_NULL_POINTER);
        }
        let (into, from) = (taken(target_region)?, taken(source_region)?);
        if [into.width, into.height, into.depth] != [from.width, from.height, from.depth] {
            return Err(INVALID_SIZE);
        }
        let work = Work::CopyRegion {
            target: block(target, into, target_row, target_slice),
            source: block(source.cast_mut(), from, source_row, source_slice),
            bytes: into.width as usize,
            rows: into.height.max(1) as usize,
            slices: into.depth.max(1) as usize,
        };
        append(list, work, false, signal, count, waits)
    }

    zeCommandListAppendMemoryFill(
        list: Handle, target: *mut c_void, pattern: *const c_void, pattern_bytes: usize, bytes: usize, signal: Handle,
        count: u32, waits: *const Handle,
    ) {
        if target.is_null() || pattern.is_null() {
            return Err(INVALID_NULL_POINTER);
        }
        if !pattern_bytes.is_power_of_two() || !bytes.is_multiple_of(pattern_bytes) {
            return Err(INVALID_SIZE);
        }
        let pattern = std::slice::from_raw_parts(pattern.cast::<u8>(), pattern_bytes).to_vec();
        append(list, Work::Fill { target, pattern, bytes }, false, signal, count, waits)
    }

    zeCommandListAppendMemoryPrefetch(list: Handle, _memory: *const c_void, _bytes: usize) {
        LISTS.get(list).map(drop)
    }

    zeCommandListAppendMemAdvise(list: Handle, handle: Handle, _memory: *const c_void, _bytes: usize, _advice: u32) {
        device(handle)?;
        LISTS.get(list).map(drop)
    }

    zeCommandListAppendLaunchKernel(
        list: Handle, kernel: Handle, groups: *const Extent, signal: Handle, count: u32, waits: *const Handle,
    ) {
        launch(list, kernel, taken(groups)?, signal, count, waits)
    }

    zeCommandListAppendLaunchCooperativeKernel(
        list: Handle, kernel: Handle, groups: *const Extent, signal: Handle, count: u32, waits: *const Handle,
    ) {
        launch(list, kernel, taken(groups)?, signal, count, waits)
    }

    zeCommandListAppendLaunchKernelWithArguments(
        list: Handle, kernel: Handle, groups: Extent, group: Extent, arguments: *const *const c_void,
        _next: *const c_void, signal: Handle, count: u32, waits: *const Handle,
    ) {
        let taken_by = KERNELS.get(kernel)?;
        taken_by.set_group([group.x, group.y, group.z])?;
        for number in 0..taken_by.parameters.len() {
            if arguments.is_null() {
                return Err(INVALID_NULL_POINTER);
            }
            let value = *arguments.add(number);
            taken_by.set_from(number, value)?;
        }
        launch(list, kernel, groups, signal, count, waits)
    }

    zeCommandListAppendHostFunction(
        list: Handle, function: Option<HostFunction>, data: *mut c_void, _next: *const c_void, signal: Handle,
        count: u32, waits: *const Handle,
    ) {
        let function = function.ok_or(INVALID_NULL_POINTER)?;
        append(list, Work::Call { function, data }, true, signal, count, waits)
    }

    zeCommandListAppendWriteGlobalTimestamp(
        list: Handle, target: *mut u64, signal: Handle, count: u32, waits: *const Handle,
    ) {
        append(list, Work::WriteTime(target), true, signal, count, waits)
    }

    zeCommandListAppendQueryKernelTimestamps(
        list: Handle, events: u32, timed: *const Handle, target: *mut c_void, offsets: *const usize, signal: Handle,
        count: u32, waits: *const Handle,
    ) {
        let points: Vec<_> = all_of(&EVENTS, events, timed)?.iter().map(|event| event.point()).collect();
        let offsets =
            (!offsets.is_null()).then(|| std::slice::from_raw_parts(offsets, events as usize).to_vec());
        append(list, Work::WriteTimes { points, target, offsets }, true, signal, count, waits)
    }

    zeContextMakeMemoryResident(context: Handle, handle: Handle, memory: *mut c_void, _bytes: usize) {
        resident(context, handle, memory)
    }

    zeContextEvictMemory(context: Handle, handle: Handle, memory: *mut c_void, _bytes: usize) {
        resident(context, handle, memory)
    }
}

/// Appends a command with its events.
///
/// # Safety
/// The memory that the command uses is alive until it has been done, and `waits` points to `count` handles.
unsafe fn append(
    list: Handle,
    work: Work,
    ordered: bool,
    signal: Handle,
    count: u32,
    waits: *const Handle,
) -> Result<(), Status> {
    let list = LISTS.get(list)?;
    // SAFETY: the caller's promise.
    let waits = unsafe { all_of(&EVENTS, count, waits)? };
    let signal = if signal.is_null() { None } else { Some(EVENTS.get(signal)?) };
    list.append(work, ordered, &waits, signal.as_deref())
}

/// Appends a launch.
///
/// # Safety
/// As for [`append`].
unsafe fn launch(
    list: Handle,
    kernel: Handle,
    groups: Extent,
    signal: Handle,
    count: u32,
    waits: *const Handle,
) -> Result<(), Status> {
    let launch = KERNELS.get(kernel)?.launch([groups.x, groups.y, groups.z])?;
    // SAFETY: the caller's promise.
    unsafe { append(list, Work::Launch(launch), false, signal, count, waits) }
}

/// The first row of a region, for which a slice without a size has as many rows as the region.
fn block(start: *mut c_void, region: Region, row: u32, slice: u32) -> Pitched {
    let row = row as usize;
    let slice = if slice == 0 { row * region.height as usize } else { slice as usize };
    let offset = region.z as usize * slice + region.y as usize * row + region.x as usize;
    Pitched { start: start.cast::<u8>().wrapping_add(offset), row, slice }
}

/// Refuses what is no memory of the context.
fn resident(context: Handle, handle: Handle, memory: *mut c_void) -> Result<(), Status> {
    CONTEXTS.get(context)?;
    device(handle)?;
    find(context.addr(), memory.addr()).map(drop).ok_or(INVALID_ARGUMENT)
}
