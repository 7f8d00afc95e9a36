//! Giving work to streams: it is put into a queue, or dropped if a program captures the stream.

use std::sync::Arc;

use crate::left_out::is_left_out;
use crate::memory::blocks::{Found, blocks};
use crate::objects::{Capture, Object};
use crate::settings::settings;
use crate::state::{State, thread};
use crate::status::{
    CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE,
    NOT_SUPPORTED, Status,
};
use crate::work::job::Work;
use crate::work::point::Point;

impl State {
    /// Puts work into a stream. If the stream is being captured, the work is checked and dropped: no test launches it.
    pub(crate) fn put(&mut self, handle: usize, work: Work) -> Result<(), Status> {
        let stream = self.stream(handle)?;
        work.ranges().into_iter().try_for_each(|(address, bytes)| holds(address, bytes))?;
        if self.is_captured(handle) {
            return Ok(());
        }
        stream.lane.context.see_remote_writes();
        // The default stream of all threads and blocking streams wait for each other.
        let blocking: Vec<_> = match handle {
            0 | 1 => {
                self.streams_of(stream.lane.context.handle).into_iter().filter(|of| of.is_blocking).collect()
            }
            _ => Vec::new(),
        };
        for other in &blocking {
            stream.put(Work::Wait(other.point_behind()));
        }
        stream.put(work);
        for other in &blocking {
            other.put(Work::Wait(stream.point_behind()));
        }
        // A call that is recorded returns when its work is done.
        if settings().records {
            self.awaited.push(stream.point_behind());
        }
        Ok(())
    }

    /// Makes the call under way wait for all work that is now in a stream.
    pub(crate) fn wait_for(&mut self, handle: usize) -> Result<(), Status> {
        let stream = self.stream(handle)?;
        stream.lane.context.see_remote_writes();
        self.awaited.push(stream.point_behind());
        Ok(())
    }

    pub(crate) fn is_captured(&self, stream: usize) -> bool {
        self.captures.iter().any(|capture| capture.stream == stream)
    }

    /// Whether a stream that waits for the default stream is being captured.
    pub(crate) fn blocking_stream_is_captured(&self) -> bool {
        self.captures.iter().any(|capture| {
            let captured = self.objects.get(&capture.stream);
            matches!(captured, Some(Object::Stream(stream)) if stream.is_blocking)
        })
    }

    pub(crate) fn begin_capture(&mut self, stream: usize) -> Result<(), Status> {
        if stream <= 2 {
            return Err(CAPTURE_UNSUPPORTED);
        }
        self.stream(stream)?;
        if self.is_captured(stream) {
            return Err(INVALID_VALUE);
        }
        self.captures.push(Capture { stream, thread: thread(), is_invalid: false });
        Ok(())
    }

    /// Ends the capture of a stream. Fails if a call came that is not allowed during a capture.
    pub(crate) fn end_capture(&mut self, stream: usize) -> Result<(), Status> {
        let at = self.captures.iter().position(|capture| capture.stream == stream).ok_or(INVALID_VALUE)?;
        if self.captures.remove(at).is_invalid { Err(CAPTURE_INVALIDATED) } else { Ok(()) }
    }

    /// Checks that a context is current and that this thread captures nothing. Used by calls that are not allowed
    /// during a capture; they invalidate it.
    pub(crate) fn outside_of_captures(&mut self) -> Result<(), Status> {
        self.in_context()?;
        match self.captures.iter_mut().find(|capture| capture.thread == thread()) {
            Some(capture) => {
                capture.is_invalid = true;
                Err(CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// Records an event in a stream. Real drivers also do that in a stream that is being captured.
    pub(crate) fn record_event(&mut self, event: usize, handle: usize) -> Result<(), Status> {
        let context = self.stream(handle)?.lane.context.handle;
        let is_captured = self.is_captured(handle);
        let event = self.event(event)?;
        if event.context != context {
            return Err(INVALID_HANDLE);
        }
        if is_captured {
            return Err(NOT_SUPPORTED);
        }
        let point = Point::new();
        event.point = Some(Arc::clone(&point));
        self.put(handle, Work::Record(point))
    }

    /// Makes a stream wait for an event. While the stream is being captured, it may not wait for other streams.
    pub(crate) fn wait_for_event(&mut self, handle: usize, event: usize) -> Result<(), Status> {
        self.stream(handle)?;
        let point = self.event(event)?.point.clone();
        match point {
            Some(_) if self.is_captured(handle) => Err(CAPTURE_ISOLATION),
            Some(point) if !is_left_out() => self.put(handle, Work::Wait(point)),
            _ => Ok(()),
        }
    }

    /// Where an event was recorded, if the host may ask for that.
    pub(crate) fn point_of(&mut self, event: usize) -> Result<Option<Arc<Point>>, Status> {
        self.outside_of_captures()?;
        Ok(self.event(event)?.point.clone())
    }
}

/// Checks that a range of known memory does not end behind its allocation.
fn holds(address: u64, bytes: usize) -> Result<(), Status> {
    match blocks().find(address, bytes) {
        Found::Past => Err(INVALID_VALUE),
        _ => Ok(()),
    }
}

impl Work {
    /// The addresses and lengths of the memory that it is given with. That of a kernel is checked as it runs.
    fn ranges(&self) -> Vec<(u64, usize)> {
        match self {
            Work::Copy { source, target, bytes } => vec![(*source, *bytes), (*target, *bytes)],
            Work::Write { target, bytes } => vec![(*target, bytes.len())],
            Work::Fill { target, pattern, count } => vec![(*target, pattern.len() * count)],
            Work::WriteNumber { address, .. } | Work::AwaitNumber { address, .. } => vec![(*address, 4)],
            _ => Vec::new(),
        }
    }
}
