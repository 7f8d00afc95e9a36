//! The own streams of a part, in which packing, copies of own cells and copies from neighbours run.

use crate::device::{Device, DeviceError, Priority, Stream as _};
use crate::exchange::options::Schedule;

/// A queued stream for exchanges that overlap with other work and, if the device has immediate streams, one for
/// exchanges whose caller waits.
pub(crate) struct OwnStreams<D: Device> {
    queued: D::Stream,
    immediate: Option<D::Stream>,
    /// Whether the current exchange is in the immediate stream.
    is_immediate: bool,
}

/// Maximum size in bytes of a list that one thread copies faster than several, which would have to wake and fetch the
/// data.
const BYTES_OF_ONE_THREAD: usize = 2 << 20;

impl<D: Device> OwnStreams<D> {
    /// Creates the streams.
    pub(crate) fn new(device: &D) -> Result<OwnStreams<D>, DeviceError> {
        let queued = device.create_stream(Priority::High)?;
        let has_immediate = device.info().capabilities.immediate_streams;
        let immediate = has_immediate.then(|| device.create_immediate_stream()).transpose()?;
        Ok(OwnStreams { queued, immediate, is_immediate: false })
    }

    /// Drops the immediate stream if the largest list of copies is so large that several threads of the device are
    /// faster, and this rank has several: `ranks` ranks of this process share the device.
    pub(crate) fn drop_immediate_if_slower(&mut self, device: &D, list_bytes: usize, ranks: usize) {
        if list_bytes > BYTES_OF_ONE_THREAD && device.info().compute_units > ranks {
            self.immediate = None;
        }
    }

    /// Chooses the stream of the exchange that begins. If it changes from the queued to the immediate stream, blocks
    /// until the queued one is done.
    pub(crate) fn choose(&mut self, device: &D, schedule: &Schedule<'_>) -> Result<(), DeviceError> {
        let is_immediate = self.immediate.is_some() && matches!(schedule, Schedule::Blocking);
        if is_immediate && !self.is_immediate {
            device.synchronize(&self.queued)?;
        }
        self.is_immediate = is_immediate;
        Ok(())
    }

    /// The stream of the current exchange.
    pub(crate) fn now(&self) -> &D::Stream {
        self.immediate.as_ref().filter(|_| self.is_immediate).unwrap_or(&self.queued)
    }

    /// The handles of both streams; twice the same if there is only one.
    pub(crate) fn handles(&self) -> [usize; 2] {
        [self.queued.handle(), self.immediate.as_ref().unwrap_or(&self.queued).handle()]
    }
}
