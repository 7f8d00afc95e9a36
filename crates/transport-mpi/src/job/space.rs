//! Space for the memory that the processes of a node share.
//!
//! Haloport reserves its memory before it touches it (see `segment`), and Open MPI and UCX check first, too. MPICH does
//! not: if `/dev/shm` is full, a signal ends the process when it touches the memory that MPICH maps there at its start.

use haloport_core::TransportError;

use crate::error::failed;

const FOLDER: &str = "/dev/shm";

/// More than MPICH 4 maps there for itself before it checks the free space.
const LEAST_BYTES: u64 = 64 << 10;

/// Refuses to start MPICH, or a library derived from it, if there is no space.
///
/// # Errors
/// [`TransportError::Layer`].
pub(crate) fn check() -> Result<(), TransportError> {
    match free_bytes() {
        Some(free) if free < LEAST_BYTES => Err(failed(
            "MPI_Init_thread",
            format!(
                "{FOLDER} is full: MPI needs at least {LEAST_BYTES} bytes there for the ranks of one node, found {free}. \
                 Remove files that killed programs have left there, or make it larger (`mount -o remount,size=1g {FOLDER}`; \
                 in containers `--shm-size=1g`)"
            ),
        )),
        _ => Ok(()),
    }
}

/// The free bytes there; `None` if there is no such folder, or no limit.
#[cfg(target_os = "linux")]
fn free_bytes() -> Option<u64> {
    let path = std::ffi::CString::new(FOLDER).ok()?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is a C string, and the answer, plain data, is written to a variable of its type.
    let found = unsafe {
        if libc::statvfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return None;
        }
        found.assume_init()
    };
    // A file system without a limit reports no size.
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

/// Other systems have no such folder.
#[cfg(not(target_os = "linux"))]
fn free_bytes() -> Option<u64> {
    None
}
