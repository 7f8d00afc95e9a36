//! The end of an exchange on the device. It may come after `finish` has returned: access from the host waits for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::mark::{Patience, Word};
use crate::device::{Device, DeviceError};
use crate::field::{BoundField, LastWrite};

/// The number of times that a host that waits for a word yields its core before it sleeps.
const YIELDS: u32 = 1000;
const SLEEP: Duration = Duration::from_micros(50);

/// The events at which all halos of a part are filled: one for even exchanges and one for odd ones, since the end of
/// one exchange may still be waited for while the next is put into streams.
#[derive(Debug)]
pub(crate) struct Unpacked<D: Device> {
    device: D,
    pub(crate) events: [D::Event; 2],
    /// The words that captured work sets to 1 at its end, where the last exchange was captured.
    words: Mutex<[Option<Word<D>>; 2]>,
}

impl<D: Device> Unpacked<D> {
    /// Creates the events for a part with these `fields`. From now on, access to them from the host waits for the
    /// events.
    pub(crate) fn new(device: &D, fields: &[(usize, BoundField)]) -> Result<Arc<Unpacked<D>>, DeviceError> {
        let events = [device.create_event(false)?, device.create_event(false)?];
        let unpacked = Arc::new(Unpacked { device: device.clone(), events, words: Mutex::default() });
        for storage in fields.iter().flat_map(|(_, field)| field.storages()) {
            storage.written_by(&unpacked);
        }
        Ok(unpacked)
    }

    /// The exchange of this `round` (modulo 2) ends when `word` is 1. It was 0 when the exchange was put into a stream.
    pub(crate) fn ends_with(&self, round: usize, word: &Word<D>) {
        self.words()[round] = Some(word.clone());
    }

    /// From now on, exchanges end with the events again. All captured work is done.
    pub(crate) fn forget_words(&self) {
        *self.words() = [None, None];
    }

    fn words(&self) -> MutexGuard<'_, [Option<Word<D>>; 2]> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> LastWrite for Unpacked<D> {
    fn wait(&self) -> Result<(), DeviceError> {
        let words = self.words().clone();
        for word in words.iter().flatten() {
            let patience = Patience::default();
            let mut rounds = 0_u32;
            while word.load() == 0 {
                rounds += 1;
                if rounds < YIELDS {
                    thread::yield_now()
                } else {
                    thread::sleep(SLEEP)
                }
                if patience.is_over() {
                    // A device that has failed sets no word. The event says nothing else: it is not recorded.
                    self.device.query(&self.events[0])?;
                }
            }
        }
        // WAIT: the host waits for unpacking before it reads a field.
        self.events.iter().try_for_each(|event| self.device.host_wait(event))
    }
}
