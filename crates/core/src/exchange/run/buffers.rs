//! The memory of the messages that do not lie in fields.
//!
//! The device packs into it, and transports read it. Where transports cannot read the memory of the device, it is pinned
//! memory of the host; a device that has none packs into its own memory, and copies whole messages to plain memory of the
//! host and back.

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use crate::device::{Buffer, Device, DeviceError, MemoryKind, Pointer};
use crate::transport::Direction;

/// The memory of all messages of a part, in both directions.
#[derive(Debug)]
pub(crate) struct Buffers<D: Device> {
    sent: MessageMemory<D>,
    received: MessageMemory<D>,
}

/// A copy between a device's own memory and plain memory of the host, behind the packing or before the unpacking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Detour {
    source: Pointer,
    target: Pointer,
    bytes: usize,
}

/// The memory of all messages of one direction.
#[derive(Debug)]
struct MessageMemory<D: Device> {
    buffer: D::Buffer,
    /// The same as transports see it, where they cannot read the buffer; atomics, since nobody borrows it meanwhile.
    host: Option<Box<[AtomicU64]>>,
}

impl<D: Device> Buffers<D> {
    /// Room for so many bytes sent and received. `readable`: whether transports reach memory of the device.
    pub(crate) fn new(
        device: &D,
        sent: usize,
        received: usize,
        readable: bool,
    ) -> Result<Buffers<D>, DeviceError> {
        let memory = |bytes| MessageMemory::new(device, bytes, readable);
        Ok(Buffers { sent: memory(sent)?, received: memory(received)? })
    }

    /// What the device packs into, or unpacks from.
    pub(crate) fn on_device(&self, direction: Direction) -> Pointer {
        self.of(direction).buffer.pointer()
    }

    /// What the transport reads, or writes.
    pub(crate) fn on_wire(&self, direction: Direction) -> Pointer {
        let memory = self.of(direction);
        match &memory.host {
            Some(host) => Pointer::new(host.as_ptr().cast_mut().cast()),
            None => memory.buffer.pointer(),
        }
    }

    /// The way between the device and the wire of what lies in `range` of the buffer, where there is a way between them.
    pub(crate) fn detour(&self, direction: Direction, range: Range<usize>) -> Option<Detour> {
        self.of(direction).host.as_ref().filter(|_| !range.is_empty())?;
        let begin = range.start as isize;
        let on_device = self.on_device(direction).offset(begin);
        let on_wire = self.on_wire(direction).offset(begin);
        let (source, target) = match direction {
            Direction::Send => (on_device, on_wire),
            Direction::Receive => (on_wire, on_device),
        };
        Some(Detour { source, target, bytes: range.len() })
    }

    fn of(&self, direction: Direction) -> &MessageMemory<D> {
        match direction {
            Direction::Send => &self.sent,
            Direction::Receive => &self.received,
        }
    }
}

impl<D: Device> MessageMemory<D> {
    fn new(device: &D, bytes: usize, readable: bool) -> Result<MessageMemory<D>, DeviceError> {
        let allocate = |kind| device.allocate(bytes, kind);
        if readable {
            return Ok(MessageMemory { buffer: allocate(MemoryKind::Device)?, host: None });
        }
        if device.info().offers(MemoryKind::Pinned) {
            return Ok(MessageMemory { buffer: allocate(MemoryKind::Pinned)?, host: None });
        }
        let words = (0..bytes.div_ceil(size_of::<AtomicU64>())).map(|_| AtomicU64::new(0));
        let host = Some(words.collect());
        Ok(MessageMemory { buffer: allocate(MemoryKind::Device)?, host })
    }
}

impl Detour {
    /// Puts the copy into `stream`.
    ///
    /// # Safety
    /// The buffers that it is from live until it is done, and nobody else uses what it reads and writes until then.
    pub(crate) unsafe fn run<D: Device>(&self, device: &D, stream: &D::Stream) -> Result<(), DeviceError> {
        // SAFETY: both ends lie in the buffers, by the making of this; the rest is the caller's promise.
        unsafe { device.copy(self.source, self.target, self.bytes, stream) }
    }
}
