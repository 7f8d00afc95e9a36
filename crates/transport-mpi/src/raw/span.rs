//! Lengths in bytes as counts of MPI, which are of the type `int`.

use std::ffi::c_int;

use haloport_core::TransportError;

use super::handle::Handle;
use super::permit::{Permit, check};
use crate::error::failed;

/// The size of the blocks of longer lengths, in bytes.
const BLOCK: usize = 1 << 30;

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
            Err(_) => Span::in_blocks(permit, bytes),
        }
    }

    /// One element of a datatype made for this length: blocks, one after the other.
    fn in_blocks(permit: &'p Permit, bytes: usize) -> Result<Span<'p>, TransportError> {
        const CALL: &str = "MPI_Type_create_hindexed";
        let too_long = || failed(CALL, format!("a message of {bytes} bytes is longer than MPI can count"));
        let begins = (0..bytes).step_by(BLOCK);
        let blocks = c_int::try_from(begins.len()).map_err(|_| too_long())?;
        let lengths: Vec<c_int> = begins.clone().map(|begin| (bytes - begin).min(BLOCK) as c_int).collect();
        let offsets: Vec<isize> = begins.map(|begin| begin as isize).collect();
        let (functions, byte) = (permit.functions(), permit.constants().byte);
        let mut whole = byte;
        // SAFETY: MPI is running by the permit; both arrays have an entry for each block.
        let code = unsafe {
            functions.MPI_Type_create_hindexed(blocks, lengths.as_ptr(), offsets.as_ptr(), byte, &mut whole)
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
            // SAFETY: MPI is running by the permit; `in_blocks` made the type, and it is freed once. MPI keeps it as
            // long as requests need it.
            let _ = unsafe { self.permit.functions().MPI_Type_free(&mut self.datatype) };
        }
    }
}
