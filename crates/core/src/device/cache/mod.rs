//! The kernel cache: compiled kernels in memory and on disk, for every backend that compiles at run time.
//!
//! A kernel is found by its [`KernelKey`], which is made from everything that it depends on: nothing in the cache ever
//! goes stale, and its folder may be removed at any time. What lies in the folder is executed, so
//! - the folder belongs to the user who runs, and to nobody else: its owner and its mode (0700) are checked on each
//!   use, and another folder, or a link in its place, is not used;
//! - it is made when the first kernel is written, not before;
//! - an entry is written to a temporary file, which then takes its place under its name in one step, and an entry is
//!   checked as a whole when it is read. So any number of processes may write at once and be killed at any moment.
//!
//! An entry that is damaged, half-written, too large or another user's is a miss: the kernel is compiled again. A folder
//! that cannot be used costs the cache on disk and nothing else; that is said once, through `tracing`.

mod entry;
#[cfg_attr(not(unix), path = "no_folder.rs")]
mod folder;
mod key;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use folder::Folder;
pub use key::{KernelKey, KernelParts};

/// Compiled kernels by what they were compiled from.
pub struct KernelCache {
    folder: Option<Folder>,
    kernels: Mutex<HashMap<KernelKey, Arc<Slot>>>,
    /// Whether a trouble with the folder has been said.
    said: AtomicBool,
}

/// A kernel, once there is one; locked while it is looked for on disk and compiled.
type Slot = Mutex<Option<Arc<[u8]>>>;

impl KernelCache {
    /// The cache that the whole process shares, made at the first call as [`of_user`](KernelCache::of_user) says.
    ///
    /// Backends use this one, so that ranks that are threads, each with a device of its own, compile a kernel once.
    pub fn of_process() -> &'static KernelCache {
        static CACHE: OnceLock<KernelCache> = OnceLock::new();
        CACHE.get_or_init(KernelCache::of_user)
    }

    /// A cache in memory and in the user's folder: `HALOPORT_CACHE_DIR`, or else `haloport/kernels` in
    /// `XDG_CACHE_HOME` or in `~/.cache`. If `HALOPORT_CACHE_DIR` is set and empty, or there is no home, the cache is in
    /// memory alone. Touches no file.
    pub fn of_user() -> KernelCache {
        match folder_of_user() {
            Some(folder) => KernelCache::in_folder(folder),
            None => KernelCache::in_memory(),
        }
    }

    /// A cache in memory alone.
    pub fn in_memory() -> KernelCache {
        KernelCache { folder: None, kernels: Mutex::default(), said: AtomicBool::new(false) }
    }

    /// A cache in memory and in `folder`, which is made with mode 0700, and its parents with it, when the first kernel
    /// is written. If there already is such a folder, it must be the user's and open to nobody else. Touches no file.
    pub fn in_folder(folder: impl AsRef<Path>) -> KernelCache {
        KernelCache { folder: Folder::new(folder.as_ref()), ..KernelCache::in_memory() }
    }

    /// The kernel `key`: from memory, or else from disk, or else from `compile`, which is then kept.
    ///
    /// Blocks while another thread of the process is at the same key: of all that ask at once, one compiles. If that one
    /// fails or panics, the next tries. Two processes may both compile; each then has a valid kernel, and the last one
    /// written stays on disk. `compile` must not ask the cache for the same key, for which it would wait for ever.
    ///
    /// # Errors
    /// What `compile` gives. The cache adds no error of its own.
    pub fn get_or_compile<E>(
        &self,
        key: &KernelKey,
        compile: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<[u8]>, E> {
        let slot = lock(&self.kernels).entry(*key).or_default().clone();
        let mut slot = lock(&slot);
        if let Some(kernel) = &*slot {
            return Ok(kernel.clone());
        }
        let kernel: Arc<[u8]> = match self.read(key) {
            Some(kernel) => kernel.into(),
            None => {
                let kernel = compile()?;
                self.write(key, &kernel);
                kernel.into()
            }
        };
        *slot = Some(kernel.clone());
        Ok(kernel)
    }

    /// Forgets the kernel `key`, in memory and on disk, because the device refused to load `refused`. If another thread
    /// has already replaced that one, does nothing. Then ask for the key again.
    pub fn forget(&self, key: &KernelKey, refused: &Arc<[u8]>) {
        let Some(slot) = lock(&self.kernels).get(key).cloned() else { return };
        let mut slot = lock(&slot);
        if slot.as_ref().is_some_and(|kernel| Arc::ptr_eq(kernel, refused)) {
            *slot = None;
            if let Some(Err(error)) = self.folder.as_ref().map(|folder| folder.remove(key)) {
                self.say(&error);
            }
        }
    }

    fn read(&self, key: &KernelKey) -> Option<Vec<u8>> {
        self.folder.as_ref()?.read(key).unwrap_or_else(|error| {
            self.say(&error);
            None
        })
    }

    fn write(&self, key: &KernelKey, kernel: &[u8]) {
        if let Some(Err(error)) = self.folder.as_ref().map(|folder| folder.write(key, kernel)) {
            self.say(&error);
        }
    }

    fn say(&self, error: &folder::FolderError) {
        if !self.said.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "kernels are not kept on disk, and are compiled again by each process");
        }
    }
}

impl fmt::Debug for KernelCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelCache").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// What a panic of `compile` leaves is whole: nothing is written to a slot but a finished kernel.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn folder_of_user() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("HALOPORT_CACHE_DIR") {
        return (!folder.is_empty()).then(|| folder.into());
    }
    // A relative path in these variables is to be ignored: XDG Base Directory Specification 0.8.
    let from_xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    from_xdg
        .filter(|folder| folder.is_absolute())
        .or_else(|| std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache")))
        .map(|caches| caches.join("haloport").join("kernels"))
}
