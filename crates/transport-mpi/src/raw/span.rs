//! Lengths in bytes as counts of MPI, which are of the type `int`.

use std::ffi::c_int;

use haloport_core::TransportError;

use super::handle::Handle;
use super::permit::{Permit, check};
use crate::error::failed;

/// The unit of longer lengths, in bytes.
const CHUNK: usize = 1 << 20;

/// A length in bytes as a count of a datatype. It must outlive the call that makes a request, not the request.
pub(super) struct Span<'p> {
    pub(super) count: c_int,
    pub(super) datatype: Handle,
    made: bool,
    permit: &'p Permit,
}

impl<'p> Span<'p> {
    pub(super) fn new(permit: &'p Permit, bytes: usize) -> Result<Span<'p>, TransportError> {
        match c_int::try_from(bytes) {
            Ok(count) => Ok(Span { count, datatype: permit.constants().byte, made: false, permit }),
            Err(_) => Span::chunked(permit, bytes),
        }
    }

    /// One element of a datatype made for this length: chunks, then the rest in single bytes. With a datatype of single
    /// bytes alone, Open MPI 4.1 takes several times as long.
    fn chunked(permit: &'p Permit, bytes: usize) -> Result<Span<'p>, TransportError> {
        const CALL: &str = "MPI_Type_create_struct";
        let too_long = |_| failed(CALL, format!("a message of {bytes} bytes is longer than MPI can count"));
        let chunks = c_int::try_from(bytes / CHUNK).map_err(too_long)?;
        let rest = bytes % CHUNK;
        let (functions, byte) = (permit.functions(), permit.constants().byte);
        let (mut chunk, mut whole) = (byte, byte);
        // SAFETY: MPI is running by the permit; it writes one handle.
        let code = unsafe { functions.MPI_Type_contiguous(CHUNK as c_int, byte, &mut chunk) };
        check(permit, "MPI_Type_contiguous", code)?;
        let mut types = functions.handle_array();
        [chunk, byte].into_iter().for_each(|part| types.push(part));
        let (lengths, offsets) = ([chunks, rest as c_int], [0, (bytes - rest) as isize]);
        // SAFETY: MPI is running by the permit; the arrays have two entries each; the chunk is freed once.
        let code = unsafe {
            let (lengths, offsets) = (lengths.as_ptr(), offsets.as_ptr());
            let code = functions.MPI_Type_create_struct(2, lengths, offsets, types.from(0), &mut whole);
            let _ = functions.MPI_Type_free(&mut chunk);
            code
        };
        check(permit, CALL, code)?;
        let made = Span { count: 1, datatype: whole, made: true, permit };
        // SAFETY: MPI is running by the permit; the type was just made.
        check(permit, "MPI_Type_commit", unsafe { functions.MPI_Type_commit(&mut whole) })?;
        Ok(made)
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        if self.made {
            // SAFETY: MPI is running by the permit; `chunked` made the type, and it is freed once. MPI keeps it as
            // long as requests need it.
            let _ = unsafe { self.permit.functions().MPI_Type_free(&mut self.datatype) };
        }
    }
}
