//! The streams of a part, apart from those of the caller: packing, copies to oneself and from neighbours run there.

use crate::device::{Device, DeviceError, Priority, Stream as _};
use crate::exchange::options::Schedule;

/// One stream for exchanges that go on while the caller does something else, and, where the device has such streams, an
/// immediate one for those whose caller waits anyway.
pub(crate) struct OwnStreams<D: Device> {
    queued: D::Stream,
    immediate: Option<D::Stream>,
    /// Whether the present exchange is in the immediate one.
    is_immediate: bool,
}

/// Lists of up to so many bytes are copied by one thread before others have woken and found the data.
const BYTES_OF_ONE_THREAD: usize = 2 << 20;

impl<D: Device> OwnStreams<D> {
    /// Makes the streams that the device has.
    pub(crate) fn new(device: &D) -> Result<OwnStreams<D>, DeviceError> {
        let queued = device.create_stream(Priority::High)?;
        let has_immediate = device.info().capabilities.immediate_streams;
        let immediate = has_immediate.then(|| device.create_immediate_stream()).transpose()?;
        Ok(OwnStreams { queued, immediate, is_immediate: false })
    }

    /// Keeps to the queued stream where several threads of the device have more to do with the largest list of copies than
    /// one, and are there for this rank: `ranks` of this process share the device.
    pub(crate) fn suit(&mut self, device: &D, list_bytes: usize, ranks: usize) {
        if list_bytes > BYTES_OF_ONE_THREAD && device.info().compute_units > ranks {
            self.immediate = None;
        }
    }

    /// Chooses the stream of the exchange that begins. Where it is the immediate one, and that of the last exchange was not,
    /// blocks until nothing is left to do in that.
    pub(crate) fn choose(&mut self, device: &D, schedule: &Schedule<'_>) -> Result<(), DeviceError> {
        let is_immediate = self.immediate.is_some() && matches!(schedule, Schedule::Blocking);
        if is_immediate && !self.is_immediate {
            device.synchronize(&self.queued)?;
        }
        self.is_immediate = is_immediate;
        Ok(())
    }

    /// That of the present exchange.
    pub(crate) fn now(&self) -> &D::Stream {
        self.immediate.as_ref().filter(|_| self.is_immediate).unwrap_or(&self.queued)
    }

    /// The handles of both, or twice that of the only one.
    pub(crate) fn handles(&self) -> [usize; 2] {
        [self.queued.handle(), self.immediate.as_ref().unwrap_or(&self.queued).handle()]
    }
}
