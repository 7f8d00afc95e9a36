//! Lengths in bytes as counts of MPI, which are of the type `int`.

use std::ffi::c_int;

use haloport_core::TransportError;
use mpi::ffi;
use mpi::ffi::{MPI_Aint, MPI_Datatype};

use super::{Permit, check};
use crate::error::failed;

/// The unit of longer lengths, in bytes.
const CHUNK: usize = 1 << 20;

/// A length in bytes as a count of a datatype. It must outlive the call that makes a request, not the request.
pub(super) struct Span<'p> {
    pub(super) count: c_int,
    pub(super) datatype: MPI_Datatype,
    made: bool,
    permit: &'p Permit,
}

impl<'p> Span<'p> {
    pub(super) fn new(permit: &'p Permit, bytes: usize) -> Result<Span<'p>, TransportError> {
        match c_int::try_from(bytes) {
            Ok(count) => Ok(Span { count, datatype: byte(), made: false, permit }),
            Err(_) => Span::chunked(permit, bytes),
        }
    }

    /// One element of a datatype made for this length: chunks, then the rest in single bytes.
    fn chunked(permit: &'p Permit, bytes: usize) -> Result<Span<'p>, TransportError> {
        let (chunks, rest) = (bytes / CHUNK, bytes % CHUNK);
        let too_long = || format!("a message of {bytes} bytes is longer than MPI can count");
        let chunks = c_int::try_from(chunks).map_err(|_| failed("MPI_Type_create_struct", too_long()))?;
        let (mut chunk, mut whole) = (byte(), byte());
        // SAFETY: MPI is running by the permit; the arrays have two entries each; each type is freed once.
        unsafe {
            check(
                permit,
                "MPI_Type_contiguous",
                ffi::MPI_Type_contiguous(CHUNK as c_int, byte(), &mut chunk),
            )?;
            let lengths = [chunks, rest as c_int];
            let offsets: [MPI_Aint; 2] = [0, (bytes - rest) as MPI_Aint];
            let types = [chunk, byte()];
            let code = ffi::MPI_Type_create_struct(
                2,
                lengths.as_ptr(),
                offsets.as_ptr(),
                types.as_ptr(),
                &mut whole,
            );
            ffi::MPI_Type_free(&mut chunk);
            check(permit, "MPI_Type_create_struct", code)?;
            let made = Span { count: 1, datatype: whole, made: true, permit };
            check(permit, "MPI_Type_commit", ffi::MPI_Type_commit(&mut whole))?;
            Ok(made)
        }
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        let _running = self.permit;
        if self.made {
            // SAFETY: MPI is running by the permit; `chunked` made the type, and it is freed once. MPI keeps it as long
            // as requests need it.
            let _ = unsafe { ffi::MPI_Type_free(&mut self.datatype) };
        }
    }
}

/// The datatype of one byte.
pub(super) fn byte() -> MPI_Datatype {
    // SAFETY: a constant of the library, set when it is loaded.
    unsafe { ffi::RSMPI_UINT8_T }
}
