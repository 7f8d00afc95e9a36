//! The folder of the cache on disk. All calls are relative to the open folder that was checked, so that no other
//! process can replace it between the check and the use.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, open, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{KernelKey, entry};

/// The rights of everybody but the owner.
const OF_OTHERS: Mode = Mode::RWXG.union(Mode::RWXO);
/// The mode of a file.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The prefix of the names of unfinished files.
const WRITING: &str = ".writing-";
/// The prefix of the names of locked files.
const COMPILING: &str = ".compiling-";
/// After this time, the writer of an unfinished file counts as killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The time after which a process no longer waits for another one that compiles, and how often it looks.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
const NAP: Duration = Duration::from_millis(2);

/// A folder that may not exist yet.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    swept: Once,
}

/// As long as this lives, other processes that want the kernel wait for it.
#[derive(Debug)]
pub(super) struct Claim {
    folder: OwnedFd,
    name: String,
    _locked: OwnedFd,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A process that waits for the lock of the removed file gets it, and one that comes later makes another file: both
        // find the kernel. If the file stays, a later `sweep` removes it.
        let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FolderError {
    #[error("the cache folder {path} is not a folder, but a file or a link: {ADVICE}")]
    NotAFolder { path: PathBuf },
    #[error("the cache folder {path} belongs to user {owner}, but this is user {user}: {ADVICE}")]
    OfAnother { path: PathBuf, owner: u32, user: u32 },
    #[error("the cache folder {path} is open to others (mode {:o}, expected 700): {ADVICE}", mode.bits())]
    Open { path: PathBuf, mode: Mode },
    #[error("the cache folder {path}: {what}: {error}: {ADVICE}")]
    System { path: PathBuf, what: &'static str, error: io::Error },
}

const ADVICE: &str =
    "set HALOPORT_CACHE_DIR to a folder of your own with mode 700, or leave it empty for no cache on disk";

impl Folder {
    /// A folder at `path`. Touches no file.
    pub(super) fn new(path: &Path) -> Option<Folder> {
        // Absolute, so that a change of the working folder does not matter; without a slash at the end, which would
        // follow a link.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        Some(Folder { path: path.components().collect(), swept: Once::new() })
    }

    /// The kernel `key`; `None` if the folder has no valid entry for it.
    pub(super) fn read(&self, key: &KernelKey) -> Result<Option<Vec<u8>>, FolderError> {
        let Some(folder) = self.open()? else { return Ok(None) };
        let kernel = read_entry(&folder, key);
        if kernel.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            tracing::debug!(%key, folder = %self.path.display(), "a kernel on disk is not valid and is compiled again");
        }
        Ok(kernel.ok())
    }

    /// Waits while another process compiles the kernel `key`, and keeps others from it. `None` if that cannot be had: then the
    /// kernel is compiled, too.
    pub(super) fn claim(&self, key: &KernelKey) -> Option<Claim> {
        let folder = self.open().and_then(|folder| folder.map_or_else(|| self.create(), Ok)).ok()?;
        let name = format!("{COMPILING}{key}");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&folder, &name, flags, FILE_MODE).ok()?;
        let began = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Some(Claim { folder, name, _locked: file }),
                Err(Errno::WOULDBLOCK | Errno::INTR) if began.elapsed() < LONGEST_WAIT => {
                    std::thread::sleep(NAP)
                }
                Err(_) => return None,
            }
        }
    }

    /// Writes a kernel, and replaces an existing one.
    pub(super) fn write(&self, key: &KernelKey, kernel: &[u8]) -> Result<(), FolderError> {
        let Some(file) = entry::encode(key, kernel) else {
            tracing::debug!(%key, bytes = kernel.len(), "a kernel is too large for the cache on disk");
            return Ok(());
        };
        let folder = match self.open()? {
            Some(folder) => folder,
            None => self.create()?,
        };
        self.swept.call_once(|| sweep(&folder));
        write_entry(&folder, key, &file).map_err(|error| self.system("a kernel could not be written", error))
    }

    /// Removes a kernel, if there is one.
    pub(super) fn remove(&self, key: &KernelKey) -> Result<(), FolderError> {
        let Some(folder) = self.open()? else { return Ok(()) };
        match unlinkat(&folder, key.to_string(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.system("a kernel could not be removed", error.into())),
        }
    }

    fn create(&self) -> Result<OwnedFd, FolderError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
            .map_err(|error| self.system("it could not be made", error))?;
        self.open()?.ok_or_else(|| self.system("it could not be opened", Errno::NOENT.into()))
    }

    /// The folder, which must belong to the user alone; `None` if it does not exist.
    fn open(&self) -> Result<Option<OwnedFd>, FolderError> {
        let path = || self.path.clone();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match open(&self.path, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(FolderError::NotAFolder { path: path() }),
            Err(error) => return Err(self.system("it could not be opened", error.into())),
        };
        let found = fstat(&folder).map_err(|error| self.system("it could not be checked", error.into()))?;
        let user = geteuid().as_raw();
        if found.st_uid != user {
            return Err(FolderError::OfAnother { path: path(), owner: found.st_uid, user });
        }
        let mode = Mode::from_raw_mode(found.st_mode);
        if mode.intersects(OF_OTHERS) {
            return Err(FolderError::Open { path: path(), mode });
        }
        Ok(Some(folder))
    }

    fn system(&self, what: &'static str, error: io::Error) -> FolderError {
        FolderError::System { path: self.path.clone(), what, error }
    }
}

/// A valid entry that belongs to the user; any other file is an error.
fn read_entry(folder: &OwnedFd, key: &KernelKey) -> io::Result<Vec<u8>> {
    // NONBLOCK: if the file is a pipe, opening it does not wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder, key.to_string(), flags, Mode::empty())?;
    let found = fstat(&file)?;
    let ours =
        found.st_uid == geteuid().as_raw() && !Mode::from_raw_mode(found.st_mode).intersects(OF_OTHERS);
    let bytes = u64::try_from(found.st_size).unwrap_or(u64::MAX);
    if !ours
        || FileType::from_raw_mode(found.st_mode) != FileType::RegularFile
        || bytes > entry::MAX_ENTRY_BYTES
    {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut content = Vec::with_capacity(bytes as usize + 1);
    File::from(file).take(bytes + 1).read_to_end(&mut content)?;
    entry::decode(key, content).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Writes a temporary file and renames it in one step. Nothing is forced to the disk: if the machine crashes, an
/// unfinished entry fails its checksum.
fn write_entry(folder: &OwnedFd, key: &KernelKey, content: &[u8]) -> io::Result<()> {
    let (name, file) = temporary(folder)?;
    let written = File::from(file)
        .write_all(content)
        .and_then(|()| renameat(folder, &name, folder, key.to_string()).map_err(io::Error::from));
    if written.is_err() {
        // The caller gets the error of the write; if the file stays, a later `sweep` removes it.
        let _ = unlinkat(folder, &name, AtFlags::empty());
    }
    written
}

/// A new file in the folder, and its name, which is unique among threads, processes and machines.
fn temporary(folder: &OwnedFd) -> io::Result<(String, OwnedFd)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{WRITING}{}-{number}-{}", std::process::id(), since_1970().as_nanos());
        match openat(folder, &name, flags, FILE_MODE) {
            Ok(file) => return Ok((name, file)),
            // Another machine that shares the folder took the same name: try the next one.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes the unfinished and locked files of killed processes, as far as it can.
fn sweep(folder: &OwnedFd) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    for name in entries.flatten().map(|entry| entry.file_name().to_owned()) {
        if ![WRITING, COMPILING].iter().any(|prefix| name.to_bytes().starts_with(prefix.as_bytes())) {
            continue;
        }
        let Ok(found) = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let written = Duration::from_secs(u64::try_from(found.st_mtime).unwrap_or(0));
        if since_1970().saturating_sub(written) > ABANDONED {
            let _ = unlinkat(folder, &name, AtFlags::empty());
        }
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
