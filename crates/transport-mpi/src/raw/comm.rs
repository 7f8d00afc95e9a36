//! Communicators.

use std::ffi::c_int;

use haloport_core::TransportError;

use super::handle::Handle;
use super::mpi::Mpi;
use super::permit::{Permit, check};
use super::table::Functions;

/// A handle of an intracommunicator. It is plain data: the code that makes a communicator frees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comm(Handle);

impl Comm {
    /// # Safety
    /// `comm` is a handle of this MPI library: null, or of a communicator that is not freed as long as this one is
    /// used.
    pub(crate) unsafe fn new(comm: Handle) -> Comm {
        Comm(comm)
    }

    /// All ranks of the job.
    pub(crate) fn world(mpi: &Mpi) -> Comm {
        Comm(mpi.constants.comm_world)
    }

    pub(crate) fn handle(self) -> Handle {
        self.0
    }

    pub(crate) fn is_null(self, mpi: &Mpi) -> bool {
        self.0 == mpi.constants.comm_null
    }

    /// Whether its ranks belong to two groups.
    pub(crate) fn is_inter(self, permit: &Permit) -> Result<bool, TransportError> {
        self.ask(permit, "MPI_Comm_test_inter", Functions::MPI_Comm_test_inter).map(|inter| inter != 0)
    }

    pub(crate) fn rank(self, permit: &Permit) -> Result<usize, TransportError> {
        self.ask(permit, "MPI_Comm_rank", Functions::MPI_Comm_rank)
            .map(|rank| usize::try_from(rank).unwrap_or(0))
    }

    pub(crate) fn size(self, permit: &Permit) -> Result<usize, TransportError> {
        self.ask(permit, "MPI_Comm_size", Functions::MPI_Comm_size)
            .map(|size| usize::try_from(size).unwrap_or(1))
    }

    /// Collective: makes a communicator of the same ranks, which returns errors instead of ending the job.
    pub(crate) fn duplicate(self, permit: &Permit) -> Result<Comm, TransportError> {
        let (mut copy, functions) = (self.0, permit.functions());
        // SAFETY: MPI is running by the permit; the handle is valid.
        check(permit, "MPI_Comm_dup", unsafe { functions.MPI_Comm_dup(self.0, &mut copy) })?;
        // SAFETY: as above.
        let code = unsafe { functions.MPI_Comm_set_errhandler(copy, permit.constants().errors_return) };
        check(permit, "MPI_Comm_set_errhandler", code)?;
        Ok(Comm(copy))
    }

    /// Collective: makes a communicator of the ranks that share memory with this one.
    pub(crate) fn split_by_node(self, permit: &Permit) -> Result<Comm, TransportError> {
        let mut node = self.0;
        let (functions, constants) = (permit.functions(), permit.constants());
        // SAFETY: MPI is running by the permit; the handle is valid.
        let code = unsafe {
            functions.MPI_Comm_split_type(
                self.0,
                constants.comm_type_shared,
                0,
                constants.info_null,
                &mut node,
            )
        };
        check(permit, "MPI_Comm_split_type", code)?;
        Ok(Comm(node))
    }

    /// Collective: makes a communicator of the ranks with the same colour, in the order of their keys.
    pub(crate) fn split(self, permit: &Permit, colour: c_int, key: c_int) -> Result<Comm, TransportError> {
        let mut part = self.0;
        // SAFETY: MPI is running by the permit; the handle is valid.
        let code = unsafe { permit.functions().MPI_Comm_split(self.0, colour, key, &mut part) };
        check(permit, "MPI_Comm_split", code)?;
        Ok(Comm(part))
    }

    /// Collective: the bitwise or of the words of all ranks.
    pub(crate) fn or(self, permit: &Permit, words: &[u64; 16]) -> Result<[u64; 16], TransportError> {
        let mut all = [0u64; 16];
        let (functions, constants) = (permit.functions(), permit.constants());
        // SAFETY: MPI is running by the permit; both arrays have the given length.
        let code = unsafe {
            let (from, to) = (words.as_ptr().cast(), all.as_mut_ptr().cast());
            functions.MPI_Allreduce(from, to, words.len() as c_int, constants.uint64, constants.bor, self.0)
        };
        check(permit, "MPI_Allreduce", code)?;
        Ok(all)
    }

    /// Collective: the numbers of all ranks.
    pub(crate) fn gather<const N: usize>(
        self,
        permit: &Permit,
        mine: &[u64; N],
    ) -> Result<Vec<[u64; N]>, TransportError> {
        let mut all = vec![[0u64; N]; self.size(permit)?];
        let (functions, constants) = (permit.functions(), permit.constants());
        // SAFETY: MPI is running by the permit; the array has a row for the numbers of each rank.
        let code = unsafe {
            let (from, to, count) = (mine.as_ptr().cast(), all.as_mut_ptr().cast(), N as c_int);
            functions.MPI_Allgather(from, count, constants.uint64, to, count, constants.uint64, self.0)
        };
        check(permit, "MPI_Allgather", code)?;
        Ok(all)
    }

    /// Frees it. Collective by the standard, local in practice. After an error there is nothing to do.
    pub(crate) fn free(mut self, permit: &Permit) {
        // SAFETY: MPI is running by the permit; the handle is valid and given up here.
        let _ = unsafe { permit.functions().MPI_Comm_free(&mut self.0) };
    }

    fn ask(
        self,
        permit: &Permit,
        call: &'static str,
        function: unsafe fn(&Functions, Handle, *mut c_int) -> c_int,
    ) -> Result<c_int, TransportError> {
        let mut answer = 0;
        // SAFETY: MPI is running by the permit; the handle is valid; the functions write one integer.
        check(permit, call, unsafe { function(permit.functions(), self.0, &mut answer) })?;
        Ok(answer)
    }
}
