//! Room for the memory that the processes of a node share.
//!
//! That of Haloport is reserved before it is touched (see `segment`), and Open MPI and UCX look first, too. MPICH does not:
//! where `/dev/shm` is full, touching what it maps there at its start ends the process by a signal.

use haloport_core::TransportError;

use crate::endpoint::layer;

const FOLDER: &str = "/dev/shm";

/// More than MPICH 4 maps there for itself before it asks what there is room for.
const LEAST_BYTES: u64 = 64 << 10;

/// Refuses to start MPICH, or a library made from it, where there is no room.
///
/// # Errors
/// [`TransportError::Layer`].
pub(crate) fn check() -> Result<(), TransportError> {
    match free_bytes() {
        Some(free) if free < LEAST_BYTES => Err(layer(
            "MPI_Init_thread",
            &format!(
                "{FOLDER} is full: MPI wants at least {LEAST_BYTES} bytes there for the ranks of one node, found {free}. \
                 Remove files that killed programs have left there, or make it larger (`mount -o remount,size=1g {FOLDER}`; \
                 in containers `--shm-size=1g`)"
            ),
        )),
        _ => Ok(()),
    }
}

/// What is free there; `None` if there is no such folder, or no limit.
#[cfg(target_os = "linux")]
fn free_bytes() -> Option<u64> {
    let path = std::ffi::CString::new(FOLDER).ok()?;
    let mut room = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is a C string, and the answer is written to a place of its type, which is plain data.
    let room = unsafe {
        if libc::statvfs(path.as_ptr(), room.as_mut_ptr()) != 0 {
            return None;
        }
        room.assume_init()
    };
    // A file system without a limit tells no size.
    (room.f_blocks > 0).then(|| room.f_bavail.saturating_mul(room.f_frsize))
}

/// Elsewhere there is no such folder.
#[cfg(not(target_os = "linux"))]
fn free_bytes() -> Option<u64> {
    None
}
