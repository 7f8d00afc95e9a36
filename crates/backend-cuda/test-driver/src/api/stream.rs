//! Streams, events and captures.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the driver's functions of these names"
)]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::api::{call, functions, show};
use crate::objects::{Event, Object};
use crate::order::host_follows;
use crate::settings::{Fault, settings};
use crate::state::State;
use crate::status::{CAPTURE_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE, NOT_READY, Status};
use crate::work::job::{Callback, Work};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

/// `CU_EVENT_DISABLE_TIMING`.
const WITHOUT_TIME: u32 = 2;

/// Checks that a stream may write and wait for numbers: some drivers refuse that in streams that capture.
fn takes_numbers(state: &mut State, stream: usize) -> Result<(), Status> {
    let takes = settings().has_numbers || !state.captures(stream);
    if takes { Ok(()) } else { Err(CAPTURE_UNSUPPORTED) }
}

functions! {
    call cuStreamCreateWithPriority(stream: *mut usize, flags: u32, priority: c_int) |state| {
        state.in_context()?;
        *stream = state.make_stream(priority, flags & NON_BLOCKING == 0)?;
        Ok(())
    }
    give_back cuStreamDestroy_v2(stream: usize) |state| {
        state.captures.retain(|capture| capture.origin != stream);
        state.destroy(stream, "stream")
    }
    call cuStreamSynchronize(stream: usize) |state| {
        state.stream(stream)?;
        state.outside_of_captures()?;
        if state.captures(stream) {
            return Err(CAPTURE_UNSUPPORTED);
        }
        state.wait_for(stream)
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
        takes_numbers(state, stream)?;
        state.put(stream, Work::AwaitNumber { address, number: value, how: flags })
    }
    call cuStreamWriteValue32_v2(stream: usize, address: u64, value: u32, flags: u32) |state| {
        takes_numbers(state, stream)?;
        state.put(stream, Work::WriteNumber { address, number: value })
    }
    call cuEventCreate(event: *mut usize, flags: u32) |state| {
        state.in_context()?;
        let has_time = flags & WITHOUT_TIME == 0;
        *event = state.make(Object::Event(Event { has_time, ..Event::default() }));
        Ok(())
    }
    give_back cuEventDestroy_v2(event: usize) |state| { state.destroy(event, "event") }
    call cuEventRecord(event: usize, stream: usize) |state| { state.record_event(event, stream) }
    call cuEventQuery(event: usize) |state| {
        let point = state.point_of(event)?;
        let Some(point) = point.filter(|_| !settings().has(Fault::Events)) else { return Ok(()) };
        host_follows(&point.before().ok_or(NOT_READY)?);
        Ok(())
    }
    call cuEventSynchronize(event: usize) |state| {
        let point = state.point_of(event)?;
        state.awaited.extend(point.filter(|_| !settings().has(Fault::Events)));
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
    call cuStreamBeginCapture_v2(stream: usize, mode: u32) |state| {
        state.in_context()?;
        state.begin_capture(stream)
    }
    give_back cuStreamEndCapture(stream: usize, graph: *mut usize) |state| {
        *graph = 0;
        let captured = state.end_capture(stream)?;
        *graph = state.make(Object::Graph(Arc::new(captured)));
        Ok(())
    }
    call cuGraphInstantiateWithFlags(ready: *mut usize, graph: usize, flags: u64) |state| {
        let Some(Object::Graph(captured)) = state.objects.get(&graph) else { return Err(INVALID_HANDLE) };
        let captured = Arc::clone(captured);
        *ready = state.make(Object::ReadyGraph(captured));
        Ok(())
    }
    call cuGraphLaunch(graph: usize, stream: usize) |state| {
        let Some(Object::ReadyGraph(captured)) = state.objects.get(&graph) else { return Err(INVALID_HANDLE) };
        let captured = Arc::clone(captured);
        state.put(stream, Work::Graph(captured))
    }
    give_back cuGraphDestroy(graph: usize) |state| { state.destroy(graph, "graph") }
    give_back cuGraphExecDestroy(graph: usize) |state| { state.destroy(graph, "ready graph") }
}

/// Apart from the others, because its function is recorded as no number.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuStreamAddCallback(
    stream: usize,
    callback: Option<Callback>,
    with: *mut c_void,
    _flags: u32,
) -> Status {
    call(
        "cuStreamAddCallback",
        || format!("stream={}", show(stream as u64)),
        |state| {
            let function = callback.ok_or(INVALID_VALUE)?;
            if state.captures(stream) {
                return Err(CAPTURE_UNSUPPORTED);
            }
            state.put(stream, Work::Call { function, stream, with: with.expose_provenance() })
        },
    )
}
