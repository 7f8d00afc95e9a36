//! Communicators.

use std::ffi::c_int;

use haloport_core::TransportError;
use mpi::ffi;
use mpi::ffi::MPI_Comm;

use super::{Permit, check};

/// A handle of an intracommunicator. It is plain data: the code that makes a communicator frees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comm(MPI_Comm);

// SAFETY: the handle is a number or the address of an object of MPI, which is only used in calls of MPI; those take a
// `Permit`, which says that MPI allows them on this thread.
unsafe impl Send for Comm {}
// SAFETY: as for `Send`.
unsafe impl Sync for Comm {}

impl Comm {
    /// # Safety
    /// `comm` is a handle of this MPI library: null, or of a communicator that is not freed as long as this one is
    /// used.
    pub(crate) unsafe fn new(comm: MPI_Comm) -> Comm {
        Comm(comm)
    }

    /// All ranks of the job.
    pub(crate) fn world() -> Comm {
        // SAFETY: a constant of the library, set when it is loaded.
        Comm(unsafe { ffi::RSMPI_COMM_WORLD })
    }

    pub(crate) fn handle(self) -> MPI_Comm {
        self.0
    }

    pub(crate) fn is_null(self) -> bool {
        // SAFETY: a constant of the library, set when it is loaded.
        self.0 == unsafe { ffi::RSMPI_COMM_NULL }
    }

    /// Whether its ranks belong to two groups.
    pub(crate) fn is_inter(self, permit: &Permit) -> Result<bool, TransportError> {
        self.ask(permit, "MPI_Comm_test_inter", ffi::MPI_Comm_test_inter).map(|inter| inter != 0)
    }

    pub(crate) fn rank(self, permit: &Permit) -> Result<usize, TransportError> {
        self.ask(permit, "MPI_Comm_rank", ffi::MPI_Comm_rank).map(|rank| usize::try_from(rank).unwrap_or(0))
    }

    pub(crate) fn size(self, permit: &Permit) -> Result<usize, TransportError> {
        self.ask(permit, "MPI_Comm_size", ffi::MPI_Comm_size).map(|size| usize::try_from(size).unwrap_or(1))
    }

    /// Collective: makes a communicator of the same ranks, which returns errors instead of ending the job.
    pub(crate) fn duplicate(self, permit: &Permit) -> Result<Comm, TransportError> {
        let mut copy = self.0;
        // SAFETY: MPI is running by the permit; the handle is valid.
        check(permit, "MPI_Comm_dup", unsafe { ffi::MPI_Comm_dup(self.0, &mut copy) })?;
        // SAFETY: as above.
        let code = unsafe { ffi::MPI_Comm_set_errhandler(copy, ffi::RSMPI_ERRORS_RETURN) };
        check(permit, "MPI_Comm_set_errhandler", code)?;
        Ok(Comm(copy))
    }

    /// Collective: makes a communicator of the ranks that share memory with this one.
    pub(crate) fn split_by_node(self, permit: &Permit) -> Result<Comm, TransportError> {
        let mut node = self.0;
        // SAFETY: MPI is running by the permit; the handle is valid.
        let code = unsafe {
            ffi::MPI_Comm_split_type(self.0, ffi::RSMPI_COMM_TYPE_SHARED, 0, ffi::RSMPI_INFO_NULL, &mut node)
        };
        check(permit, "MPI_Comm_split_type", code)?;
        Ok(Comm(node))
    }

    /// Collective: the bitwise or of the words of all ranks.
    pub(crate) fn or(self, permit: &Permit, words: &[u64; 16]) -> Result<[u64; 16], TransportError> {
        let mut all = [0u64; 16];
        // SAFETY: MPI is running by the permit; both arrays have the given length.
        let code = unsafe {
            let (from, to) = (words.as_ptr().cast(), all.as_mut_ptr().cast());
            ffi::MPI_Allreduce(from, to, words.len() as c_int, ffi::RSMPI_UINT64_T, ffi::RSMPI_BOR, self.0)
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
        // SAFETY: MPI is running by the permit; the array has a row for the numbers of each rank.
        let code = unsafe {
            let (from, to, count) = (mine.as_ptr().cast(), all.as_mut_ptr().cast(), N as c_int);
            ffi::MPI_Allgather(from, count, ffi::RSMPI_UINT64_T, to, count, ffi::RSMPI_UINT64_T, self.0)
        };
        check(permit, "MPI_Allgather", code)?;
        Ok(all)
    }

    /// Frees it. Collective by the standard, local in practice. After an error there is nothing to do.
    pub(crate) fn free(mut self, _permit: &Permit) {
        // SAFETY: MPI is running by the permit; the handle is valid and given up here.
        let _ = unsafe { ffi::MPI_Comm_free(&mut self.0) };
    }

    fn ask(
        self,
        permit: &Permit,
        call: &'static str,
        function: unsafe extern "C" fn(MPI_Comm, *mut c_int) -> c_int,
    ) -> Result<c_int, TransportError> {
        let mut answer = 0;
        // SAFETY: MPI is running by the permit; the handle is valid; the functions write one integer.
        check(permit, call, unsafe { function(self.0, &mut answer) })?;
        Ok(answer)
    }
}
