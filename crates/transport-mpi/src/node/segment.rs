//! Memory that processes of one node share: files in memory that never have a name.
//!
//! A peer opens such a file through the process that made it (`/proc/PID/fd/FD`), which the system allows to processes
//! of the same user. Nothing remains after a process has ended in any way. The files are sealed: no process can shrink
//! them, so access to mapped pages cannot fail.
//!
//! A file may hold only some parts of the memory. They follow each other in the file, and each process maps them at the
//! distances that they have in memory. Between them, the process that made the file has memory of its own, and the
//! others have nothing.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::iter;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering};

use haloport_core::device::Pointer;
use haloport_core::transport::{Lease, SharedMemory};

use super::forks::CopiedInChildren;
use super::mapping::{Mapping, page_bytes, whole_pages};

/// The number of words at the beginning of a file's first page: a number that distinguishes this file from one with the
/// same token on another machine, the size of the memory in bytes, and the number of shared parts. Two words for each
/// part follow: its start and its end. The pages of the parts are the rest of the file, one part after the other.
const HEAD_WORDS: usize = 3;
const WORD: usize = size_of::<u64>();

/// The bytes of a file that get memory in one call: a millisecond's work, so that it ends between two signals of a timer.
#[cfg(target_os = "linux")]
const RESERVED_AT_ONCE: libc::off_t = 2 << 20;

/// Of the files that a process may open, at most one in this number is for shared memory.
const SHARE_OF_FILES: u64 = 4;

/// The address of a file for peers: its number, the process that made it, its descriptor in that process, and its
/// inode.
pub(crate) type Token = [u64; 4];

/// The number of files that are open so that peers can open them.
static OPEN_FILES: AtomicU64 = AtomicU64::new(0);

/// A file that is open so that peers can open it.
struct OpenFile {
    file: File,
}

/// Makes memory of which the other processes of this node can map `parts`; `None`, and a line in the log, if the system
/// refuses it.
pub(crate) fn share(bytes: usize, parts: &[Range<usize>]) -> Option<Lease> {
    make(bytes, parts)
        .inspect_err(|error| tracing::info!(bytes, %error, "no shared memory, messages instead"))
        .ok()
}

/// Maps memory of a peer; `None`, and a line in the log, if it cannot be opened or mapped.
pub(crate) fn map(token: &[u8]) -> Option<SharedMemory> {
    let found = bytemuck::try_pod_read_unaligned(token)
        .map_err(|_| refused(format!("{} bytes are no token", token.len())))
        .and_then(|token| find(&token));
    found.inspect_err(|error| tracing::info!(%error, "shared memory of a peer cannot be mapped")).ok()
}

/// As [`share`]; the error names the call that the system refuses.
pub(crate) fn make(bytes: usize, parts: &[Range<usize>]) -> io::Result<Lease> {
    let parts = page_parts(bytes, parts).ok_or(io::ErrorKind::OutOfMemory)?;
    let made = Made::new(bytes, &parts)?;
    let mapping = Mapping::private(bytes).and_then(|mapping| map_parts(made.file(), &parts, mapping));
    let mapping = mapping.map_err(failed_in("mmap"))?;
    let copied = CopiedInChildren::new(&parts, mapping.begin().expose_provenance());
    let memory = hand_out(mapping, Some(copied), (bytes, parts));
    Ok(Lease { memory, token: made.token(), name: Box::new(made) })
}

/// A file for shared memory, and its token, by which peers find it as long as this exists.
pub(super) struct Made {
    open: OpenFile,
    token: Token,
}

impl Made {
    /// Makes a file for memory of `bytes` bytes with these parts, which are whole pages; the parts are all 0.
    pub(super) fn new(bytes: usize, parts: &[Range<usize>]) -> io::Result<Made> {
        let open = OpenFile::new(create().map_err(failed_in("memfd_create"))?)?;
        let length = parts.iter().map(Range::len).fold(page_bytes(), usize::saturating_add);
        reserve(&open.file, length).map_err(failed_in("posix_fallocate"))?;
        let number = random();
        let head = [number, bytes as u64, parts.len() as u64].into_iter();
        let head: Vec<u64> =
            head.chain(parts.iter().flat_map(|part| [part.start as u64, part.end as u64])).collect();
        if head.len() * WORD > page_bytes() {
            return Err(refused(format!("{} parts are too many", parts.len())));
        }
        open.file.write_all_at(bytemuck::cast_slice(&head), 0).map_err(failed_in("write"))?;
        let inode = open.file.metadata()?.ino();
        let token = [number, u64::from(std::process::id()), open.file.as_raw_fd() as u64, inode];
        Ok(Made { open, token })
    }

    /// The file. Its parts follow each other behind its first page.
    pub(super) fn file(&self) -> &File {
        &self.open.file
    }

    /// The token, as peers get it.
    pub(super) fn token(&self) -> Vec<u8> {
        bytemuck::cast_slice(&self.token).to_vec()
    }
}

/// As [`map`]; the error names the call that the system refuses.
pub(crate) fn find([number, process, descriptor, inode]: &Token) -> io::Result<SharedMemory> {
    let path = format!("/proc/{process}/fd/{descriptor}");
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&path);
    let file = file.map_err(failed_in(&path))?;
    let found = file.metadata()?;
    // SAFETY: the call has no conditions.
    let me = unsafe { libc::geteuid() };
    let is_ours = found.is_file() && found.uid() == me && found.ino() == *inode && is_sealed(&file);
    if !is_ours || found.len() < page_bytes() as u64 {
        return Err(refused(format!("{path} is not the file that was shared")));
    }
    let mut head = vec![0u64; page_bytes() / WORD];
    file.read_exact_at(bytemuck::cast_slice_mut(&mut head), 0)?;
    if head[0] != *number {
        return Err(refused(format!("{path} is a file of another machine")));
    }
    let (bytes, parts) = read_head(&head, found.len())
        .ok_or_else(|| refused(format!("{path} does not hold the parts that its head lists")))?;
    let mapping = Mapping::reserved(bytes).and_then(|mapping| map_parts(&file, &parts, mapping));
    let mapping = mapping.map_err(failed_in("mmap"))?;
    Ok(hand_out(mapping, None, (bytes, parts)))
}

/// The size of the memory in bytes and its parts, from the head of a file of `length` bytes; `None` if the parts are
/// not in order or not in the file.
fn read_head(head: &[u64], length: u64) -> Option<(usize, Vec<Range<usize>>)> {
    let (fixed, bounds) = head.split_at_checked(HEAD_WORDS)?;
    let bounds = bounds.get(..usize::try_from(fixed[2]).ok()?.checked_mul(2)?)?;
    let (mut parts, mut last_end, mut in_file) = (Vec::with_capacity(bounds.len() / 2), 0, page_bytes());
    for bound in bounds.chunks_exact(2) {
        let (start, end) = (usize::try_from(bound[0]).ok()?, usize::try_from(bound[1]).ok()?);
        in_file = in_file.checked_add(end.checked_sub(start)?)?;
        if start < last_end || in_file as u64 > length {
            return None;
        }
        last_end = end;
        parts.push(start..end);
    }
    Some((usize::try_from(fixed[1]).ok()?, parts))
}

/// The pages that hold `parts` of memory of `bytes` bytes, in ascending order; `None` if a part extends beyond the end.
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

/// Maps the parts of a file at their distances in memory.
fn map_parts(file: &File, parts: &[Range<usize>], mapping: Mapping) -> io::Result<Mapping> {
    let mapped = parts.iter().try_fold((mapping, page_bytes()), |(mapping, at), part| {
        Ok::<_, io::Error>((mapping.with_file(part, file, at)?, at + part.len()))
    });
    mapped.map(|(mapping, _)| mapping)
}

/// Shared memory of `bytes` bytes with these parts.
fn hand_out(
    mapping: Mapping,
    copied: Option<CopiedInChildren>,
    (bytes, parts): (usize, Vec<Range<usize>>),
) -> SharedMemory {
    let pointer = Pointer::new(mapping.begin());
    // SAFETY: a mapping begins on a page, and lives as long as its owner. The parts are pages of a file, readable and
    // writable, and 0 at first; they are reserved and sealed, so access to them cannot fail.
    unsafe { SharedMemory::new(pointer, bytes, parts, Box::new((copied, mapping))) }
}

fn refused(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Adds the call, or the file, that failed to an error.
pub(super) fn failed_in(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// A number that no other call returns, on this machine or another, except by chance. It distinguishes files, and
/// protects none: for that, the owner of the file is checked.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

impl OpenFile {
    /// Counts an open file; an error if there are too many already.
    fn new(file: File) -> io::Result<OpenFile> {
        let most = most_files();
        if OPEN_FILES.fetch_add(1, Ordering::Relaxed) >= most {
            OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
            return Err(io::Error::other(format!(
                "{most} files for shared memory are open already, one in {SHARE_OF_FILES} of those that `ulimit -n` allows"
            )));
        }
        Ok(OpenFile { file })
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Maximum number of open files for shared memory.
fn most_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is written to a variable of its type.
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
    // SAFETY: the descriptor is new, and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Gives the file its final length, and pages for all of it.
#[cfg(target_os = "linux")]
fn reserve(file: &File, length: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // In parts: a signal of the program undoes a call that is under way.
    for at in (0..length).step_by(RESERVED_AT_ONCE as usize) {
        let part = RESERVED_AT_ONCE.min(length - at);
        // SAFETY: the file is open as long as it is borrowed.
        let reserve = || unsafe { libc::posix_fallocate(file.as_raw_fd(), at, part) };
        match without_size_signal(|| iter::repeat_with(reserve).find(|error| *error != libc::EINTR))? {
            None | Some(0) => {}
            Some(error) => return Err(io::Error::from_raw_os_error(error)),
        }
    }
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: as above.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a call which, if it exceeds the limit of the size of files, returns an error and does not end the process by the
/// signal SIGXFSZ.
#[cfg(target_os = "linux")]
fn without_size_signal<T>(call: impl FnOnce() -> T) -> io::Result<T> {
    // SAFETY: sets of signals are plain data, and the calls write those that are passed; the signal goes to this thread, in
    // which it is blocked meanwhile, and is taken before it is let through again.
    unsafe {
        let (mut signal, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&mut signal);
        libc::sigaddset(&mut signal, libc::SIGXFSZ);
        match libc::pthread_sigmask(libc::SIG_BLOCK, &signal, &mut before) {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        let result = call();
        if libc::sigismember(&before, libc::SIGXFSZ) == 0 {
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&signal, std::ptr::null_mut(), &at_once);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        Ok(result)
    }
}

/// Whether no process can shrink the file.
#[cfg(target_os = "linux")]
fn is_sealed(file: &File) -> bool {
    // SAFETY: the file is open as long as it is borrowed.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}

/// Other systems have no such files.
#[cfg(not(target_os = "linux"))]
fn create() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Other systems have no such files.
#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _length: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Other systems have no such files.
#[cfg(not(target_os = "linux"))]
fn is_sealed(_file: &File) -> bool {
    false
}
