//! Memory that another process has exported: a file that both map.

use std::fs::{File, OpenOptions, read_link};
use std::os::fd::AsRawFd;

use crate::memory::blocks::{Found, Kind, add, allocate, blocks};
use crate::memory::mapping::Mapping;
use crate::settings::settings;
use crate::status::{INVALID_CONTEXT, INVALID_VALUE, OUT_OF_MEMORY, Status};

/// `CUipcMemHandle`: the process, its file descriptor, the file itself, and the size of the memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct IpcHandle([u64; 8]);

/// The first number of a handle.
const MARK: u64 = u64::from_le_bytes(*b"haloport");

impl IpcHandle {
    /// The handle of memory in a file of this process.
    pub(crate) fn of(file: &File, bytes: usize) -> Result<IpcHandle, Status> {
        let process = u64::from(std::process::id());
        Ok(IpcHandle([MARK, process, file.as_raw_fd() as u64, serial(file)?, bytes as u64, 0, 0, 0]))
    }

    /// The file of a process that lives, and the size of the memory.
    pub(crate) fn open(self) -> Result<(File, usize), Status> {
        let IpcHandle([mark, process, descriptor, number, bytes, ..]) = self;
        if mark != MARK {
            return Err(INVALID_VALUE);
        }
        let path = format!("/proc/{process}/fd/{descriptor}");
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|_| INVALID_VALUE)?;
        // The number of the descriptor may have become that of another file.
        if serial(&file)? == number { Ok((file, bytes as usize)) } else { Err(INVALID_VALUE) }
    }
}

/// The handle that another process opens the memory at an address with.
pub(crate) fn export(address: u64) -> Result<IpcHandle, Status> {
    let blocks = blocks();
    let Found::Inside(block, 0) = blocks.find(address, 1) else { return Err(INVALID_VALUE) };
    match &block.mapping.file {
        Some(file) if block.kind == Kind::Device => IpcHandle::of(file, block.bytes),
        _ => Err(INVALID_VALUE),
    }
}

/// Maps exported memory, and returns its address. A process cannot open its own memory, except where the driver records:
/// there it gets other memory of that size.
pub(crate) fn import(handle: IpcHandle, context: usize) -> Result<u64, Status> {
    let IpcHandle([mark, process, _, _, bytes, ..]) = handle;
    if mark != MARK {
        return Err(INVALID_VALUE);
    }
    if process == u64::from(std::process::id()) {
        let own = || allocate(bytes as usize, Kind::Foreign, context);
        return if settings().records { own() } else { Err(INVALID_CONTEXT) };
    }
    let (file, bytes) = handle.open()?;
    let mapping = Mapping::of_file(file, bytes).map_err(|_| OUT_OF_MEMORY)?;
    Ok(add(mapping, bytes, Kind::Foreign, context))
}

/// The number in the name of the file of an allocation.
fn serial(file: &File) -> Result<u64, Status> {
    Ok(name(file)?.0)
}

/// The device of memory in a file.
pub(crate) fn device_of(file: &File) -> Result<i32, Status> {
    Ok(name(file)?.1)
}

/// The numbers in the name of the file of an allocation: its own, and that of its device.
fn name(file: &File) -> Result<(u64, i32), Status> {
    let path = read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|_| INVALID_VALUE)?;
    let path = path.to_string_lossy();
    let (_, rest) = path.split_once("haloport-").ok_or(INVALID_VALUE)?;
    let (serial, device) =
        rest.split(' ').next().and_then(|name| name.split_once('-')).ok_or(INVALID_VALUE)?;
    Ok((serial.parse().map_err(|_| INVALID_VALUE)?, device.parse().map_err(|_| INVALID_VALUE)?))
}
