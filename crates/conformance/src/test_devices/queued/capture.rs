//! Captured work and its replay, and flags.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use haloport_core::device::{Captured, DeviceError, DeviceId, Flag};

use super::queue::{QueuedStream, Word, Work, lock};

/// The captures in progress.
#[derive(Debug, Clone, Default)]
pub(super) struct Captures(pub(super) Arc<Mutex<Vec<Capture>>>);

/// A capture in progress.
pub(super) struct Capture {
    pub(super) number: usize,
    thread: ThreadId,
    /// Its streams by their numbers, each with its tasks. The capture was begun in the first.
    streams: Vec<(usize, Vec<Task>)>,
}

/// A task of a stream in a capture.
#[derive(Clone)]
enum Task {
    Do(Work),
    /// Waits until that stream has done this number of tasks.
    After {
        stream: usize,
        tasks: usize,
    },
}

/// A position in a stream of a capture, behind a number of tasks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    capture: usize,
    stream: usize,
    tasks: usize,
}

/// Captured work: the tasks of each stream.
pub(super) struct QueuedWork(Arc<Vec<Vec<Task>>>);

/// A flag.
#[derive(Debug)]
pub(super) struct QueuedFlag {
    captures: Captures,
    word: Arc<Word>,
}

impl Captures {
    /// Does `work`, or captures it if the stream is captured.
    pub(super) fn put(&self, stream: &QueuedStream, work: Work) -> Result<(), DeviceError> {
        let mut captures = lock(&self.0);
        for capture in captures.iter_mut() {
            if let Some(index) = capture.index_of(stream.queue.number) {
                capture.put(index, work);
                return Ok(());
            }
        }
        // Work of an immediate stream is done here, and may take its time.
        drop(captures);
        stream.queue.put(work)
    }

    /// Begins a capture in a stream, by their numbers. It ends with what is returned, also if its work panics.
    pub(super) fn begin(&self, number: usize, stream: usize) -> CaptureGuard<'_> {
        lock(&self.0).push(Capture::new(number, stream));
        CaptureGuard { captures: self, number }
    }

    /// Refuses `call`, which no capture allows, if this thread captures.
    pub(super) fn refuse(&self, call: &'static str, device: DeviceId) -> Result<(), DeviceError> {
        if lock(&self.0).iter().any(Capture::is_of_this_thread) {
            let message = "it is not permitted while this thread captures".into();
            return Err(DeviceError::Driver { call, device, message });
        }
        Ok(())
    }
}

/// Ends a capture when it is dropped.
pub(super) struct CaptureGuard<'a> {
    captures: &'a Captures,
    number: usize,
}

impl CaptureGuard<'_> {
    /// What was captured; `None` if the first stream does not wait for all work of the others.
    pub(super) fn end(self) -> Option<QueuedWork> {
        self.remove()?.end()
    }

    fn remove(&self) -> Option<Capture> {
        let mut captures = lock(&self.captures.0);
        let position = captures.iter().position(|capture| capture.number == self.number)?;
        Some(captures.remove(position))
    }
}

impl Drop for CaptureGuard<'_> {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

impl Capture {
    pub(super) fn new(number: usize, stream: usize) -> Capture {
        Capture { number, thread: thread::current().id(), streams: vec![(stream, Vec::new())] }
    }

    pub(super) fn is_of_this_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// The index of the stream with this number among those of the capture.
    pub(super) fn index_of(&self, number: usize) -> Option<usize> {
        self.streams.iter().position(|(stream, _)| *stream == number)
    }

    pub(super) fn put(&mut self, stream: usize, work: Work) {
        self.streams[stream].1.push(Task::Do(work));
    }

    /// The present end of a stream.
    pub(super) fn end_of(&self, stream: usize) -> Position {
        Position { capture: self.number, stream, tasks: self.streams[stream].1.len() }
    }

    /// Whether a position is in this capture.
    pub(super) fn has(&self, position: Position) -> bool {
        position.capture == self.number
    }

    /// Makes the stream with this number wait for a position. If it is not part of the capture, it joins.
    pub(super) fn wait(&mut self, number: usize, position: Position) {
        let stream = self.index_of(number).unwrap_or_else(|| {
            self.streams.push((number, Vec::new()));
            self.streams.len() - 1
        });
        self.streams[stream].1.push(Task::After { stream: position.stream, tasks: position.tasks });
    }

    /// What was captured; `None` if the first stream does not wait for all work of the others.
    fn end(self) -> Option<QueuedWork> {
        let tasks: Vec<Vec<Task>> = self.streams.into_iter().map(|(_, tasks)| tasks).collect();
        let waited_for = |which: usize| {
            let of = |stage: &Task| match stage {
                Task::After { stream, tasks } if *stream == which => Some(*tasks),
                _ => None,
            };
            tasks[0].iter().filter_map(of).max().unwrap_or(0)
        };
        let is_joined = (1..tasks.len()).all(|which| waited_for(which) == tasks[which].len());
        is_joined.then(|| QueuedWork(Arc::new(tasks)))
    }
}

impl Captured<QueuedStream> for QueuedWork {
    unsafe fn replay(&self, stream: &QueuedStream) -> Result<(), DeviceError> {
        let tasks = Arc::clone(&self.0);
        stream.queue.put(Arc::new(move || perform(&tasks)))
    }
}

/// Does captured work task by task, as a device that does one thing at a time may: the first stream as far as it can go, and
/// the others if it has to wait for them.
fn perform(streams: &[Vec<Task>]) -> Result<(), DeviceError> {
    let mut done = vec![0; streams.len()];
    loop {
        let can = |which: &usize| match streams[*which].get(done[*which]) {
            Some(Task::Do(_)) => true,
            Some(Task::After { stream, tasks }) => done[*stream] >= *tasks,
            None => false,
        };
        let Some(next) = (0..streams.len()).find(can) else { return Ok(()) };
        if let Task::Do(work) = &streams[next][done[next]] {
            work()?;
        }
        done[next] += 1;
    }
}

impl QueuedFlag {
    pub(super) fn new(captures: &Captures) -> QueuedFlag {
        QueuedFlag { captures: captures.clone(), word: Arc::default() }
    }
}

impl Flag<QueuedStream> for QueuedFlag {
    fn is_set(&self) -> bool {
        self.word.read()
    }

    fn set(&self) {
        self.word.write(true);
    }

    fn clear(&self) {
        self.word.write(false);
    }

    fn set_in(&self, stream: &QueuedStream) -> Result<(), DeviceError> {
        let word = Arc::clone(&self.word);
        self.captures.put(
            stream,
            Arc::new(move || {
                word.write(true);
                Ok(())
            }),
        )
    }

    fn wait_in(&self, stream: &QueuedStream) -> Result<(), DeviceError> {
        let word = Arc::clone(&self.word);
        self.captures.put(
            stream,
            Arc::new(move || {
                word.wait();
                Ok(())
            }),
        )
    }
}

impl fmt::Debug for QueuedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueuedWork({} streams)", self.0.len())
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capture({} of {} streams)", self.number, self.streams.len())
    }
}
