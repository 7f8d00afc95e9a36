//! Addresses that a process has taken, and what lies at them: memory of its own, pages of files, or nothing.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// The size of a large page where it matters: on all but few machines.
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20;

/// Addresses in a row, given back on drop. They begin on a page, and there are whole pages of them.
#[derive(Debug)]
pub(crate) struct Mapping {
    begin: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping owns its addresses and gives nothing but the first of them.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// At least `bytes` bytes of memory of this process alone, all 0; with large pages where there are any.
    pub(crate) fn private(bytes: usize) -> io::Result<Mapping> {
        let mapping = Mapping::anonymous(bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        // Where there are no large pages, small ones serve.
        #[cfg(target_os = "linux")]
        if bytes >= LARGE_PAGE {
            // SAFETY: the range is a mapping of our own, and the advice changes nothing in it.
            let _ =
                unsafe { libc::madvise(mapping.begin.as_ptr().cast(), mapping.bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(mapping)
    }

    /// At least `bytes` addresses at which there is nothing: whoever touches one is ended.
    pub(crate) fn reserved(bytes: usize) -> io::Result<Mapping> {
        Mapping::anonymous(bytes, libc::PROT_NONE, libc::MAP_NORESERVE)
    }

    fn anonymous(bytes: usize, protection: i32, further: i32) -> io::Result<Mapping> {
        let bytes = whole_pages(bytes.max(1)).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | further;
        // SAFETY: new addresses are asked for, which nobody uses.
        let begin = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if begin == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let begin = NonNull::new(begin.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { begin, bytes })
    }

    /// Replaces what lies at `range`, whole pages, by the bytes of `file` from `offset` on, which others can map too.
    pub(crate) fn with_file(self, range: &Range<usize>, file: &File, offset: usize) -> io::Result<Mapping> {
        let pages = [range.start, range.end, offset].iter().all(|bound| bound.is_multiple_of(page_bytes()));
        let offset = libc::off_t::try_from(offset).ok().filter(|_| pages && !range.is_empty());
        let (Some(offset), true) = (offset, range.end <= self.bytes) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // SAFETY: the range is within the mapping.
        let begin = unsafe { self.begin.add(range.start) };
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        // SAFETY: the range is ours, and nobody uses it yet: a mapping is owned here, so it has not been handed out.
        let mapped = unsafe {
            libc::mmap(begin.as_ptr().cast(), range.len(), protection, flags, file.as_raw_fd(), offset)
        };
        if mapped == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            // The system may have taken the range from us, and given it to somebody else: it is not ours to give back.
            std::mem::forget(self);
            return Err(error);
        }
        Ok(self)
    }

    /// The first address.
    pub(crate) fn begin(&self) -> *mut u8 {
        self.begin.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, whatever lies there, and whoever uses it keeps this alive.
        unsafe { libc::munmap(self.begin.as_ptr().cast(), self.bytes) };
    }
}

/// The size of a page.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: the call has no conditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// The bytes of the pages that hold so many; `None` where that is more than there can be.
pub(crate) fn whole_pages(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(page_bytes()).filter(|bytes| isize::try_from(*bytes).is_ok())
}
