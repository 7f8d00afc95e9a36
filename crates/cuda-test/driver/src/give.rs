//! Giving work to streams: it is put into a queue, or, if the stream captures, becomes a node of a graph.

use std::sync::Arc;

use crate::left_out::is_left_out;
use crate::memory::blocks::{Found, blocks};
use crate::objects::{Capture, Object};
use crate::settings::settings;
use crate::state::{State, thread};
use crate::status::{
    CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_UNJOINED, CAPTURE_UNSUPPORTED, CAPTURED_EVENT,
    INVALID_HANDLE, INVALID_VALUE, Status,
};
use crate::work::job::{Graph, Node, Planes, Work};
use crate::work::point::Point;

impl State {
    /// Puts work into a stream, or captures it if the stream captures.
    pub(crate) fn put(&mut self, handle: usize, work: Work) -> Result<(), Status> {
        let stream = self.stream(handle)?;
        work.ranges().into_iter().try_for_each(|(address, bytes)| holds(address, bytes))?;
        if let Some(capture) = self.captures.iter_mut().find(|capture| capture.has(handle)) {
            let after = capture.tip(handle).map(std::mem::take).unwrap_or_default();
            capture.nodes.push(Node { work, after });
            let node = capture.nodes.len() - 1;
            capture.tip(handle).into_iter().for_each(|tip| tip.push(node));
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

    pub(crate) fn captures(&self, stream: usize) -> bool {
        self.captures.iter().any(|capture| capture.has(stream))
    }

    /// Whether a stream that waits for the default stream captures.
    pub(crate) fn blocking_stream_captures(&self) -> bool {
        self.captures.iter().any(|capture| {
            let origin = self.objects.get(&capture.origin);
            matches!(origin, Some(Object::Stream(stream)) if stream.is_blocking)
        })
    }

    pub(crate) fn begin_capture(&mut self, stream: usize) -> Result<(), Status> {
        if stream <= 2 {
            return Err(CAPTURE_UNSUPPORTED);
        }
        self.stream(stream)?;
        if self.captures(stream) {
            return Err(INVALID_VALUE);
        }
        self.captured += 1;
        self.captures.push(Capture {
            number: self.captured,
            origin: stream,
            thread: thread(),
            nodes: Vec::new(),
            tips: vec![(stream, Vec::new())],
            is_invalid: false,
        });
        Ok(())
    }

    /// Ends a capture and returns its work.
    pub(crate) fn end_capture(&mut self, stream: usize) -> Result<Graph, Status> {
        let at = self.captures.iter().position(|capture| capture.origin == stream).ok_or(INVALID_VALUE)?;
        let mut capture = self.captures.remove(at);
        let ends = capture.tip(stream).map(std::mem::take).unwrap_or_default();
        let graph = Graph { nodes: capture.nodes };
        if capture.is_invalid {
            Err(CAPTURE_INVALIDATED)
        } else if !graph.all_before(&ends) && settings().without_wait.is_none() {
            Err(CAPTURE_UNJOINED)
        } else {
            Ok(graph)
        }
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

    /// Records an event in a stream.
    pub(crate) fn record_event(&mut self, event: usize, handle: usize) -> Result<(), Status> {
        let context = self.stream(handle)?.lane.context.handle;
        if self.event(event)?.context != context {
            return Err(INVALID_HANDLE);
        }
        let found = self.captures.iter_mut().find_map(|capture| {
            let number = capture.number;
            capture.tip(handle).map(|tip| (number, tip.clone()))
        });
        let event = self.event(event)?;
        let is_captured = found.is_some();
        event.captured = found;
        if is_captured {
            return Ok(());
        }
        let point = Point::new();
        event.point = Some(Arc::clone(&point));
        self.put(handle, Work::Record(point))
    }

    /// Makes a stream wait for an event. If the event is in a capture, the stream joins the capture.
    pub(crate) fn wait_for_event(&mut self, handle: usize, event: usize) -> Result<(), Status> {
        self.stream(handle)?;
        let event = self.event(event)?.clone();
        let origin = self.captures.iter().find(|capture| capture.has(handle)).map(|capture| capture.number);
        match (event.captured, event.point) {
            (Some((number, before)), _) => {
                let found = self.captures.iter_mut().find(|capture| capture.number == number);
                let capture = found.ok_or(CAPTURED_EVENT)?;
                if origin.is_some_and(|origin| origin != number) {
                    return Err(CAPTURE_ISOLATION);
                }
                // It joins the capture even if it does not wait there.
                let before = if is_left_out() { Vec::new() } else { before };
                match capture.tip(handle) {
                    Some(tip) => tip.extend(before),
                    None => capture.tips.push((handle, before)),
                }
                Ok(())
            }
            (None, None) => Ok(()),
            (None, Some(_)) if origin.is_some() => Err(CAPTURE_ISOLATION),
            (None, Some(_)) if is_left_out() => Ok(()),
            (None, Some(point)) => self.put(handle, Work::Wait(point)),
        }
    }

    /// Where an event was recorded, if the host may ask for that.
    pub(crate) fn point_of(&mut self, event: usize) -> Result<Option<Arc<Point>>, Status> {
        self.outside_of_captures()?;
        let event = self.event(event)?;
        if event.captured.is_some() { Err(CAPTURED_EVENT) } else { Ok(event.point.clone()) }
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
            Work::Rows { source, target, row_bytes, rows, planes } => {
                let end = |side: &Planes| ((planes - 1) * side.height + rows - 1) * side.pitch + row_bytes;
                vec![(source.address, end(source)), (target.address, end(target))]
            }
            Work::WriteNumber { address, .. } | Work::AwaitNumber { address, .. } => vec![(*address, 4)],
            _ => Vec::new(),
        }
    }
}
