//! Work in streams: done at once, or, if the stream captures, whenever the graph is launched.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::objects::{Capture, CapturedAt, Object, Work};
use crate::state::{State, thread};
use crate::status::{
    CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_UNJOINED, CAPTURE_UNSUPPORTED, CAPTURED_EVENT,
    INVALID_HANDLE, INVALID_VALUE, Status,
};

impl State {
    /// Does `work`, or captures it if the stream captures.
    ///
    /// # Safety
    /// When the work is done, the memory outside of known allocations that it reads and writes is valid.
    pub(crate) unsafe fn put(&mut self, stream: usize, work: Vec<Work>) -> Result<(), Status> {
        self.stream(stream)?;
        let mut ends = work.iter().flat_map(Work::ranges);
        ends.try_for_each(|(address, bytes)| self.holds(address, bytes).map(|_| ()))?;
        match self.capture_of(stream) {
            Some(capture) => {
                *capture.given.entry(stream).or_default() += 1;
                capture.work.extend(work);
                Ok(())
            }
            // SAFETY: the caller's promise.
            None => unsafe { self.perform(&work) },
        }
    }

    /// # Safety
    /// As for [`put`](State::put).
    pub(crate) unsafe fn perform(&self, work: &[Work]) -> Result<(), Status> {
        work.iter().try_for_each(|work| {
            // SAFETY: `holds` has checked known allocations; the rest is the caller's promise.
            unsafe {
                match work {
                    Work::Copy { source, target, bytes } => {
                        self.holds(*target, *bytes)?.copy_from(self.holds(*source, *bytes)?, *bytes);
                    }
                    Work::Fill { target, pattern, count } => {
                        let (to, bytes) = (self.holds(*target, pattern.len() * count)?, pattern.len());
                        match pattern[..] {
                            [byte] => to.write_bytes(byte, *count),
                            _ => (0..*count)
                                .for_each(|at| to.add(at * bytes).copy_from(pattern.as_ptr(), bytes)),
                        }
                    }
                    Work::Number { target, number } => {
                        let to = self.holds(*target, size_of::<u32>())?.cast::<u32>();
                        AtomicU32::from_ptr(to).store(*number, Ordering::Release);
                    }
                }
            }
            Ok(())
        })
    }

    pub(crate) fn begin_capture(&mut self, stream: usize) -> Result<(), Status> {
        if !matches!(self.objects.get(&stream), Some(Object::Stream { .. })) {
            return Err(INVALID_HANDLE);
        }
        if self.capture_of(stream).is_some() {
            return Err(INVALID_VALUE);
        }
        let given = BTreeMap::from([(stream, 0)]);
        let capture =
            Capture { thread: thread(), work: Vec::new(), given, joined: BTreeMap::new(), is_invalid: false };
        self.captures.insert(stream, capture);
        Ok(())
    }

    /// Ends a capture and returns its work.
    pub(crate) fn end_capture(&mut self, stream: usize) -> Result<Vec<Work>, Status> {
        let capture = self.captures.remove(&stream).ok_or(INVALID_VALUE)?;
        let joined = |of: &usize| capture.joined.get(of).copied().unwrap_or(0);
        if capture.is_invalid {
            return Err(CAPTURE_INVALIDATED);
        }
        if capture.given.iter().any(|(of, given)| *of != stream && joined(of) < *given) {
            return Err(CAPTURE_UNJOINED);
        }
        Ok(capture.work)
    }

    /// Checks that a context is current and that this thread captures nothing. Used by calls that are not allowed
    /// during a capture; they invalidate it.
    pub(crate) fn outside_of_captures(&mut self) -> Result<(), Status> {
        self.in_context()?;
        match self.captures.values_mut().find(|capture| capture.thread == thread()) {
            Some(capture) => {
                capture.is_invalid = true;
                Err(CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// Records an event in a stream.
    pub(crate) fn record_event(&mut self, event: usize, stream: usize) -> Result<(), Status> {
        self.stream(stream)?;
        let origin = self.origin_of(stream);
        let at = origin.map(|origin| {
            let given = self.captures.get(&origin).and_then(|capture| capture.given.get(&stream));
            CapturedAt { origin, stream, given: given.copied().unwrap_or(0) }
        });
        match self.objects.get_mut(&event) {
            Some(Object::Event { recorded, captured, .. }) => {
                *captured = at;
                *recorded |= at.is_none();
                Ok(())
            }
            _ => Err(INVALID_HANDLE),
        }
    }

    /// Makes a stream wait for an event. If the event is in a capture, the stream joins the capture.
    pub(crate) fn wait_for_event(&mut self, stream: usize, event: usize) -> Result<(), Status> {
        self.stream(stream)?;
        let Some(Object::Event { recorded, captured, .. }) = self.objects.get(&event) else {
            return Err(INVALID_HANDLE);
        };
        let (recorded, captured, origin) = (*recorded, *captured, self.origin_of(stream));
        let Some(at) = captured else {
            return if recorded && origin.is_some() { Err(CAPTURE_ISOLATION) } else { Ok(()) };
        };
        let Some(capture) = self.captures.get_mut(&at.origin) else { return Err(CAPTURED_EVENT) };
        if origin.is_some_and(|origin| origin != at.origin) {
            return Err(CAPTURE_ISOLATION);
        }
        capture.given.entry(stream).or_default();
        if stream != at.stream {
            let joined = capture.joined.entry(at.stream).or_default();
            *joined = at.given.max(*joined);
        }
        Ok(())
    }

    /// Checks that the host may query an event.
    pub(crate) fn ask_for_event(&mut self, event: usize) -> Result<(), Status> {
        self.outside_of_captures()?;
        match self.objects.get(&event) {
            Some(Object::Event { captured: None, .. }) => Ok(()),
            Some(Object::Event { .. }) => Err(CAPTURED_EVENT),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// The stream in which the capture of a stream began.
    fn origin_of(&self, stream: usize) -> Option<usize> {
        let found = self.captures.iter().find(|(_, capture)| capture.given.contains_key(&stream));
        found.map(|(origin, _)| *origin)
    }

    /// The capture of a stream, if it captures.
    pub(crate) fn capture_of(&mut self, stream: usize) -> Option<&mut Capture> {
        self.captures.values_mut().find(|capture| capture.given.contains_key(&stream))
    }
}
