//! Lists of copies that run in every exchange, and the buffers for messages that do not lie in fields.
//!
//! The transport reads and writes a buffer for each direction. If it can reach the memory of the device, the buffer lies
//! there. Otherwise it is pinned memory of the host, or plain memory if the device has no pinned memory.
//!
//! A *batch* is what one list of copies packs or unpacks: messages that are adjacent in the buffer. There are two ways
//! between the fields and a buffer in memory of the host:
//! - A small batch, and any received chunk, is packed straight into pinned memory or unpacked straight from it, by
//!   processors that store and load across the bus.
//! - A large batch is packed in the device's own memory and *moved* by one copy, which a copy engine does; or moved first
//!   and unpacked there. Meanwhile the processors are free, and the bus carries whole lines whatever the size of the
//!   elements. Small messages of such a batch are moved along: the batch is complete only when its large messages are.
//!   Without pinned memory, every batch is moved.

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use super::Lane;
use super::mark::words_of;
use super::streams::MoveStream;
use crate::device::{
    Buffer, CombineItem, Combining, CopyItem, Device, DeviceError, DeviceInfo, MemoryKind, NextReader,
    Pointer,
};
use crate::trace::Phase;
use crate::transport::Direction;

/// A list of copies, bound once and run in every exchange.
pub(crate) struct CopyList<D: Device> {
    copies: D::Copies,
    purpose: Purpose,
    pub(crate) bytes: usize,
    /// The copy that moves the messages between the buffers of device and host, if they are moved.
    host_copy: Option<HostCopy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Packing,
    /// Into a message that is left for a neighbour in place of fields.
    TakingBack,
    /// From a rank to itself.
    OwnCells,
    /// From messages, or straight from the fields of a neighbour.
    Unpacking,
    /// From messages and halos, combined with owned cells.
    Combining,
    /// Sets halo cells to zero.
    Zeroing,
}

impl Purpose {
    /// Whether the copies go from fields to a message.
    fn packs(self) -> bool {
        matches!(self, Purpose::Packing | Purpose::TakingBack)
    }
}

impl<D: Device> CopyList<D> {
    pub(crate) fn bind(
        device: &D,
        purpose: Purpose,
        items: Vec<CopyItem>,
        host_copy: Option<HostCopy>,
    ) -> Result<CopyList<D>, DeviceError> {
        let reader = if purpose.packs() { NextReader::Elsewhere } else { NextReader::Here };
        let bytes = bytes(&items);
        Ok(CopyList { copies: device.bind_copies(items, reader)?, purpose, bytes, host_copy })
    }

    /// Binds copies that combine what they read with what is at their targets.
    pub(crate) fn bind_combining(
        device: &dyn Combining<D::Copies>,
        items: Vec<CombineItem>,
    ) -> Result<CopyList<D>, DeviceError> {
        let bytes = items.iter().map(|item| item.copy.bytes()).sum();
        let copies = device.bind_combining(items)?;
        Ok(CopyList { copies, purpose: Purpose::Combining, bytes, host_copy: None })
    }

    /// The same, after the copy that moves the messages to the buffer of the device, if they are moved.
    pub(crate) fn after(self, host_copy: Option<HostCopy>) -> CopyList<D> {
        CopyList { host_copy, ..self }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Puts the copies into the stream of `lane`, and records their span in the time line.
    ///
    /// # Safety
    /// As for [`Device::run_copies`]. In addition, nothing else uses the messages in the buffers until the copies are
    /// done.
    pub(crate) unsafe fn run(&self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        if self.is_empty() {
            return Ok(());
        }
        let (phase, name) = match self.purpose {
            Purpose::Packing => (Phase::Packing, "pack"),
            Purpose::TakingBack => (Phase::Packing, "pack for a late neighbour"),
            Purpose::OwnCells => (Phase::Unpacking, "copy own cells"),
            Purpose::Unpacking => (Phase::Unpacking, "unpack"),
            Purpose::Combining => (Phase::Unpacking, "combine"),
            Purpose::Zeroing => (Phase::Unpacking, "zero the halo"),
        };
        let Lane { device, bases, stream, trace, .. } = *lane;
        let put = || {
            // SAFETY: the caller guarantees it.
            let copy = || unsafe { device.run_copies(&self.copies, bases, stream) };
            let Some(host_copy) = &self.host_copy else { return copy() };
            // SAFETY: as above.
            let move_all = || unsafe { host_copy.run(device, stream) };
            // Unpacking moves first, packing moves last.
            if self.purpose.packs() {
                copy().and_then(|()| move_all())
            } else {
                move_all().and_then(|()| copy())
            }
        };
        trace.time(phase, name, self.bytes, device, stream, put)
    }

    /// As [`run`](CopyList::run) for a list without copies between device and host; copies nothing if the word at `stop`
    /// is not 0.
    ///
    /// # Safety
    /// As for [`StreamWords::run_copies_unless`](crate::device::StreamWords::run_copies_unless).
    pub(crate) unsafe fn run_unless(&self, stop: Pointer, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        let Lane { device, bases, stream, trace, .. } = lane;
        // SAFETY: the caller guarantees it.
        let put = || unsafe { words_of(*device)?.run_copies_unless(stop, &self.copies, bases, stream) };
        trace.time(Phase::Unpacking, "copy from fields", self.bytes, device, stream, put)
    }

    /// As [`run`](CopyList::run), for packing: if there is a stream `moves`, the copy to the host goes there. Returns the
    /// stream in which the work ends.
    ///
    /// # Safety
    /// As for [`run`](CopyList::run).
    pub(crate) unsafe fn pack<'p>(
        &self,
        lane: &Lane<'p, D>,
        moves: Option<&'p MoveStream<D>>,
    ) -> Result<&'p D::Stream, DeviceError> {
        let Lane { device, bases, stream, trace, .. } = *lane;
        let (Some(moves), Some(copy)) = (moves, &self.host_copy) else {
            // SAFETY: the caller guarantees it.
            unsafe { self.run(lane)? };
            return Ok(stream);
        };
        // SAFETY: the caller guarantees it.
        let pack = || unsafe { device.run_copies(&self.copies, bases, stream) };
        trace.time(Phase::Packing, "pack", self.bytes, device, stream, pack)?;
        moves.follow(device, stream)?;
        // SAFETY: the caller guarantees it; the copy comes after the packing.
        let run = || unsafe { copy.run(device, &moves.stream) };
        trace.time(Phase::Packing, "move", copy.bytes, device, &moves.stream, run)?;
        Ok(&moves.stream)
    }
}

/// The number of bytes that `items` copy.
pub(crate) fn bytes(items: &[CopyItem]) -> usize {
    items.iter().map(CopyItem::bytes).sum()
}

/// How the messages of a part get from the device to the transport and back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Staging {
    memory: WireMemory,
    /// Minimum size in bytes of a batch that is moved.
    moved_from: usize,
}

/// The memory of the buffers that the transport uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WireMemory {
    /// Of the device.
    Device,
    /// Pinned, of the host.
    Pinned,
    /// Plain, of the host.
    Plain,
}

/// Messages that one list of copies packs or unpacks.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    /// Where they lie in the buffer.
    range: Range<usize>,
    /// Whether they are moved between the device's own memory and the buffer by a copy.
    pub(crate) is_moved: bool,
}

/// The buffers for all messages of a part, in both directions.
#[derive(Debug)]
pub(crate) struct Buffers<D: Device> {
    sent: MessageMemory<D>,
    received: MessageMemory<D>,
}

/// A copy between a device's own memory and memory of the host, after packing or before unpacking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostCopy {
    source: Pointer,
    target: Pointer,
    bytes: usize,
}

/// The buffer for all messages in one direction.
#[derive(Debug)]
struct MessageMemory<D: Device> {
    wire: WireBuffer<D>,
    /// Memory of the device, with the offsets of `wire`: batches that a copy moves are packed or unpacked here. `None` if
    /// no batch is moved.
    moved: Option<D::Buffer>,
}

/// The buffer that the transport uses.
#[derive(Debug)]
enum WireBuffer<D: Device> {
    Allocated(D::Buffer),
    /// Plain memory of the host. Atomics, since the transport writes it without a borrow.
    Plain(Box<[AtomicU64]>),
}

impl Staging {
    /// `reached`: the transport can reach the memory of the device. Batches of `moved_from` bytes or more are moved, if
    /// the memory of the device is separate from that of the host.
    pub(crate) fn new(info: &DeviceInfo, reached: bool, moved_from: usize) -> Staging {
        let memory = match (reached, info.offers(MemoryKind::Pinned)) {
            (true, _) => WireMemory::Device,
            (false, true) => WireMemory::Pinned,
            (false, false) => WireMemory::Plain,
        };
        let moved_from = match memory {
            WireMemory::Pinned if info.asynchronous && info.separate_memory => moved_from,
            WireMemory::Device | WireMemory::Pinned => usize::MAX,
            WireMemory::Plain => 0,
        };
        Staging { memory, moved_from }
    }

    /// The batch of all messages in `range` of the buffer.
    pub(crate) fn batch(&self, range: Range<usize>) -> Batch {
        let is_moved = !range.is_empty() && range.len() >= self.moved_from;
        Batch { range, is_moved }
    }

    /// The batch of one received chunk in `range` of the buffer.
    ///
    /// It is unpacked when it has arrived. Meanwhile the gate of another exchange may be closed, with copies of the caller
    /// behind it. Copy engines have few queues, which streams of all priorities share: a copy that is put there now could
    /// be stuck behind that gate. A launch cannot: the part's stream has a higher priority than the caller's, and so other
    /// queues.
    pub(crate) fn received_chunk(&self, range: Range<usize>) -> Batch {
        let is_moved = !range.is_empty() && self.memory == WireMemory::Plain;
        Batch { range, is_moved }
    }

    /// Whether batches of one part are moved while later ones are packed: copy engines and processors work side by side.
    pub(crate) fn overlaps(&self) -> bool {
        self.memory == WireMemory::Pinned
    }
}

impl<D: Device> Buffers<D> {
    /// Allocates the memory for these batches.
    pub(crate) fn new(
        device: &D,
        staging: &Staging,
        sent: &[Batch],
        received: &[Batch],
    ) -> Result<Buffers<D>, DeviceError> {
        let memory = |batches| MessageMemory::new(device, staging.memory, batches);
        Ok(Buffers { sent: memory(sent)?, received: memory(received)? })
    }

    /// The address of the buffer in which the device packs or unpacks `batch`; its messages lie at their offsets.
    pub(crate) fn on_device(&self, direction: Direction, batch: &Batch) -> Pointer {
        let memory = self.of(direction);
        match memory.moved.as_ref().filter(|_| batch.is_moved) {
            Some(moved) => moved.pointer(),
            None => memory.wire.pointer(),
        }
    }

    /// The address at which the transport reads or writes.
    pub(crate) fn on_wire(&self, direction: Direction) -> Pointer {
        self.of(direction).wire.pointer()
    }

    /// Returns the copy that moves `batch` between device and host, if it is moved.
    pub(crate) fn host_copy(&self, direction: Direction, batch: &Batch) -> Option<HostCopy> {
        let memory = self.of(direction);
        let moved = memory.moved.as_ref().filter(|_| batch.is_moved)?;
        let begin = batch.range.start as isize;
        let on_device = moved.pointer().offset(begin);
        let on_wire = memory.wire.pointer().offset(begin);
        let (source, target) = match direction {
            Direction::Send => (on_device, on_wire),
            Direction::Receive => (on_wire, on_device),
        };
        Some(HostCopy { source, target, bytes: batch.range.len() })
    }

    fn of(&self, direction: Direction) -> &MessageMemory<D> {
        match direction {
            Direction::Send => &self.sent,
            Direction::Receive => &self.received,
        }
    }
}

impl<D: Device> MessageMemory<D> {
    fn new(device: &D, memory: WireMemory, batches: &[Batch]) -> Result<MessageMemory<D>, DeviceError> {
        let end = |of: fn(&Batch) -> bool| {
            batches.iter().filter(|batch| of(batch)).map(|batch| batch.range.end).max().unwrap_or(0)
        };
        let (bytes, moved_bytes) = (end(|_| true), end(|batch| batch.is_moved));
        let wire = match memory {
            WireMemory::Device => WireBuffer::Allocated(device.allocate(bytes, MemoryKind::Device)?),
            WireMemory::Pinned => WireBuffer::Allocated(device.allocate(bytes, MemoryKind::Pinned)?),
            WireMemory::Plain => {
                let words = (0..bytes.div_ceil(size_of::<AtomicU64>())).map(|_| AtomicU64::new(0));
                WireBuffer::Plain(words.collect())
            }
        };
        let moved =
            (moved_bytes > 0).then(|| device.allocate(moved_bytes, MemoryKind::Device)).transpose()?;
        Ok(MessageMemory { wire, moved })
    }
}

impl<D: Device> WireBuffer<D> {
    fn pointer(&self) -> Pointer {
        match self {
            WireBuffer::Allocated(buffer) => buffer.pointer(),
            WireBuffer::Plain(words) => Pointer::new(words.as_ptr().cast_mut().cast()),
        }
    }
}

impl HostCopy {
    /// Puts the copy into `stream`.
    ///
    /// # Safety
    /// Until the copy is done, its buffers live, and nothing else uses the range that it reads or the one that it
    /// writes.
    pub(crate) unsafe fn run<D: Device>(&self, device: &D, stream: &D::Stream) -> Result<(), DeviceError> {
        // SAFETY: `host_copy` made it with both ends in the buffers; the caller guarantees the rest.
        unsafe { device.copy(self.source, self.target, self.bytes, stream) }
    }
}
