//! The kernel cache: compiled kernels in memory and on disk, for every backend that compiles at run time.
//!
//! The [`KernelKey`] of a kernel covers everything that the kernel depends on. So no entry goes stale, and the folder
//! may be removed at any time. The contents of the folder are executed, therefore:
//! - The folder belongs to the user alone. Its owner and its mode (0700) are checked on each use; any other folder, or
//!   a link in its place, is not used.
//! - The folder is made when the first kernel is compiled, not before.
//! - An entry is written to a temporary file, which is then renamed in one step, and each entry is checked as a whole
//!   when it is read. So any number of processes may write at once and be killed at any moment.
//! - A process that compiles a kernel locks a file beside it, so that others of the node wait for the kernel. The lock of a
//!   process that is killed is gone.
//!
//! A damaged, half-written or too large entry, or one of another user, is a miss: the kernel is compiled again. If the
//! folder cannot be used, the cache works in memory alone and warns once, in the log.

mod entry;
#[cfg_attr(not(unix), path = "no_folder.rs")]
mod folder;
mod key;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use folder::Folder;
pub use key::{KernelKey, KernelParts};

use crate::lock::lock;
use crate::log;

/// Compiled kernels by what they were compiled from.
pub struct KernelCache {
    folder: Option<Folder>,
    kernels: Mutex<HashMap<KernelKey, Arc<CachedKernel>>>,
    /// Whether the cache has warned that it cannot use the folder.
    warned: AtomicBool,
}

/// A kernel, or `None` before it is compiled; locked while it is read from disk or compiled.
type CachedKernel = Mutex<Option<Arc<[u8]>>>;

impl KernelCache {
    /// The cache that the whole process shares, made at the first call by [`of_user`](KernelCache::of_user).
    ///
    /// Backends use this one, so that ranks that are threads, each with its own device, compile a kernel once.
    pub fn of_process() -> &'static KernelCache {
        static CACHE: OnceLock<KernelCache> = OnceLock::new();
        CACHE.get_or_init(KernelCache::of_user)
    }

    /// A cache in memory and in the user's folder: `HALOPORT_CACHE_DIR`, or else `haloport/kernels` in `XDG_CACHE_HOME`
    /// or in `~/.cache`. If `HALOPORT_CACHE_DIR` is set but empty, or the user has no home, the cache is in memory
    /// alone. Touches no file.
    pub fn of_user() -> KernelCache {
        match folder_of_user() {
            Some(folder) => KernelCache::in_folder(folder),
            None => KernelCache::in_memory(),
        }
    }

    /// A cache in memory alone.
    pub fn in_memory() -> KernelCache {
        KernelCache { folder: None, kernels: Mutex::default(), warned: AtomicBool::new(false) }
    }

    /// A cache in memory and in `folder`. The first write makes the folder and its parents, with mode 0700. An existing
    /// folder must belong to the user and be closed to everybody else. Touches no file.
    pub fn in_folder(folder: impl AsRef<Path>) -> KernelCache {
        KernelCache { folder: Folder::new(folder.as_ref()), ..KernelCache::in_memory() }
    }

    /// The kernel `key`: from memory, otherwise from disk, otherwise from `compile`; then the cache stores it.
    ///
    /// Blocks while another thread of the process looks for the same key: of several threads, one compiles, and if it
    /// fails or panics, the next one tries. Of several processes that have the same folder, one compiles, and the others
    /// wait for it, for at most two minutes; if one fails, or the folder's file system has no locks, others compile as
    /// well. `compile` must not ask the cache for the same key: it would wait for ever.
    ///
    /// # Errors
    /// The error of `compile`. The cache adds no error of its own.
    pub fn get_or_compile<E>(
        &self,
        key: &KernelKey,
        compile: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<[u8]>, E> {
        let cached = lock(&self.kernels).entry(*key).or_default().clone();
        let mut cached = lock(&cached);
        if let Some(kernel) = &*cached {
            return Ok(kernel.clone());
        }
        let kernel: Arc<[u8]> = match self.read(key) {
            Some(kernel) => kernel.into(),
            None => self.compile(key, compile)?.into(),
        };
        *cached = Some(kernel.clone());
        Ok(kernel)
    }

    /// Forgets the kernel `key`, in memory and on disk, because the device refused to load `refused`. Does nothing if
    /// another thread has already replaced it. Then ask for the key again.
    pub fn forget(&self, key: &KernelKey, refused: &Arc<[u8]>) {
        let Some(cached) = lock(&self.kernels).get(key).cloned() else { return };
        let mut cached = lock(&cached);
        if cached.as_ref().is_some_and(|kernel| Arc::ptr_eq(kernel, refused)) {
            *cached = None;
            if let Some(Err(error)) = self.folder.as_ref().map(|folder| folder.remove(key)) {
                self.warn(&error);
            }
        }
    }

    /// Compiles a kernel that is not on disk, unless another process does so now.
    fn compile<E>(
        &self,
        key: &KernelKey,
        compile: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let claim = self.folder.as_ref().and_then(|folder| folder.claim(key));
        // Another process may have written it since it was missed.
        if claim.is_some()
            && let Some(kernel) = self.read(key)
        {
            return Ok(kernel);
        }
        let kernel = compile()?;
        self.write(key, &kernel);
        Ok(kernel)
    }

    fn read(&self, key: &KernelKey) -> Option<Vec<u8>> {
        self.folder.as_ref()?.read(key).unwrap_or_else(|error| {
            self.warn(&error);
            None
        })
    }

    fn write(&self, key: &KernelKey, kernel: &[u8]) {
        if let Some(Err(error)) = self.folder.as_ref().map(|folder| folder.write(key, kernel)) {
            self.warn(&error);
        }
    }

    fn warn(&self, error: &folder::FolderError) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            log::warning(format_args!(
                "kernels are not stored on disk, so each process compiles them again: {error}"
            ));
        }
    }
}

impl fmt::Debug for KernelCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelCache").field("folder", &self.folder).finish_non_exhaustive()
    }
}

fn folder_of_user() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("HALOPORT_CACHE_DIR") {
        return (!folder.is_empty()).then(|| folder.into());
    }
    // The XDG Base Directory Specification 0.8 says to ignore a relative path in these variables.
    let from_xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    from_xdg
        .filter(|folder| folder.is_absolute())
        .or_else(|| std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache")))
        .map(|caches| caches.join("haloport").join("kernels"))
}
