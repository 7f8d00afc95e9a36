//! A device that exports its memory to other processes of its node, as GPUs do; no transport reads that memory.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use haloport_core::device::{
    Buffer, Capabilities, Device, DeviceError, DeviceId, DeviceInfo, MemoryKind, Pointer,
};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::altered::{Alteration, Altered, CallAlteration};

/// The name of the files of its memory, which `/proc/self/maps` shows if they are mapped.
pub const NAME: &str = "haloport-exporting";

/// A synchronous device whose own memory is in anonymous files.
pub type Exporting<D> = Altered<D, Export>;

/// The alteration: memory in anonymous files.
#[derive(Debug, Clone)]
pub struct Export {
    info: DeviceInfo,
}

/// Memory of such a device.
#[derive(Debug)]
pub enum ExportedBuffer<B> {
    /// Memory of the device, of this process or of another one.
    Mapped(Mapped),
    /// Memory of the host.
    OfHost(B),
}

/// A mapped file.
#[derive(Debug)]
pub struct Mapped {
    memory: MmapRaw,
    bytes: usize,
    device: DeviceId,
    /// `None` in processes that did not create it.
    file: Option<OwnedFd>,
}

/// Makes such a device of `device`, which must access memory as the host does.
pub fn exporting<D: Device>(device: &D) -> Exporting<D> {
    let capabilities = Capabilities { memory_export: true, ..device.info().capabilities };
    let info = DeviceInfo { host_accessible: false, capabilities, ..device.info().clone() };
    Altered::new(device, Export { info })
}

impl<D: Device> CallAlteration<D> for Export {
    fn info<'a>(&'a self, _device: &'a DeviceInfo) -> &'a DeviceInfo {
        &self.info
    }
}

impl<D: Device> Alteration<D> for Export {
    type Buffer = ExportedBuffer<D::Buffer>;

    fn allocate(
        &self,
        device: &D,
        bytes: usize,
        kind: MemoryKind,
    ) -> Result<ExportedBuffer<D::Buffer>, DeviceError> {
        if kind != MemoryKind::Device {
            return Ok(ExportedBuffer::OfHost(device.allocate(bytes, kind)?));
        }
        let failed = |error: std::io::Error| failed("memfd_create", device.id(), &error);
        let file = memfd_create(NAME, MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        ftruncate(&file, bytes.max(1) as u64).map_err(|error| failed(error.into()))?;
        let memory = MmapOptions::new().len(bytes.max(1)).map_raw(&file).map_err(failed)?;
        Ok(ExportedBuffer::Mapped(Mapped { memory, bytes, device: device.id(), file: Some(file) }))
    }

    fn export(&self, device: &D, buffer: &ExportedBuffer<D::Buffer>) -> Result<Vec<u8>, DeviceError> {
        match buffer {
            ExportedBuffer::Mapped(Mapped { file: Some(file), bytes, .. }) => {
                Ok(format!("{bytes} /proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into_bytes())
            }
            _ => Err(DeviceError::Unsupported {
                what: "exporting memory that it did not allocate",
                device: device.id(),
            }),
        }
    }

    unsafe fn import(&self, device: &D, token: &[u8]) -> Result<ExportedBuffer<D::Buffer>, DeviceError> {
        let text = String::from_utf8_lossy(token);
        let (bytes, path) = text.split_once(' ').unwrap_or_default();
        let Ok(bytes) = bytes.parse() else {
            return Err(DeviceError::invalid("a token", "bytes and a path", &*text));
        };
        let opened = File::options().read(true).write(true).open(path);
        let mapped = opened.and_then(|file| MmapOptions::new().len(std::cmp::max(bytes, 1)).map_raw(&file));
        let memory = mapped.map_err(|error| failed("open", device.id(), &error))?;
        Ok(ExportedBuffer::Mapped(Mapped { memory, bytes, device: device.id(), file: None }))
    }
}

fn failed(call: &'static str, device: DeviceId, error: &std::io::Error) -> DeviceError {
    DeviceError::Driver { call, device, message: error.to_string() }
}

// SAFETY: a mapping is as long as it says, zeroed if it is new, and aligned to a page; memory of the host is a buffer.
unsafe impl<B: Buffer> Buffer for ExportedBuffer<B> {
    fn pointer(&self) -> Pointer {
        match self {
            ExportedBuffer::Mapped(mapped) => Pointer::new(mapped.memory.as_mut_ptr()),
            ExportedBuffer::OfHost(buffer) => buffer.pointer(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            ExportedBuffer::Mapped(mapped) => mapped.bytes,
            ExportedBuffer::OfHost(buffer) => buffer.bytes(),
        }
    }

    fn kind(&self) -> MemoryKind {
        match self {
            ExportedBuffer::Mapped(_) => MemoryKind::Device,
            ExportedBuffer::OfHost(buffer) => buffer.kind(),
        }
    }

    fn device(&self) -> DeviceId {
        match self {
            ExportedBuffer::Mapped(mapped) => mapped.device,
            ExportedBuffer::OfHost(buffer) => buffer.device(),
        }
    }

    fn host_accessible(&self) -> bool {
        matches!(self, ExportedBuffer::OfHost(_))
    }
}
