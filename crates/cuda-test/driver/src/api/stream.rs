//! Streams, events and captures.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the driver's functions of these names"
)]

use std::ffi::c_int;

use crate::api::functions;
use crate::left_out::is_left_out;
use crate::objects::{Event, Object};
use crate::order::host_follows;
use crate::settings::{Fault, settings};
use crate::status::{
    CAPTURE_IMPLICIT, CAPTURE_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE, NOT_READY, NOT_SUPPORTED, Status,
};
use crate::work::job::Work;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

/// `CU_EVENT_DISABLE_TIMING`.
const WITHOUT_TIME: u32 = 2;

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`, the one mode that this driver knows.
const THREAD_LOCAL: u32 = 1;

/// `CUstreamBatchMemOpParams` of a wait or a write.
#[repr(C)]
pub(crate) struct WordOperation {
    kind: u32,
    address: u64,
    number: u64,
    flags: u32,
    alias: u64,
    unused: u64,
}

/// The driver takes at most this number of operations in a call.
const MOST_OPERATIONS: u32 = 255;

impl WordOperation {
    fn work(self) -> Result<Work, Status> {
        let WordOperation { kind, address, number, flags, .. } = self;
        match kind {
            1 => Ok(Work::AwaitNumber { address, number: number as u32, how: flags }),
            2 => Ok(Work::WriteNumber { address, number: number as u32 }),
            _ => Err(INVALID_VALUE),
        }
    }
}

/// Checks that streams may write and wait for numbers: some drivers refuse that.
fn takes_numbers() -> Result<(), Status> {
    if settings().has_numbers { Ok(()) } else { Err(NOT_SUPPORTED) }
}

functions! {
    call cuStreamCreateWithPriority(stream: *mut usize, flags: u32, priority: c_int) |state| {
        state.in_context()?;
        *stream = state.make_stream(priority, flags & NON_BLOCKING == 0)?;
        Ok(())
    }
    give_back cuStreamDestroy_v2(stream: usize) |state| {
        state.captures.retain(|capture| capture.stream != stream);
        state.destroy(stream, "stream")
    }
    call cuStreamSynchronize(stream: usize) |state| {
        state.stream(stream)?;
        state.outside_of_captures()?;
        if state.is_captured(stream) {
            return Err(CAPTURE_UNSUPPORTED);
        }
        if is_left_out() { Ok(()) } else { state.wait_for(stream) }
    }
    call cuStreamWaitEvent(stream: usize, event: usize, flags: u32) |state| { state.wait_for_event(stream, event) }
    call cuStreamGetCtx(stream: usize, context: *mut usize) |state| {
        match state.objects.get(&stream) {
            Some(Object::Stream(stream)) => *context = stream.lane.context.handle,
            _ => return Err(INVALID_HANDLE),
        }
        Ok(())
    }
    call cuStreamWaitValue32_v2(stream: usize, address: u64, value: u32, flags: u32) |state| {
        takes_numbers()?;
        if is_left_out() {
            return Ok(());
        }
        state.put(stream, Work::AwaitNumber { address, number: value, how: flags })
    }
    call cuStreamWriteValue32_v2(stream: usize, address: u64, value: u32, flags: u32) |state| {
        takes_numbers()?;
        state.put(stream, Work::WriteNumber { address, number: value })
    }
    call cuStreamBatchMemOp_v2(
        stream: usize, count: u32, operations: *const WordOperation, flags: u32,
    ) |state| {
        takes_numbers()?;
        if count > MOST_OPERATIONS {
            return Err(INVALID_VALUE);
        }
        for at in 0..count as usize {
            let work = operations.add(at).read().work()?;
            if !(matches!(work, Work::AwaitNumber { .. }) && is_left_out()) {
                state.put(stream, work)?;
            }
        }
        Ok(())
    }
    call cuEventCreate(event: *mut usize, flags: u32) |state| {
        let context = state.in_context()?.handle;
        let has_time = flags & WITHOUT_TIME == 0;
        *event = state.make(Object::Event(Event { context, has_time, ..Event::default() }));
        Ok(())
    }
    give_back cuEventDestroy_v2(event: usize) |state| { state.destroy(event, "event") }
    call cuEventRecord(event: usize, stream: usize) |state| { state.record_event(event, stream) }
    call cuEventQuery(event: usize) |state| {
        let point = state.point_of(event)?;
        let Some(point) = point.filter(|_| !settings().has(Fault::Events) && !is_left_out()) else {
            return Ok(());
        };
        host_follows(&point.before().ok_or(NOT_READY)?);
        Ok(())
    }
    call cuEventSynchronize(event: usize) |state| {
        let point = state.point_of(event)?;
        state.in_context()?.see_remote_writes();
        state.awaited.extend(point.filter(|_| !settings().has(Fault::Events) && !is_left_out()));
        Ok(())
    }
    call cuEventElapsedTime(milliseconds: *mut f32, begin: usize, end: usize) |state| {
        let mut time = |event: usize| {
            state.in_context()?;
            match state.event(event)? {
                Event { has_time: true, point: Some(point), .. } => point.time().ok_or(NOT_READY),
                _ => Err(INVALID_HANDLE),
            }
        };
        let (begin, end) = (time(begin)?, time(end)?);
        let seconds = end.saturating_duration_since(begin).as_secs_f32()
            - begin.saturating_duration_since(end).as_secs_f32();
        *milliseconds = seconds * 1e3;
        Ok(())
    }
    call cuStreamIsCapturing(stream: usize, status: *mut u32) |state| {
        state.stream(stream)?;
        if stream < 2 && state.blocking_stream_is_captured() {
            return Err(CAPTURE_IMPLICIT);
        }
        let capture = state.captures.iter().find(|capture| capture.stream == stream);
        *status = capture.map_or(0, |capture| if capture.is_invalid { 2 } else { 1 });
        Ok(())
    }
    call cuStreamBeginCapture_v2(stream: usize, mode: u32) |state| {
        state.in_context()?;
        if mode != THREAD_LOCAL {
            return Err(NOT_SUPPORTED);
        }
        state.begin_capture(stream)
    }
    give_back cuStreamEndCapture(stream: usize, graph: *mut usize) |state| {
        // Nothing could be done with a graph.
        *graph = 0;
        state.end_capture(stream)
    }
}
