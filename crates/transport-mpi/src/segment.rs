//! Memory that processes of one node share: files in memory that never have a name.
//!
//! A peer opens such a file through the process that made it (`/proc/PID/fd/FD`), which the system allows to processes of
//! the same user. Nothing is left behind, however a process ends. The files are sealed: nobody can shrink them, so
//! touching what is mapped cannot fail.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering};

use haloport_core::device::Pointer;
use haloport_core::transport::{Lease, SharedMemory};
use memmap2::MmapRaw;

/// The bytes before the memory that is handed out. They begin with a number that tells this file from one of the same
/// token on another machine.
const HEAD: usize = 128;
const NUMBER: usize = size_of::<u64>();

/// Of the files that a process may have open, at most one in so many is ours.
const SHARE_OF_FILES: u64 = 4;

/// What a file is found by: its number, the process that made it, its descriptor there, and its inode.
pub(crate) type Token = [u64; 4];

/// The files that are kept open so that peers may find them.
static OPEN_FILES: AtomicU64 = AtomicU64::new(0);

/// A file that is kept open.
struct Name {
    file: File,
}

/// Makes memory for the other processes of this node; `None`, and a word in the log, where there is none to be had.
pub(crate) fn share(bytes: usize) -> Option<Lease> {
    make(bytes).inspect_err(|error| tracing::info!(bytes, %error, "no shared memory, messages instead")).ok()
}

/// Maps memory that a peer has made; `None`, and a word in the log, where it cannot be found.
pub(crate) fn map(token: &[u8]) -> Option<SharedMemory> {
    let found = bytemuck::try_pod_read_unaligned(token)
        .map_err(|_| refused(format!("{} bytes are no token", token.len())))
        .and_then(|token| find(&token));
    found.inspect_err(|error| tracing::info!(%error, "shared memory of a peer cannot be mapped")).ok()
}

fn make(bytes: usize) -> io::Result<Lease> {
    let name = Name::new(create()?)?;
    let length = bytes.checked_add(HEAD).ok_or(io::ErrorKind::OutOfMemory)?;
    reserve(&name.file, length)?;
    let mapping = MmapRaw::map_raw(&name.file)?;
    let number = random()?;
    // SAFETY: the mapping is longer than the head, and nobody else has it yet.
    unsafe { std::ptr::copy_nonoverlapping(number.to_ne_bytes().as_ptr(), mapping.as_mut_ptr(), NUMBER) };
    let inode = name.file.metadata()?.ino();
    let token: Token = [number, u64::from(std::process::id()), name.file.as_raw_fd() as u64, inode];
    Ok(Lease {
        memory: hand_out(mapping),
        token: bytemuck::cast_slice(&token).to_vec(),
        name: Box::new(name),
    })
}

fn find([number, process, descriptor, inode]: &Token) -> io::Result<SharedMemory> {
    let path = format!("/proc/{process}/fd/{descriptor}");
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&path)?;
    let found = file.metadata()?;
    // SAFETY: the call has no conditions.
    let me = unsafe { libc::geteuid() };
    let is_ours = found.is_file() && found.uid() == me && found.ino() == *inode && is_sealed(&file);
    if !is_ours || found.len() < HEAD as u64 {
        return Err(refused(format!("{path} is not what was shared")));
    }
    let mapping = MmapRaw::map_raw(&file)?;
    let mut theirs = [0u8; NUMBER];
    // SAFETY: the mapping is as long as the file, which is longer than the head; its owner wrote that before it gave the
    // token away, and writes it no more.
    unsafe { std::ptr::copy_nonoverlapping(mapping.as_ptr(), theirs.as_mut_ptr(), NUMBER) };
    if u64::from_ne_bytes(theirs) != *number {
        return Err(refused(format!("{path} is another machine's")));
    }
    Ok(hand_out(mapping))
}

/// The memory behind the head.
fn hand_out(mapping: MmapRaw) -> SharedMemory {
    let (pointer, bytes) = (Pointer::new(mapping.as_mut_ptr().wrapping_add(HEAD)), mapping.len() - HEAD);
    // SAFETY: a mapping begins on a page, is readable and writable, and lives as long as its owner. Its pages are
    // reserved and cannot be taken away, so that touching them cannot fail, and were 0 at first.
    unsafe { SharedMemory::new(pointer, bytes, Box::new(mapping)) }
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn random() -> io::Result<u64> {
    let mut number = [0u8; NUMBER];
    io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut number)?;
    Ok(u64::from_ne_bytes(number))
}

impl Name {
    /// Keeps a file open, unless there are too many already.
    fn new(file: File) -> io::Result<Name> {
        let most = most_files();
        if OPEN_FILES.fetch_add(1, Ordering::Relaxed) >= most {
            OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
            return Err(io::Error::other(format!("{most} files for shared memory are open already")));
        }
        Ok(Name { file })
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many files may be kept open.
fn most_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is written to a place of its type.
    let asked = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    if asked == 0 { limit.rlim_cur / SHARE_OF_FILES } else { 0 }
}

/// A file in memory without a name.
#[cfg(target_os = "linux")]
fn create() -> io::Result<File> {
    // SAFETY: the name is a C string.
    let descriptor =
        unsafe { libc::memfd_create(c"haloport".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Gives the file its length for ever, and pages for all of it.
#[cfg(target_os = "linux")]
fn reserve(file: &File, length: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: the file is open as long as it is borrowed.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => {}
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: as above.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether nobody can shrink the file.
#[cfg(target_os = "linux")]
fn is_sealed(file: &File) -> bool {
    // SAFETY: the file is open as long as it is borrowed.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}

/// Elsewhere there are no such files.
#[cfg(not(target_os = "linux"))]
fn create() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Elsewhere there are no such files.
#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _length: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Elsewhere there are no such files.
#[cfg(not(target_os = "linux"))]
fn is_sealed(_file: &File) -> bool {
    false
}
