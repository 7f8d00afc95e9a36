//! Memory of every kind.

use haloport_core::device::{Buffer, Device, DeviceError, MemoryKind};

use super::bytes::read;
use crate::{Failure, ensure};

pub(super) fn memory<D: Device>(device: &D) -> Result<(), Failure> {
    for kind in [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Shared] {
        let allocated = device.allocate(1000, kind);
        if !device.info().offers(kind) {
            let refused = matches!(allocated, Err(DeviceError::Unsupported { .. }));
            ensure!(refused, "the device offers no {kind}, but does not answer `Unsupported`");
            continue;
        }
        let buffer = allocated?;
        ensure!(buffer.bytes() == 1000 && buffer.kind() == kind, "{buffer:?}");
        ensure!(buffer.device() == device.id(), "{buffer:?}");
        ensure!(
            buffer.pointer().as_ptr().addr() % 64 == 0,
            "{:?} is not aligned to 64 bytes",
            buffer.pointer()
        );
        let zeros = read(device, buffer.pointer(), 1000)?;
        ensure!(zeros.iter().all(|byte| *byte == 0), "fresh memory is not zero");
        let part = buffer.range(10..30)?;
        ensure!(part.bytes == 20 && part.pointer == buffer.pointer().offset(10), "{part:?}");
        for wrong in [990..1001, usize::MAX - 1..usize::MAX] {
            ensure!(buffer.range(wrong.clone()).is_err(), "the range {wrong:?} of 1000 bytes");
        }
    }
    ensure!(device.allocate(0, MemoryKind::Device)?.bytes() == 0, "an empty buffer has bytes");
    Ok(())
}

pub(super) fn too_much_memory<D: Device>(device: &D) -> Result<(), Failure> {
    for bytes in [usize::MAX, 1 << 62] {
        let error = device.allocate(bytes, MemoryKind::Device).err();
        ensure!(matches!(error, Some(DeviceError::OutOfMemory { .. })), "{bytes} bytes give {error:?}");
    }
    Ok(())
}
