//! Persistent messages straight on MPI, for hand-written contestants.

use std::ffi::c_int;

use haloport::Element;
use haloport::mpi::mpi::ffi;

use crate::command::failure::Failure;

/// Persistent messages with a buffer each. Receives are added first, so that they can be started first.
pub(super) struct Persistent<T> {
    requests: Vec<ffi::MPI_Request>,
    receives: usize,
    comm: ffi::MPI_Comm,
    /// Accessed through the addresses that `add` returned and those in the requests alone.
    _buffers: Vec<Vec<T>>,
}

impl<T: Element> Persistent<T> {
    /// Collective: makes an empty list of messages among the ranks of the world.
    ///
    /// # Errors
    /// [`Failure::Run`] if MPI fails.
    pub(super) fn new() -> Result<Persistent<T>, Failure> {
        let mut comm = null();
        // SAFETY: MPI runs, since this rank is one of its processes. The duplicate is freed on drop.
        check_code("MPI_Comm_dup", unsafe { ffi::MPI_Comm_dup(ffi::RSMPI_COMM_WORLD, &mut comm) })?;
        Ok(Persistent { requests: Vec::new(), receives: 0, comm, _buffers: Vec::new() })
    }

    /// Adds a message of `length` values to or from `peer`, and returns the address of its buffer, which lives as long
    /// as `self`.
    ///
    /// # Errors
    /// [`Failure::Run`] if MPI fails, and [`Failure::BadInput`] if the message is too long for one call.
    pub(super) fn add(
        &mut self,
        peer: usize,
        tag: usize,
        length: usize,
        send: bool,
    ) -> Result<*mut T, Failure> {
        let mut buffer = vec![T::default(); length];
        let begin = buffer.as_mut_ptr();
        let bytes = length * size_of::<T>();
        let bytes = c_int::try_from(bytes).map_err(|_| {
            Failure::BadInput(format!("a message of {bytes} bytes is too long for this benchmark"))
        })?;
        let (pointer, peer, tag) = (begin.cast(), peer as c_int, tag as c_int);
        // SAFETY: the buffer has `bytes` bytes and lives as long as the request, which is freed on drop.
        let (code, request) = unsafe {
            let mut request = ffi::RSMPI_REQUEST_NULL;
            let code = if send {
                ffi::MPI_Send_init(pointer, bytes, ffi::RSMPI_UINT8_T, peer, tag, self.comm, &mut request)
            } else {
                ffi::MPI_Recv_init(pointer, bytes, ffi::RSMPI_UINT8_T, peer, tag, self.comm, &mut request)
            };
            (code, request)
        };
        check_code("MPI_Send_init or MPI_Recv_init", code)?;
        self.receives += usize::from(!send);
        self.requests.push(request);
        self._buffers.push(buffer);
        Ok(begin)
    }

    /// Makes one exchange: starts the receives, packs, starts the sends, copies the rank's own cells, waits, and
    /// unpacks.
    ///
    /// # Safety
    /// `pack` and `own` access no buffer of a receive, and only the three closures access any buffer.
    ///
    /// # Errors
    /// [`Failure::Run`] if MPI fails.
    pub(super) unsafe fn run(
        &mut self,
        pack: impl FnOnce(),
        own: impl FnOnce(),
        unpack: impl FnOnce(),
    ) -> Result<(), Failure> {
        let (first, count) = (self.requests.as_mut_ptr(), self.requests.len() as c_int);
        // SAFETY: the buffers are alive and ours; while they are accessed, no message is under way, by the caller's
        // promise.
        unsafe {
            check_code("MPI_Startall", ffi::MPI_Startall(self.receives as c_int, first))?;
            pack();
            let sends = first.add(self.receives);
            check_code("MPI_Startall", ffi::MPI_Startall(count - self.receives as c_int, sends))?;
            own();
            check_code("MPI_Waitall", ffi::MPI_Waitall(count, first, ffi::RSMPI_STATUSES_IGNORE))?;
        }
        unpack();
        Ok(())
    }
}

impl<T> Drop for Persistent<T> {
    fn drop(&mut self) {
        // SAFETY: no message is under way, and MPI outlives the benchmark. Errors are ignored: nothing can be done.
        unsafe {
            for request in &mut self.requests {
                let _ = ffi::MPI_Request_free(request);
            }
            let _ = ffi::MPI_Comm_free(&mut self.comm);
        }
    }
}

fn null() -> ffi::MPI_Comm {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_COMM_NULL }
}

/// Turns the code of a call of MPI into a result.
///
/// # Errors
/// [`Failure::Run`] with the code.
pub(super) fn check_code(call: &str, code: c_int) -> Result<(), Failure> {
    if code == ffi::MPI_SUCCESS as c_int {
        Ok(())
    } else {
        Err(Failure::Run(format!("{call} failed with code {code}")))
    }
}
