//! Points in streams: the host asks whether they are reached.
//!
//! If the device has words for streams, the stream writes a word at the point, and the host reads it without calling the
//! driver: the driver could make that call wait for another one that waits for a gate, which only this host opens.
//! Otherwise the point is an event.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::device::{Buffer, Device, DeviceError, MemoryKind, Pointer, StreamWords, WordOperation, offered};
use crate::field::{BoundField, LastWrite};

/// Makes the marks and words of a part.
pub(crate) struct Marks<D: Device> {
    device: D,
    /// Pinned memory with words, and the number of those in use.
    words: Option<(Arc<D::Buffer>, usize)>,
}

/// The words that are allocated together: a page.
const WORDS: usize = 1024;

/// A word of pinned memory, which the device and this host access as an atomic alone.
#[derive(Debug)]
pub(crate) struct Word<D: Device> {
    memory: Arc<D::Buffer>,
    index: usize,
}

/// A point that is recorded anew in each exchange; the host asks until it is reached.
#[derive(Debug)]
pub(crate) struct Mark<D: Device> {
    event: D::Event,
    word: Option<Word<D>>,
    patience: Patience,
}

/// The time for which the host waits for a word. A device that has failed writes none, so that the host then asks the
/// driver for an error.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// When the host began to wait.
    since: Cell<Option<Instant>>,
}

/// The time until the host asks the driver.
const PATIENCE: Duration = Duration::from_secs(2);

impl Patience {
    /// Begins anew.
    pub(crate) fn begin(&self) {
        self.since.set(None);
    }

    /// Whether the time is over since the first of these calls, or since the last time that it was over.
    pub(crate) fn is_over(&self) -> bool {
        let now = Instant::now();
        let since = self.since.get().unwrap_or(now);
        let is_over = now - since > PATIENCE;
        self.since.set(Some(if is_over { now } else { since }));
        is_over
    }
}

/// The words of the streams of a device that has them.
pub(crate) fn words_of<D: Device>(device: &D) -> Result<&dyn StreamWords<D::Stream, D::Copies>, DeviceError> {
    offered(device.stream_words(), "words in streams", device.id())
}

impl<D: Device> Marks<D> {
    pub(crate) fn new(device: &D) -> Marks<D> {
        Marks { device: device.clone(), words: None }
    }

    pub(crate) fn mark(&mut self) -> Result<Mark<D>, DeviceError> {
        let has_words = self.device.stream_words().is_some();
        let word = if has_words { Some(self.word()?) } else { None };
        Ok(Mark { event: self.device.create_event(false)?, word, patience: Patience::default() })
    }

    /// A word that is 0. The device has words for streams.
    pub(crate) fn word(&mut self) -> Result<Word<D>, DeviceError> {
        let (memory, used) = match self.words.take().filter(|(_, used)| *used < WORDS) {
            Some(words) => words,
            None => {
                let bytes = WORDS * size_of::<u32>();
                (Arc::new(self.device.allocate(bytes, MemoryKind::Pinned)?), 0)
            }
        };
        let word = Word { memory: Arc::clone(&memory), index: used };
        self.words = Some((memory, used + 1));
        Ok(word)
    }
}

impl<D: Device> Clone for Word<D> {
    fn clone(&self) -> Word<D> {
        Word { memory: Arc::clone(&self.memory), index: self.index }
    }
}

impl<D: Device> Word<D> {
    pub(crate) fn pointer(&self) -> Pointer {
        self.memory.pointer().offset((self.index * size_of::<u32>()) as isize)
    }

    pub(crate) fn load(&self) -> u32 {
        self.atomic().load(Ordering::Acquire)
    }

    pub(crate) fn store(&self, number: u32) {
        self.atomic().store(number, Ordering::Release);
    }

    fn atomic(&self) -> &AtomicU32 {
        // SAFETY: the word lies in pinned memory that `memory` keeps, at a multiple of 4, zeroed when it was allocated,
        // and is accessed by the device and through this alone.
        unsafe { AtomicU32::from_ptr(self.pointer().as_ptr().cast()) }
    }
}

impl<D: Device> Mark<D> {
    /// Puts the mark at the present end of `stream`. The host has seen its last recording reached, or asks no more.
    pub(crate) fn record(&self, device: &D, stream: &D::Stream) -> Result<(), DeviceError> {
        self.patience.begin();
        let Some(word) = &self.word else { return device.record(&self.event, stream) };
        word.store(0);
        // SAFETY: the word lives as long as the part, which outlives its work in streams.
        unsafe { words_of(device)?.put_words(&[WordOperation::Write(word.pointer(), 1)], stream) }
    }

    /// Whether the latest recording is reached. Does not block.
    pub(crate) fn is_reached(&self, device: &D) -> Result<bool, DeviceError> {
        let Some(word) = &self.word else { return device.query(&self.event) };
        if word.load() != 0 {
            return Ok(true);
        }
        if self.patience.is_over() {
            // The event was never recorded: any answer but an error says nothing.
            device.query(&self.event)?;
        }
        Ok(false)
    }

    /// With an event, blocks until the latest recording is reached. With a word, returns at once: the caller asks again.
    pub(crate) fn wait(&self, device: &D) -> Result<(), DeviceError> {
        if self.word.is_some() { Ok(()) } else { device.host_wait(&self.event) }
    }
}

/// The events at which all halos of a part are filled: one for even exchanges and one for odd ones, since the end of
/// one exchange may still be waited for while the next is put into streams.
#[derive(Debug)]
pub(crate) struct Unpacked<D: Device> {
    device: D,
    pub(crate) events: [D::Event; 2],
}

impl<D: Device> Unpacked<D> {
    /// Creates the events for a part with these `fields`. From now on, access to them from the host waits for the
    /// events.
    pub(crate) fn new(device: &D, fields: &[(usize, BoundField)]) -> Result<Arc<Unpacked<D>>, DeviceError> {
        let events = [device.create_event(false)?, device.create_event(false)?];
        let unpacked = Arc::new(Unpacked { device: device.clone(), events });
        for storage in fields.iter().flat_map(|(_, field)| field.storages()) {
            storage.written_by(&unpacked);
        }
        Ok(unpacked)
    }
}

impl<D: Device> LastWrite for Unpacked<D> {
    fn wait(&self) -> Result<(), DeviceError> {
        // WAIT: the host waits for unpacking before it reads a field.
        self.events.iter().try_for_each(|event| self.device.host_wait(event))
    }
}
