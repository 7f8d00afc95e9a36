//! Memory of a device: addresses, buffers and checked ranges of them.

use std::fmt;
use std::ops::Range;
use std::ptr;

use super::{DeviceError, DeviceId, MemoryKind};

/// An address in a device's memory: plain data, which may be sent to other threads.
///
/// It promises nothing about the memory there: only the unsafe calls of [`Device`](super::Device) read or write through
/// it, under their contracts. Its provenance is exposed (see [`std::ptr`]), so that an address may be followed again
/// when the memory is lent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pointer(*mut u8);

// SAFETY: a `Pointer` is an address. Only unsafe calls follow it, and their contracts rule out data races.
unsafe impl Send for Pointer {}
// SAFETY: as for `Send`; a shared `Pointer` gives nothing but the address.
unsafe impl Sync for Pointer {}

impl Pointer {
    /// The address of `address`, whose provenance this exposes.
    pub fn new(address: *mut u8) -> Pointer {
        address.expose_provenance();
        Pointer(address)
    }

    /// The address as a raw pointer.
    pub fn as_ptr(self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.0.addr())
    }

    /// The address moved by `bytes`. It may lie outside of any memory if nothing reads or writes there.
    #[must_use]
    pub fn offset(self, bytes: isize) -> Pointer {
        Pointer(self.0.wrapping_offset(bytes))
    }
}

/// A range of a device's memory, as plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRange {
    /// The device of the memory.
    pub device: DeviceId,
    /// The first address.
    pub pointer: Pointer,
    /// Its length in bytes.
    pub bytes: usize,
}

/// Memory that a device allocated; freed on drop.
///
/// # Safety
/// [`pointer`](Buffer::pointer) is the address of [`bytes`](Buffer::bytes) bytes of initialised memory, aligned to at
/// least 64 bytes. Nothing else uses that memory until the buffer is dropped. If
/// [`host_accessible`](Buffer::host_accessible) is true, the host may follow the address.
pub unsafe trait Buffer: fmt::Debug + Send + Sync + 'static {
    /// The first address, aligned to at least 64 bytes.
    fn pointer(&self) -> Pointer;

    /// Its length in bytes.
    fn bytes(&self) -> usize;

    /// Its kind.
    fn kind(&self) -> MemoryKind;

    /// The device that allocated it.
    fn device(&self) -> DeviceId;

    /// Whether the host may follow the address.
    fn host_accessible(&self) -> bool;

    /// The range `range` (in bytes) of the buffer.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if the range does not lie within the buffer.
    fn range(&self, range: Range<usize>) -> Result<MemoryRange, DeviceError> {
        if range.start > range.end || range.end > self.bytes() {
            return Err(DeviceError::invalid(
                "the byte range of a buffer",
                format!("a range within 0..{}", self.bytes()),
                format!("{}..{}", range.start, range.end),
            ));
        }
        Ok(MemoryRange {
            device: self.device(),
            pointer: self.pointer().offset(range.start as isize),
            bytes: range.end - range.start,
        })
    }
}
