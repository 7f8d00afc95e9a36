//! Memory of a device that processes of one node share, by SYCL.
//!
//! DPC++ (2026.2) takes the file of the memory out of the other process, which the system may forbid. A failure there
//! leaves an entry in its tables that it cannot close at the end. So the system is asked before, with another file, and after a
//! failure nothing more is imported.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haloport_core::device::{Buffer, Device, DeviceError, MemoryExport};

use crate::SyclDevice;
use crate::buffer::SyclBuffer;
use crate::driver::Place;
use crate::libsycl::place::Place as SyclPlace;

/// The size of the blocks that DPC++ takes smaller allocations of a device from, on Level Zero. Exporting one exposes its
/// whole block.
const BLOCK_BYTES: usize = 64 << 10;

/// The start of a token: the length of the memory in bytes, the process, and the number of a file there that any other
/// process may take.
struct Head {
    bytes: u64,
    process: u32,
    file: i32,
}

impl MemoryExport<SyclBuffer> for SyclDevice {
    fn allocate_exportable(&self, bytes: usize) -> Result<SyclBuffer, DeviceError> {
        SyclBuffer::in_blocks(self.opened(), bytes, BLOCK_BYTES)
    }

    fn export(&self, buffer: &SyclBuffer) -> Result<Vec<u8>, DeviceError> {
        let what = "exporting memory other than device memory that this process has allocated";
        let Some(memory) = buffer.own_device_memory() else {
            return Err(DeviceError::Unsupported { what, device: self.id() });
        };
        let place = self.sycl_place()?;
        let exported = match buffer.exported.get() {
            Some(exported) => exported,
            None => {
                // SAFETY: the memory is of that place, and the buffer frees it after it has dropped the result.
                let exported = unsafe { place.export(memory) }?;
                buffer.exported.get_or_init(|| exported)
            }
        };
        let head =
            Head { bytes: buffer.bytes() as u64, process: std::process::id(), file: file_for_others()? };
        Ok([&head.to_bytes()[..], &exported.token].concat())
    }

    unsafe fn import(&self, token: &[u8]) -> Result<SyclBuffer, DeviceError> {
        static FAILED: AtomicBool = AtomicBool::new(false);

        let place = self.sycl_place()?;
        let Some((head, token)) = Head::split_from(token) else {
            let found = format!("{} bytes", token.len());
            return Err(DeviceError::invalid("a token of memory", "one of a device of SYCL", found));
        };
        take_file_of(&head)?;
        if FAILED.load(Ordering::Relaxed) {
            let what = "memory of another process, after the import of other memory has failed";
            return Err(DeviceError::Unsupported { what, device: self.id() });
        }
        // SAFETY: the caller's promise.
        let memory = unsafe { place.import(token) }.inspect_err(|_| FAILED.store(true, Ordering::Relaxed))?;
        Ok(SyclBuffer::of_other_process(self.opened(), memory, head.bytes as usize))
    }
}

impl SyclDevice {
    fn sycl_place(&self) -> Result<&Arc<SyclPlace>, DeviceError> {
        match &self.opened().place {
            Place::Sycl(place) => Ok(place),
            Place::OpenCl(_) => {
                let what = "memory that other processes reach, by OpenCL";
                Err(DeviceError::Unsupported { what, device: self.id() })
            }
        }
    }
}

impl Head {
    const BYTES: usize = 16;

    fn to_bytes(&self) -> [u8; Head::BYTES] {
        let mut bytes = [0; Head::BYTES];
        bytes[..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.process.to_le_bytes());
        bytes[12..].copy_from_slice(&self.file.to_le_bytes());
        bytes
    }

    /// The head of a token, and the rest.
    fn split_from(token: &[u8]) -> Option<(Head, &[u8])> {
        let (bytes, rest) = token.split_first_chunk()?;
        let (process, rest) = rest.split_first_chunk()?;
        let (file, rest) = rest.split_first_chunk()?;
        let (bytes, process) = (u64::from_le_bytes(*bytes), u32::from_le_bytes(*process));
        Some((Head { bytes, process, file: i32::from_le_bytes(*file) }, rest))
    }
}

fn not_found(looked_for: String) -> DeviceError {
    DeviceError::NotFound {
        what: "memory of another process".into(),
        looked_for,
        advice: "let processes of one user take files of each other, which `sysctl kernel.yama.ptrace_scope=0` does, and \
                 containers with the capability SYS_PTRACE; messages are used otherwise"
            .into(),
    }
}

/// The number of a file that any process may take: it is empty.
#[cfg(target_os = "linux")]
fn file_for_others() -> Result<i32, DeviceError> {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::sync::OnceLock;

    static FILE: OnceLock<File> = OnceLock::new();
    if let Some(file) = FILE.get() {
        return Ok(file.as_raw_fd());
    }
    let file = File::open("/dev/null").map_err(|error| not_found(format!("/dev/null ({error})")))?;
    Ok(FILE.get_or_init(|| file).as_raw_fd())
}

/// Takes the file of a token out of its process, and closes it: whether the system allows that.
#[cfg(target_os = "linux")]
fn take_file_of(head: &Head) -> Result<(), DeviceError> {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

    if head.process == std::process::id() {
        return Ok(());
    }
    let taken = || {
        let process = Pid::from_raw(head.process.cast_signed()).ok_or(rustix::io::Errno::INVAL)?;
        pidfd_getfd(pidfd_open(process, PidfdFlags::empty())?, head.file, PidfdGetfdFlags::empty())
    };
    let failed = |error| not_found(format!("a file of process {}, by pidfd_getfd ({error})", head.process));
    taken().map(drop).map_err(failed)
}

#[cfg(not(target_os = "linux"))]
fn file_for_others() -> Result<i32, DeviceError> {
    Err(not_found("it on Linux alone".into()))
}

#[cfg(not(target_os = "linux"))]
fn take_file_of(_head: &Head) -> Result<(), DeviceError> {
    Err(not_found("it on Linux alone".into()))
}
