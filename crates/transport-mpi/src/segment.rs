//! Memory that processes of one node share: a file in memory, which loses its name as soon as both have mapped it.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use haloport_core::device::Pointer;
use haloport_core::transport::{Lease, SharedMemory};
use memmap2::MmapRaw;

/// Where files in memory are. It belongs to all users, so ours are made exclusively, with mode 0600.
const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "haloport-";
/// The bytes before the memory that is handed out: a number that tells this file from one of the same name on another
/// machine.
const HEAD: usize = 128;
const NUMBER: usize = size_of::<u64>();

/// Makes memory for a peer on this node; `None`, and a word in the log, where there is none to be had.
pub(crate) fn share(bytes: usize) -> Option<Lease> {
    make(bytes).inspect_err(|error| tracing::info!(bytes, %error, "no shared memory, messages instead")).ok()
}

/// Maps memory that a peer has made; `None`, and a word in the log, where it cannot be found.
pub(crate) fn map(token: &[u8]) -> Option<SharedMemory> {
    find(token).inspect_err(|error| tracing::info!(%error, "shared memory of a peer cannot be mapped")).ok()
}

fn make(bytes: usize) -> io::Result<Lease> {
    let file = tempfile::Builder::new().prefix(PREFIX).tempfile_in(FOLDER)?;
    let length = bytes.checked_add(HEAD).ok_or(io::ErrorKind::OutOfMemory)?;
    reserve(file.as_file(), length)?;
    let mapping = MmapRaw::map_raw(file.as_file())?;
    let number = RandomState::new().hash_one(file.path()).to_ne_bytes();
    // SAFETY: the mapping is longer than the head, and nobody else has it yet.
    unsafe { std::ptr::copy_nonoverlapping(number.as_ptr(), mapping.as_mut_ptr(), NUMBER) };
    let token = [&number, file.path().as_os_str().as_bytes()].concat();
    let name = file.into_temp_path();
    Ok(Lease { memory: hand_out(mapping), token, name: Box::new(name) })
}

fn find(token: &[u8]) -> io::Result<SharedMemory> {
    let (number, path) = token.split_at_checked(NUMBER).ok_or(io::ErrorKind::InvalidData)?;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
    if path.parent() != Some(Path::new(FOLDER)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is not in {FOLDER}", path.display()),
        ));
    }
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&path)?;
    let found = file.metadata()?;
    // SAFETY: the call has no conditions.
    let me = unsafe { libc::geteuid() };
    if !found.is_file() || found.uid() != me || found.len() < HEAD as u64 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is not ours", path.display())));
    }
    let mapping = MmapRaw::map_raw(&file)?;
    let mut theirs = [0u8; NUMBER];
    // SAFETY: the mapping is as long as the file, which is longer than the head; its owner wrote that before it sent the
    // token and writes it no more.
    unsafe { std::ptr::copy_nonoverlapping(mapping.as_ptr(), theirs.as_mut_ptr(), NUMBER) };
    if theirs != number {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("{} is another machine's", path.display()),
        ));
    }
    Ok(hand_out(mapping))
}

/// The memory behind the head.
fn hand_out(mapping: MmapRaw) -> SharedMemory {
    let (pointer, bytes) = (Pointer::new(mapping.as_mut_ptr().wrapping_add(HEAD)), mapping.len() - HEAD);
    // SAFETY: a mapping begins on a page, is readable and writable, and lives as long as its owner. Its pages are
    // reserved, so that touching them cannot fail, and were 0 at first.
    unsafe { SharedMemory::new(pointer, bytes, Box::new(mapping)) }
}

/// Gives the file its length, and pages for all of it.
#[cfg(target_os = "linux")]
fn reserve(file: &File, length: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: the file is open as long as it is borrowed.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Elsewhere there is no such folder.
#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _length: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
