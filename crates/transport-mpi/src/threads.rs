//! The threads that may call MPI, which depend on the level that it was initialised with.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use haloport_core::TransportError;

use crate::raw::{self, Mpi, ThreadLevel};

/// With `MPI_THREAD_SERIALIZED`, locked during every call of MPI by any transport of this process.
static SERIAL: Mutex<()> = Mutex::new(());

thread_local! {
    static THIS: ThreadId = thread::current().id();
}

/// The rule that says which threads may call MPI.
#[derive(Debug)]
pub(crate) struct Threads {
    level: ThreadLevel,
    /// The thread that made the transport.
    home: ThreadId,
}

impl Threads {
    /// Asks MPI, which is running. Below `MPI_THREAD_SERIALIZED`, this thread must be the one that initialised it.
    pub(crate) fn ask(mpi: &Mpi) -> Result<Threads, TransportError> {
        let threads = Threads { level: raw::thread_level(mpi), home: this_thread() };
        if threads.is_bound() && !raw::is_main_thread(mpi) {
            return Err(threads.wrong());
        }
        Ok(threads)
    }

    /// Whether any thread may call.
    pub(crate) fn any(&self) -> bool {
        !self.is_bound()
    }

    /// Returns an error on a thread that may not call.
    pub(crate) fn check(&self) -> Result<(), TransportError> {
        if self.is_bound() && this_thread() != self.home { Err(self.wrong()) } else { Ok(()) }
    }

    /// Keeps other threads from calling MPI, if the level requires it.
    pub(crate) fn serialize(&self) -> Option<MutexGuard<'static, ()>> {
        (self.level == ThreadLevel::Serialized).then(|| SERIAL.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_bound(&self) -> bool {
        self.level < ThreadLevel::Serialized
    }

    fn wrong(&self) -> TransportError {
        let level = format!("{:?}", self.level);
        TransportError::WrongThread {
            what: format!("the MPI transport (thread level MPI_THREAD_{})", level.to_uppercase()),
            advice: "call it from the thread that initialised MPI, or initialise MPI with MPI_THREAD_MULTIPLE",
        }
    }
}

/// The calling thread, without a handle to it, which is counted.
fn this_thread() -> ThreadId {
    THIS.with(|id| *id)
}
