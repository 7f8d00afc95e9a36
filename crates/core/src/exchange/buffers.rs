//! The memory of the messages that do not lie in fields.
//!
//! The device packs into it, and transports read it. Where transports cannot read the memory of the device, it is pinned
//! memory of the host; a device that has none packs into its own memory, and copies whole messages to plain memory of the
//! host and back.

use std::sync::atomic::AtomicU64;

use super::ExchangeError;
use crate::device::{Buffer, Device, DeviceError, MemoryKind, Pointer};
use crate::transport::Direction;

/// The memory of all messages of a part, in both directions.
#[derive(Debug)]
pub(super) struct Buffers<D: Device> {
    sent: MessageMemory<D>,
    received: MessageMemory<D>,
}

/// The memory of all messages of one direction.
#[derive(Debug)]
struct MessageMemory<D: Device> {
    buffer: D::Buffer,
    /// The same as transports see it, where they cannot read the buffer; atomics, since nobody borrows it meanwhile.
    host: Option<Box<[AtomicU64]>>,
}

impl<D: Device> Buffers<D> {
    /// Room for so many bytes that are sent and received. `readable`: whether transports reach memory of the device.
    pub(super) fn new(
        device: &D,
        sent: usize,
        received: usize,
        readable: bool,
    ) -> Result<Buffers<D>, DeviceError> {
        let memory = |bytes| MessageMemory::new(device, bytes, readable);
        Ok(Buffers { sent: memory(sent)?, received: memory(received)? })
    }

    /// What the device packs into, or unpacks from.
    pub(super) fn on_device(&self, direction: Direction) -> Pointer {
        self.of(direction).buffer.pointer()
    }

    /// What the transport reads, or writes.
    pub(super) fn on_wire(&self, direction: Direction) -> Pointer {
        let memory = self.of(direction);
        match &memory.host {
            Some(host) => Pointer::new(host.as_ptr().cast_mut().cast()),
            None => memory.buffer.pointer(),
        }
    }

    /// Brings what was packed to where the transport reads it, in the order of `stream`.
    ///
    /// # Safety
    /// Nobody else uses the memory of the messages that are sent until that is done.
    pub(super) unsafe fn bring_to_wire(&self, device: &D, stream: &D::Stream) -> Result<(), ExchangeError> {
        let ends = (self.on_device(Direction::Send), self.on_wire(Direction::Send));
        // SAFETY: both ends are as long as the buffer and live as long as `self`; the rest is the caller's promise.
        unsafe { self.sent.copy(device, ends, stream) }
    }

    /// Brings what has arrived to where the device unpacks it, in the order of `stream`.
    ///
    /// # Safety
    /// Nobody else uses the memory of the messages that are received until that is done.
    pub(super) unsafe fn take_from_wire(&self, device: &D, stream: &D::Stream) -> Result<(), ExchangeError> {
        let ends = (self.on_wire(Direction::Receive), self.on_device(Direction::Receive));
        // SAFETY: as in `bring_to_wire`.
        unsafe { self.received.copy(device, ends, stream) }
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
        match allocate(MemoryKind::Pinned) {
            Err(DeviceError::Unsupported { .. }) => {
                let words = (0..bytes.div_ceil(size_of::<AtomicU64>())).map(|_| AtomicU64::new(0));
                Ok(MessageMemory { buffer: allocate(MemoryKind::Device)?, host: Some(words.collect()) })
            }
            pinned => Ok(MessageMemory { buffer: pinned?, host: None }),
        }
    }

    /// # Safety
    /// Both ends are as long as the buffer and live until the copy is done; nobody else uses them until then.
    unsafe fn copy(
        &self,
        device: &D,
        (source, target): (Pointer, Pointer),
        stream: &D::Stream,
    ) -> Result<(), ExchangeError> {
        if self.host.is_some() && self.buffer.bytes() > 0 {
            // SAFETY: the caller's promise.
            unsafe { device.copy(source, target, self.buffer.bytes(), stream)? };
        }
        Ok(())
    }
}
