//! Pages of the host. Device memory is mapped twice: at the address that programs get, where any access of the host
//! faults, and at a place that only the driver knows.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;

/// Pages that are mapped until this is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The address that programs get.
    pub(crate) address: usize,
    /// Where the driver reads and writes.
    place: usize,
    bytes: usize,
    /// The memory as a file, if another process can map it.
    pub(crate) file: Option<File>,
}

impl Mapping {
    /// Memory that the host cannot reach at its address. `name` is that of its file.
    pub(crate) fn of_device(bytes: usize, name: &str) -> io::Result<Mapping> {
        let name = CString::new(name)?;
        // SAFETY: the name ends with a zero; a new file descriptor belongs to the file.
        let file = unsafe {
            match libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error()),
                descriptor => File::from_raw_fd(descriptor),
            }
        };
        file.set_len(whole_pages(bytes) as u64)?;
        Mapping::of_file(file, bytes)
    }

    /// The memory that a file holds, also unreachable at its address.
    pub(crate) fn of_file(file: File, bytes: usize) -> io::Result<Mapping> {
        let bytes = whole_pages(bytes);
        let address = map(bytes, libc::PROT_NONE, Some(&file))?;
        let place = map(bytes, libc::PROT_READ | libc::PROT_WRITE, Some(&file))
            .inspect_err(|_| unmap(address, bytes))?;
        Ok(Mapping { address, place, bytes, file: Some(file) })
    }

    /// Memory that host and device reach at one address.
    pub(crate) fn of_host(bytes: usize) -> io::Result<Mapping> {
        let bytes = whole_pages(bytes);
        let address = map(bytes, libc::PROT_READ | libc::PROT_WRITE, None)?;
        Ok(Mapping { address, place: address, bytes, file: None })
    }

    /// The place at which the driver finds byte `offset`.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.place + offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.address, self.bytes);
        if self.place != self.address {
            unmap(self.place, self.bytes);
        }
    }
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(4096)
}

fn map(bytes: usize, access: i32, file: Option<&File>) -> io::Result<usize> {
    let (flags, descriptor) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: the system chooses the address, so no other memory is touched.
    let address = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, descriptor, 0) };
    if address == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(address.expose_provenance())
    }
}

fn unmap(address: usize, bytes: usize) {
    // SAFETY: only the owner of the pages calls this, once, with the length that was mapped.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(address), bytes) };
}
