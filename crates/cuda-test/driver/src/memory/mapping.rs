//! Pages of the host. Device memory is mapped twice: at the address that programs get, where any access of the host
//! faults, and at a place that only the driver knows.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// New memory of at most this size is filled with bytes that are not zero.
pub(crate) const FILLED_BYTES: usize = 64 << 20;

/// Pages that are mapped until this is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The address that programs get.
    pub(crate) address: usize,
    /// Where the driver reads and writes.
    place: usize,
    bytes: usize,
    owner: Owner,
    /// The memory as a file, if another process can map it.
    pub(crate) file: Option<File>,
}

/// The owner of an address, which unmaps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The mapping.
    Driver,
    /// The reservation that the address is from.
    Reservation,
    /// The program.
    Program,
}

impl Mapping {
    /// Memory that the host cannot reach at its address.
    pub(crate) fn of_device(bytes: usize) -> io::Result<Mapping> {
        Mapping::of_file(new_file(bytes, 0)?, bytes)
    }

    /// The memory that a file holds, even if it is unreachable at its address.
    pub(crate) fn of_file(file: File, bytes: usize) -> io::Result<Mapping> {
        let bytes = whole_pages(bytes);
        let address = map(bytes, libc::PROT_NONE, Some(&file))?;
        let place = map(bytes, libc::PROT_READ | libc::PROT_WRITE, Some(&file))
            .inspect_err(|_| unmap(address, bytes))?;
        Ok(Mapping { address, place, bytes, owner: Owner::Driver, file: Some(file) })
    }

    /// The memory that a file holds, at an address that is reserved for it and that the host cannot reach.
    pub(crate) fn at_reserved(address: usize, file: &File, bytes: usize) -> io::Result<Mapping> {
        let place = map(bytes, libc::PROT_READ | libc::PROT_WRITE, Some(file))?;
        Ok(Mapping { address, place, bytes, owner: Owner::Reservation, file: None })
    }

    /// Memory that host and device reach at one address.
    pub(crate) fn of_host(bytes: usize) -> io::Result<Mapping> {
        let bytes = whole_pages(bytes);
        let address = map(bytes, libc::PROT_READ | libc::PROT_WRITE, None)?;
        Ok(Mapping { address, place: address, bytes, owner: Owner::Driver, file: None })
    }

    /// Memory that the program has mapped and unmaps itself.
    pub(crate) fn of_program(address: usize, bytes: usize) -> Mapping {
        Mapping { address, place: address, bytes, owner: Owner::Program, file: None }
    }

    /// The place at which the driver finds byte `offset`.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.place + offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.owner == Owner::Driver {
            unmap(self.address, self.bytes);
        }
        if self.place != self.address {
            unmap(self.place, self.bytes);
        }
    }
}

/// A file in memory of at least this size. Its name has a number of its own, and that of its device.
pub(crate) fn new_file(bytes: usize, device: i32) -> io::Result<File> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let name = CString::new(format!("haloport-{}-{device}", SERIAL.fetch_add(1, Ordering::Relaxed)))?;
    // SAFETY: the name ends with a zero; a new file descriptor belongs to the file.
    let file = unsafe {
        match libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(io::Error::last_os_error()),
            descriptor => File::from_raw_fd(descriptor),
        }
    };
    file.set_len(whole_pages(bytes) as u64)?;
    Ok(file)
}

/// Addresses that no memory has, until this is dropped. Any access faults.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

impl Reserved {
    /// Reserves addresses from a multiple of `alignment` on, a power of two.
    pub(crate) fn new(bytes: usize, alignment: usize) -> io::Result<Reserved> {
        let address = map(bytes + alignment, libc::PROT_NONE, None)?;
        let first = address.next_multiple_of(alignment);
        unmap(address, first - address);
        unmap(first + bytes, address + alignment - first);
        Ok(Reserved { address: first, bytes })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        unmap(self.address, self.bytes);
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
    if bytes == 0 {
        return;
    }
    // SAFETY: only the owner of the pages calls this, once, with the length that was mapped.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(address), bytes) };
}
