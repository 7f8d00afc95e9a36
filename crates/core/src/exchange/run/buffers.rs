//! The buffers for messages that do not lie in fields.
//!
//! The device packs into them, and the transport reads them. If the transport cannot read the memory of the device, the
//! buffers are pinned memory of the host. A device without pinned memory packs into its own memory, and copies whole
//! messages to plain memory of the host and back.

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use crate::device::{Buffer, Device, DeviceError, MemoryKind, Pointer};
use crate::transport::Direction;

/// The buffers for all messages of a part, in both directions.
#[derive(Debug)]
pub(crate) struct Buffers<D: Device> {
    sent: MessageMemory<D>,
    received: MessageMemory<D>,
}

/// A copy between a device's own memory and plain memory of the host, after packing or before unpacking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostCopy {
    source: Pointer,
    target: Pointer,
    bytes: usize,
}

/// The buffer for all messages in one direction.
#[derive(Debug)]
struct MessageMemory<D: Device> {
    buffer: D::Buffer,
    /// The copy in plain memory of the host, if the transport cannot read the buffer. Atomics, since the transport
    /// writes it without a borrow.
    host: Option<Box<[AtomicU64]>>,
}

impl<D: Device> Buffers<D> {
    /// Allocates `sent` and `received` bytes. `readable`: the transport can read the memory of the device.
    pub(crate) fn new(
        device: &D,
        sent: usize,
        received: usize,
        readable: bool,
    ) -> Result<Buffers<D>, DeviceError> {
        let memory = |bytes| MessageMemory::new(device, bytes, readable);
        Ok(Buffers { sent: memory(sent)?, received: memory(received)? })
    }

    /// The address at which the device packs or unpacks.
    pub(crate) fn on_device(&self, direction: Direction) -> Pointer {
        self.of(direction).buffer.pointer()
    }

    /// The address at which the transport reads or writes.
    pub(crate) fn on_wire(&self, direction: Direction) -> Pointer {
        let memory = self.of(direction);
        match &memory.host {
            Some(host) => Pointer::new(host.as_ptr().cast_mut().cast()),
            None => memory.buffer.pointer(),
        }
    }

    /// Returns the copy of `range` of the buffer between device and host, if one is needed.
    pub(crate) fn host_copy(&self, direction: Direction, range: Range<usize>) -> Option<HostCopy> {
        self.of(direction).host.as_ref().filter(|_| !range.is_empty())?;
        let begin = range.start as isize;
        let on_device = self.on_device(direction).offset(begin);
        let on_wire = self.on_wire(direction).offset(begin);
        let (source, target) = match direction {
            Direction::Send => (on_device, on_wire),
            Direction::Receive => (on_wire, on_device),
        };
        Some(HostCopy { source, target, bytes: range.len() })
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

impl HostCopy {
    /// Puts the copy into `stream`.
    ///
    /// # Safety
    /// Until the copy is done, its buffers live, and nobody else uses the range that it reads or the one that it
    /// writes.
    pub(crate) unsafe fn run<D: Device>(&self, device: &D, stream: &D::Stream) -> Result<(), DeviceError> {
        // SAFETY: `host_copy` made it with both ends in the buffers; the caller guarantees the rest.
        unsafe { device.copy(self.source, self.target, self.bytes, stream) }
    }
}
