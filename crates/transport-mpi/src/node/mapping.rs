//! Ranges of addresses, mapped to memory of this process, to pages of files, or to nothing.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// The size of a large page in bytes, on almost all machines.
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20;

/// A range of addresses, unmapped on drop. It begins on a page, and consists of whole pages.
#[derive(Debug)]
pub(crate) struct Mapping {
    begin: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping owns its addresses and shows nothing but the first of them.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `bytes` bytes of memory of this process alone, all 0; on large pages if the system has any.
    pub(crate) fn private(bytes: usize) -> io::Result<Mapping> {
        let mapping = Mapping::anonymous(bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        // If the system has no large pages, small ones stay.
        #[cfg(target_os = "linux")]
        if bytes >= LARGE_PAGE {
            // SAFETY: the range is this mapping, and the advice does not change its content.
            let _ =
                unsafe { libc::madvise(mapping.begin.as_ptr().cast(), mapping.bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(mapping)
    }

    /// Reserves at least `bytes` addresses with nothing at them: access to one ends the process.
    pub(crate) fn reserved(bytes: usize) -> io::Result<Mapping> {
        Mapping::anonymous(bytes, libc::PROT_NONE, libc::MAP_NORESERVE)
    }

    fn anonymous(bytes: usize, protection: i32, further: i32) -> io::Result<Mapping> {
        let bytes = whole_pages(bytes.max(1)).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | further;
        // SAFETY: the system chooses addresses that are not in use.
        let begin = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if begin == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let begin = NonNull::new(begin.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { begin, bytes })
    }

    /// Maps the bytes of `file` from `offset` on at `range`, which consists of whole pages; other processes can map
    /// them too.
    pub(crate) fn with_file(self, range: &Range<usize>, file: &File, offset: usize) -> io::Result<Mapping> {
        let pages = [range.start, range.end].iter().all(|bound| bound.is_multiple_of(page_bytes()));
        if !pages || range.is_empty() || range.end > self.bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the range is within the mapping, which is owned here and has no other user yet.
        match unsafe { map_at(self.begin.add(range.start).as_ptr(), range.len(), file, offset) } {
            Ok(()) => Ok(self),
            Err(error) => {
                // The system may have unmapped the range, and mapped it for another purpose, so it must not be unmapped
                // again.
                std::mem::forget(self);
                Err(error)
            }
        }
    }

    /// Puts the memory at `begin`, in the place of what is mapped there.
    ///
    /// # Safety
    /// `begin` is the first address of as many pages that the caller may replace: everything that uses them finds the content
    /// that it expects.
    #[cfg(target_os = "linux")]
    pub(crate) unsafe fn move_to(self, begin: *mut u8) -> io::Result<()> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // By number: the function `mremap` of UCX, which MPIs put in the place of that of the C library, drops the last argument.
        // SAFETY: the memory is this mapping's; the caller's promise.
        let moved = unsafe {
            libc::syscall(libc::SYS_mremap, self.begin.as_ptr(), self.bytes, self.bytes, flags, begin)
        };
        if moved == -1 {
            return Err(io::Error::last_os_error());
        }
        std::mem::forget(self);
        Ok(())
    }

    /// Other systems move no memory.
    #[cfg(not(target_os = "linux"))]
    pub(crate) unsafe fn move_to(self, _begin: *mut u8) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The first address.
    pub(crate) fn begin(&self) -> *mut u8 {
        self.begin.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range belongs to this mapping, and every user of it keeps the mapping alive.
        unsafe { libc::munmap(self.begin.as_ptr().cast(), self.bytes) };
    }
}

/// Maps `bytes` bytes of `file` from `offset` on at `begin`, in the place of what is mapped there, which may be gone after an
/// error, too. Other processes can map them as well.
///
/// # Safety
/// The range is whole pages that the caller may replace.
pub(crate) unsafe fn map_at(begin: *mut u8, bytes: usize, file: &File, offset: usize) -> io::Result<()> {
    let offset = libc::off_t::try_from(offset).ok().filter(|_| offset.is_multiple_of(page_bytes()));
    let offset = offset.ok_or(io::ErrorKind::InvalidInput)?;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    // SAFETY: the caller's promise.
    let mapped = unsafe { libc::mmap(begin.cast(), bytes, protection, flags, file.as_raw_fd(), offset) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Puts memory of this process alone in the place of pages, with the same content. After an error, they are as before or, if the
/// system has failed late, [unmapped](is_mapped).
///
/// # Safety
/// The pages are mapped, and nothing else writes them meanwhile.
pub(crate) unsafe fn make_private(pages: &Range<usize>) -> io::Result<()> {
    let (begin, copy) = (ptr::with_exposed_provenance_mut::<u8>(pages.start), Mapping::private(pages.len())?);
    // SAFETY: the caller's promise; the copy is new memory of the same size.
    unsafe {
        ptr::copy_nonoverlapping(begin, copy.begin(), pages.len());
        copy.move_to(begin)
    }
}

/// Whether all of these pages are mapped.
#[cfg(target_os = "linux")]
pub(crate) fn is_mapped(pages: &Range<usize>) -> bool {
    let mut in_memory = vec![0u8; pages.len() / page_bytes()];
    let begin = ptr::with_exposed_provenance_mut(pages.start);
    // SAFETY: there is a byte for each page; the call touches no other memory.
    unsafe { libc::mincore(begin, pages.len(), in_memory.as_mut_ptr()) == 0 }
}

/// Other systems move no memory.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_mapped(_pages: &Range<usize>) -> bool {
    true
}

/// The size of a page in bytes.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: the call has no conditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// The size in bytes of the pages that hold `bytes` bytes; `None` if it is larger than any object can be.
pub(crate) fn whole_pages(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(page_bytes()).filter(|bytes| isize::try_from(*bytes).is_ok())
}
