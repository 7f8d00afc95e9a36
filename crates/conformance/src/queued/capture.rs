//! What streams are given while they are captured, and how it is done later on.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use haloport_core::device::{Captured, DeviceError, Flag};

use super::queue::{Word, Work};
use super::{Captures, QueuedStream};

/// A capture that goes on.
pub(super) struct Capture {
    pub(super) number: usize,
    thread: ThreadId,
    /// Its streams by their numbers, each with what it was given; it was begun in the first.
    streams: Vec<(usize, Vec<Stage>)>,
}

/// What a stream is given in a capture.
#[derive(Clone)]
enum Stage {
    Do(Work),
    /// Comes when that stream has done so much.
    After {
        stream: usize,
        stages: usize,
    },
}

/// A place in a stream of a capture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    capture: usize,
    stream: usize,
    stages: usize,
}

/// What was captured.
pub(super) struct QueuedWork(Arc<Vec<Vec<Stage>>>);

/// A flag.
#[derive(Debug)]
pub(super) struct QueuedFlag {
    captures: Captures,
    word: Arc<Word>,
}

impl Capture {
    pub(super) fn new(number: usize, stream: usize) -> Capture {
        Capture { number, thread: thread::current().id(), streams: vec![(stream, Vec::new())] }
    }

    pub(super) fn is_of_this_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// Which of its streams has this number.
    pub(super) fn position(&self, number: usize) -> Option<usize> {
        self.streams.iter().position(|(stream, _)| *stream == number)
    }

    pub(super) fn put(&mut self, stream: usize, work: Work) {
        self.streams[stream].1.push(Stage::Do(work));
    }

    /// Where a stream is now.
    pub(super) fn place(&self, stream: usize) -> Place {
        Place { capture: self.number, stream, stages: self.streams[stream].1.len() }
    }

    /// Whether a place is in this capture.
    pub(super) fn has(&self, place: Place) -> bool {
        place.capture == self.number
    }

    /// Has the stream of this number wait, which joins the capture if it is not there.
    pub(super) fn wait(&mut self, number: usize, place: Place) {
        let stream = self.position(number).unwrap_or_else(|| {
            self.streams.push((number, Vec::new()));
            self.streams.len() - 1
        });
        self.streams[stream].1.push(Stage::After { stream: place.stream, stages: place.stages });
    }

    /// What was captured; `None` where the first stream does not wait for all that others were given.
    pub(super) fn end(self) -> Option<QueuedWork> {
        let stages: Vec<Vec<Stage>> = self.streams.into_iter().map(|(_, stages)| stages).collect();
        let waited_for = |which: usize| {
            let of = |stage: &Stage| match stage {
                Stage::After { stream, stages } if *stream == which => Some(*stages),
                _ => None,
            };
            stages[0].iter().filter_map(of).max().unwrap_or(0)
        };
        let is_joined = (1..stages.len()).all(|which| waited_for(which) == stages[which].len());
        is_joined.then(|| QueuedWork(Arc::new(stages)))
    }
}

impl Captured<QueuedStream> for QueuedWork {
    unsafe fn replay(&self, stream: &QueuedStream) -> Result<(), DeviceError> {
        let stages = Arc::clone(&self.0);
        stream.queue.put(Arc::new(move || perform(&stages)))
    }
}

/// Does what was captured, one after the other, as a device with room for one may: the first stream as far as
/// it can go, and the others when it has to wait for them.
fn perform(streams: &[Vec<Stage>]) -> Result<(), DeviceError> {
    let mut done = vec![0; streams.len()];
    loop {
        let can = |which: &usize| match streams[*which].get(done[*which]) {
            Some(Stage::Do(_)) => true,
            Some(Stage::After { stream, stages }) => done[*stream] >= *stages,
            None => false,
        };
        let Some(next) = (0..streams.len()).find(can) else { return Ok(()) };
        if let Stage::Do(work) = &streams[next][done[next]] {
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
