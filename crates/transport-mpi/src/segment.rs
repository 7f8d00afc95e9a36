//! Memory that processes of one node share: files in memory that never have a name.
//!
//! A peer opens such a file through the process that made it (`/proc/PID/fd/FD`), which the system allows to processes of
//! the same user. Nothing is left behind, however a process ends. The files are sealed: nobody can shrink them, so
//! touching what is mapped cannot fail.
//!
//! A file may hold a few parts of the memory alone. They lie in it one after the other, and each process maps them at the
//! distances from each other that they have in memory. Between them, the process that made them has memory of its own,
//! and the others have nothing.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering};

use haloport_core::device::Pointer;
use haloport_core::transport::{Lease, SharedMemory};

use crate::mapping::{Mapping, page_bytes, whole_pages};

/// The words at the begin of a file's first page: a number that tells this file from one of the same token on another
/// machine, the bytes of the memory, and how many parts of it are shared. Two for each of these follow: where it begins
/// and ends. Their pages are the rest of the file, one part after the other.
const HEAD_WORDS: usize = 3;
const WORD: usize = size_of::<u64>();

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

/// Makes memory of which the other processes of this node can map `parts`; `None`, and a word in the log, where there is
/// none to be had.
pub(crate) fn share(bytes: usize, parts: &[Range<usize>]) -> Option<Lease> {
    make(bytes, parts)
        .inspect_err(|error| tracing::info!(bytes, %error, "no shared memory, messages instead"))
        .ok()
}

/// Maps memory that a peer has made; `None`, and a word in the log, where it cannot be found.
pub(crate) fn map(token: &[u8]) -> Option<SharedMemory> {
    let found = bytemuck::try_pod_read_unaligned(token)
        .map_err(|_| refused(format!("{} bytes are no token", token.len())))
        .and_then(|token| find(&token));
    found.inspect_err(|error| tracing::info!(%error, "shared memory of a peer cannot be mapped")).ok()
}

/// As [`share`], with the call that is refused.
pub(crate) fn make(bytes: usize, parts: &[Range<usize>]) -> io::Result<Lease> {
    let name = Name::new(create().map_err(said_by("memfd_create"))?)?;
    let parts = page_parts(bytes, parts).ok_or(io::ErrorKind::OutOfMemory)?;
    let length = parts.iter().map(Range::len).fold(page_bytes(), usize::saturating_add);
    reserve(&name.file, length).map_err(said_by("posix_fallocate"))?;
    let number = random();
    let head = [number, bytes as u64, parts.len() as u64].into_iter();
    let head: Vec<u64> =
        head.chain(parts.iter().flat_map(|part| [part.start as u64, part.end as u64])).collect();
    if head.len() * WORD > page_bytes() {
        return Err(refused(format!("{} parts are too many", parts.len())));
    }
    name.file.write_all_at(bytemuck::cast_slice(&head), 0).map_err(said_by("write"))?;
    let mapping = Mapping::private(bytes).and_then(|mapping| put(&name.file, &parts, mapping));
    let mapping = mapping.map_err(said_by("mmap"))?;
    let inode = name.file.metadata()?.ino();
    let token: Token = [number, u64::from(std::process::id()), name.file.as_raw_fd() as u64, inode];
    Ok(Lease {
        memory: hand_out(mapping, bytes, parts),
        token: bytemuck::cast_slice(&token).to_vec(),
        name: Box::new(name),
    })
}

/// As [`map`], with the call that is refused.
pub(crate) fn find([number, process, descriptor, inode]: &Token) -> io::Result<SharedMemory> {
    let path = format!("/proc/{process}/fd/{descriptor}");
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&path);
    let file = file.map_err(said_by(&path))?;
    let found = file.metadata()?;
    // SAFETY: the call has no conditions.
    let me = unsafe { libc::geteuid() };
    let is_ours = found.is_file() && found.uid() == me && found.ino() == *inode && is_sealed(&file);
    if !is_ours || found.len() < page_bytes() as u64 {
        return Err(refused(format!("{path} is not what was shared")));
    }
    let mut head = vec![0u64; page_bytes() / WORD];
    file.read_exact_at(bytemuck::cast_slice_mut(&mut head), 0)?;
    if head[0] != *number {
        return Err(refused(format!("{path} is another machine's")));
    }
    let (bytes, parts) = read_head(&head, found.len())
        .ok_or_else(|| refused(format!("the parts that {path} says it has are not in it")))?;
    let mapping = Mapping::reserved(bytes).and_then(|mapping| put(&file, &parts, mapping));
    let mapping = mapping.map_err(said_by("mmap"))?;
    Ok(hand_out(mapping, bytes, parts))
}

/// The bytes of the memory and its parts, as the head of a file of `length` bytes has them; `None` where they are not in
/// order or not in the file.
fn read_head(head: &[u64], length: u64) -> Option<(usize, Vec<Range<usize>>)> {
    let (fixed, bounds) = head.split_at_checked(HEAD_WORDS)?;
    let bounds = bounds.get(..usize::try_from(fixed[2]).ok()?.checked_mul(2)?)?;
    let (mut parts, mut past, mut in_file) = (Vec::with_capacity(bounds.len() / 2), 0, page_bytes());
    for bound in bounds.chunks_exact(2) {
        let (start, end) = (usize::try_from(bound[0]).ok()?, usize::try_from(bound[1]).ok()?);
        in_file = in_file.checked_add(end.checked_sub(start)?)?;
        if start < past || in_file as u64 > length {
            return None;
        }
        past = end;
        parts.push(start..end);
    }
    Some((usize::try_from(fixed[1]).ok()?, parts))
}

/// The pages that `parts` of memory of so many bytes lie in, in ascending order; `None` for parts beyond the end.
fn page_parts(bytes: usize, parts: &[Range<usize>]) -> Option<Vec<Range<usize>>> {
    whole_pages(bytes)?;
    let mut parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).cloned().collect();
    parts.sort_by_key(|part| part.start);
    let mut pages: Vec<Range<usize>> = Vec::with_capacity(parts.len());
    for part in parts {
        let range = part.start / page_bytes() * page_bytes()..whole_pages(part.end)?;
        match pages.last_mut() {
            _ if part.end > bytes => return None,
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => pages.push(range),
        }
    }
    Some(pages)
}

/// Puts the parts of a file to their places in a mapping.
fn put(file: &File, parts: &[Range<usize>], mapping: Mapping) -> io::Result<Mapping> {
    let placed = parts.iter().try_fold((mapping, page_bytes()), |(mapping, at), part| {
        Ok::<_, io::Error>((mapping.with_file(part, file, at)?, at + part.len()))
    });
    placed.map(|(mapping, _)| mapping)
}

fn hand_out(mapping: Mapping, bytes: usize, parts: Vec<Range<usize>>) -> SharedMemory {
    let pointer = Pointer::new(mapping.begin());
    // SAFETY: a mapping begins on a page, and lives as long as its owner. The parts are pages of a file, readable and
    // writable; they are reserved and cannot be taken away, so that touching them cannot fail, and were 0 at first.
    unsafe { SharedMemory::new(pointer, bytes, parts, Box::new(mapping)) }
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The same error, with what it was that failed.
fn said_by(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// A number that no other call returns, on this machine or another one, but by chance. It tells files apart and keeps
/// nobody out: that is what their owner is asked for.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

impl Name {
    /// Keeps a file open, unless there are too many already.
    fn new(file: File) -> io::Result<Name> {
        let most = most_files();
        if OPEN_FILES.fetch_add(1, Ordering::Relaxed) >= most {
            OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
            return Err(io::Error::other(format!(
                "{most} files for shared memory are open already, of those that `ulimit -n` allows one in {SHARE_OF_FILES}"
            )));
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
