//! Copies between a device and memory of the host, through pinned memory.
//!
//! Given pageable memory, the driver copies to it once the stream has got there, and until then no other thread of the process
//! can call the driver (seen with driver 580.159.04 on an H100). If the stream waits for a rank that is such a thread, that
//! never ends. Here the host waits for the stream without holding others up.

use std::sync::{Mutex, PoisonError};

use haloport_core::device::{DeviceError, MemoryKind, Pointer};

use crate::driver::context::{address, call};
use crate::driver::device_context::DeviceContext;
use crate::driver::raw_stream::RawStream;
use crate::memory::allocation::Allocation;

/// The bytes that are copied at once.
const PIECE_BYTES: usize = 1 << 20;

/// Pinned memory for one piece each, which no copy uses now. There are as many as threads have copied at once.
#[derive(Debug)]
pub(crate) struct PinnedPieces(Mutex<Vec<Allocation>>);

impl PinnedPieces {
    /// Allocates one, so that the first copy does not.
    pub(crate) fn new(device: &DeviceContext) -> Result<PinnedPieces, DeviceError> {
        new_piece(device).map(|piece| PinnedPieces(Mutex::new(vec![piece])))
    }

    /// Copies to the device, in stream order, and blocks until the data is there.
    ///
    /// # Safety
    /// As for [`Device::write`](haloport_core::device::Device::write), for `target`.
    pub(crate) unsafe fn write(
        &self,
        device: &DeviceContext,
        source: &[u8],
        target: Pointer,
        stream: &RawStream,
    ) -> Result<(), DeviceError> {
        let piece = self.take(device)?;
        for (number, from) in source.chunks(PIECE_BYTES).enumerate() {
            let to = address(target) + (number * PIECE_BYTES) as u64;
            // SAFETY: the piece is as long, and nothing else uses it: the copy before has ended.
            unsafe { piece.pointer().as_ptr().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
            // SAFETY: the caller's promise; the piece is not used until the stream has been waited for.
            unsafe {
                call!(&device.context, cuMemcpyAsync(to, address(piece.pointer()), from.len(), stream.raw()))
            }?;
            stream.synchronize()?;
        }
        self.give_back(piece);
        Ok(())
    }

    /// Copies from the device, in stream order, and blocks until the data is there.
    ///
    /// # Safety
    /// As for [`Device::read`](haloport_core::device::Device::read), for `source`.
    pub(crate) unsafe fn read(
        &self,
        device: &DeviceContext,
        source: Pointer,
        target: &mut [u8],
        stream: &RawStream,
    ) -> Result<(), DeviceError> {
        let piece = self.take(device)?;
        for (number, to) in target.chunks_mut(PIECE_BYTES).enumerate() {
            let from = address(source) + (number * PIECE_BYTES) as u64;
            // SAFETY: the caller's promise; the piece is as long, and not used until the stream has been waited for.
            unsafe {
                call!(&device.context, cuMemcpyAsync(address(piece.pointer()), from, to.len(), stream.raw()))
            }?;
            stream.synchronize()?;
            // SAFETY: the copy has ended, and nothing else uses the piece.
            unsafe { to.as_mut_ptr().copy_from_nonoverlapping(piece.pointer().as_ptr(), to.len()) };
        }
        self.give_back(piece);
        Ok(())
    }

    /// After an error, a piece is not given back: a copy may still use it, and freeing it waits for that.
    fn take(&self, device: &DeviceContext) -> Result<Allocation, DeviceError> {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(|| new_piece(device), Ok)
    }

    fn give_back(&self, piece: Allocation) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
    }
}

fn new_piece(device: &DeviceContext) -> Result<Allocation, DeviceError> {
    Allocation::new(device, PIECE_BYTES, MemoryKind::Pinned)
}
