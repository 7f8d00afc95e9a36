//! The own streams of a part, in which packing, copies of own cells and copies from neighbours run, and the one in which
//! packed chunks are moved; and the ranks of this process that use a device, since a waiting stream of one can hold back
//! another.
//!
//! Streams may share queues of the hardware. Work that waits in a queue holds back what is put behind it, in any stream.
//! So work that a neighbour needs before it can end a wait must not come behind that wait:
//!
//! - Ranks that are threads share the queues. A gate or an awaited number of one rank could hold back the packing of
//!   another rank, and so wait for ever for its message.
//! - *Late copies* are put into a stream by the host in the course of an exchange, and neighbours wait for them. A
//!   neighbour may start the next exchange only then, but this rank's next exchange may be in its streams before.
//!
//! All other work of an exchange is put into streams by its `start` or `finish`, in the same order on all ranks.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::comm::Communicator;
use crate::device::{Device, DeviceError, DeviceId, Priority, Stream as _};
use crate::exchange::options::Schedule;
use crate::lock::lock;

/// A queued stream for exchanges that overlap with other work and, if the device has immediate streams, one for
/// exchanges whose caller waits.
pub(crate) struct OwnStreams<D: Device> {
    queued: D::Stream,
    immediate: Option<D::Stream>,
    /// Whether the current exchange is in the immediate stream.
    is_immediate: bool,
    /// `None` if batches are moved in the stream that packs them.
    pub(crate) moves: Option<MoveStream<D>>,
}

/// The stream in which packed chunks are moved to memory of the host. In the stream that packs, the next chunk would be
/// packed only after the one before is moved; and received chunks, unpacked only after all sent ones are moved.
pub(crate) struct MoveStream<D: Device> {
    pub(crate) stream: D::Stream,
    /// The event at which the batch that is moved next is packed.
    packed: D::Event,
    /// The event at which all batches of an exchange are moved.
    moved: D::Event,
}

/// Maximum size in bytes of a list that one thread copies faster than several, which would have to wake and fetch the
/// data.
const BYTES_OF_ONE_THREAD: usize = 2 << 20;

impl<D: Device> OwnStreams<D> {
    pub(crate) fn new(device: &D) -> Result<OwnStreams<D>, DeviceError> {
        let queued = device.create_stream(Priority::High)?;
        let immediate = device.immediate_streams().map(|it| it.create_immediate_stream()).transpose()?;
        Ok(OwnStreams { queued, immediate, is_immediate: false, moves: None })
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

    pub(crate) fn add_moves(&mut self, device: &D) -> Result<(), DeviceError> {
        self.moves = Some(MoveStream {
            stream: device.create_stream(Priority::High)?,
            packed: device.create_event(false)?,
            moved: device.create_event(false)?,
        });
        Ok(())
    }

    /// Blocks until the work in all streams of the current exchange is done. The first error is returned.
    pub(crate) fn synchronize(&self, device: &D) -> Result<(), DeviceError> {
        let done = device.synchronize(self.now());
        let moved = self.moves.as_ref().map_or(Ok(()), |moves| device.synchronize(&moves.stream));
        done.and(moved)
    }

    /// The handles of both streams that pack; twice the same if there is only one.
    pub(crate) fn handles(&self) -> [usize; 2] {
        [self.queued.handle(), self.immediate.as_ref().unwrap_or(&self.queued).handle()]
    }
}

impl<D: Device> MoveStream<D> {
    /// Makes later packing in `packing` wait for the moves of the last exchange, which read the memory that it writes.
    pub(crate) fn begin(&self, device: &D, packing: &D::Stream) -> Result<(), DeviceError> {
        device.stream_wait(packing, &self.moved)
    }

    /// Makes later moves wait for the packing that is in `packing` now.
    pub(crate) fn follow(&self, device: &D, packing: &D::Stream) -> Result<(), DeviceError> {
        device.record(&self.packed, packing)?;
        // WAIT: the copy that moves messages follows packing.
        device.stream_wait(&self.stream, &self.packed)
    }

    /// Ends the moves of an exchange.
    pub(crate) fn end(&self, device: &D) -> Result<(), DeviceError> {
        device.record(&self.moved, &self.stream)
    }

    /// Whether the moves that were ended last are done. Does not block.
    pub(crate) fn is_ended(&self, device: &D) -> Result<bool, DeviceError> {
        device.query(&self.moved)
    }
}

/// The number of parts that each rank of this process has on each device.
static USERS: Counts<(DeviceId, usize)> = Mutex::new(BTreeMap::new());

/// The number of exchanges under way on each device that have late copies.
static LATE_COPIES: Counts<DeviceId> = Mutex::new(BTreeMap::new());

/// Keys whose number is 0 are removed.
type Counts<K> = Mutex<BTreeMap<K, usize>>;

/// Counts a part of a rank as a user of a device until it is dropped, after the memory of the part.
#[derive(Debug)]
pub(crate) struct DeviceUser {
    device: DeviceId,
    rank: usize,
}

/// Late copies of an exchange on a device, until this is dropped.
#[derive(Debug)]
pub(crate) struct LateCopies(DeviceId);

impl DeviceUser {
    pub(crate) fn new(device: DeviceId, comm: &Communicator) -> DeviceUser {
        let rank = comm.rank_of_process();
        count_up(&USERS, (device, rank));
        DeviceUser { device, rank }
    }

    /// Whether other ranks of this process use the device, too.
    pub(crate) fn has_others(&self) -> bool {
        let users = lock(&USERS);
        let mut on_device = users.range((self.device, 0)..=(self.device, usize::MAX));
        on_device.any(|((_, rank), _)| *rank != self.rank)
    }

    /// Whether exchanges under way on the device have late copies.
    pub(crate) fn has_late_copies(&self) -> bool {
        lock(&LATE_COPIES).contains_key(&self.device)
    }
}

impl Drop for DeviceUser {
    fn drop(&mut self) {
        count_down(&USERS, (self.device, self.rank));
    }
}

impl LateCopies {
    pub(crate) fn new(device: DeviceId) -> LateCopies {
        count_up(&LATE_COPIES, device);
        LateCopies(device)
    }
}

impl Drop for LateCopies {
    fn drop(&mut self) {
        count_down(&LATE_COPIES, self.0);
    }
}

fn count_up<K: Ord>(counts: &Counts<K>, key: K) {
    *lock(counts).entry(key).or_default() += 1;
}

fn count_down<K: Ord>(counts: &Counts<K>, key: K) {
    let mut counts = lock(counts);
    match counts.get_mut(&key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(&key)),
    }
}

/// Guard: while it lives, streams of the device may wait for neighbours, so no memory of it is freed.
#[derive(Debug)]
pub(crate) struct DeferredFrees<D: Device>(D);

impl<D: Device> DeferredFrees<D> {
    pub(crate) fn new(device: &D) -> DeferredFrees<D> {
        device.defer_frees();
        DeferredFrees(device.clone())
    }
}

impl<D: Device> Drop for DeferredFrees<D> {
    fn drop(&mut self) {
        self.0.resume_frees();
    }
}
