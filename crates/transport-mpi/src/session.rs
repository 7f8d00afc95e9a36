//! MPI from start to end, for commands that own it.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use haloport_core::{Communicator, TransportError};

use crate::communicator::from_raw;
use crate::endpoint::layer;
use crate::launcher::Launchers;
use crate::raw::{self, Comm, Permit, Phase};
use crate::room;

/// Initialises MPI for a command, with calls from any thread where the library can do that.
///
/// From then on a process that exits while MPI runs, by [`exit`](std::process::exit) somewhere say, ends the job with a code
/// other than 0. The launcher of Open MPI does that by itself; under others, some of which call it a success, the process
/// ends all ranks with code 1.
///
/// A library takes a communicator instead: [`from_communicator`](crate::from_communicator).
///
/// # Errors
/// [`TransportError::Layer`] where MPI is initialised already or was finalised, and what `MPI_Init_thread` says;
/// [`TransportError::WrongLauncher`] where a launcher has started several processes and each would be a job of its own, as
/// under the `mpirun` of another MPI. With MPICH, `Layer` where a job of several ranks finds `/dev/shm` full: MPICH itself would
/// be ended by a signal.
pub fn initialize() -> Result<MpiSession, TransportError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match raw::phase() {
        Phase::Before => {}
        Phase::Running => {
            return Err(layer(
                "MPI_Init_thread",
                "MPI is initialised already: make a communicator from one of its owner instead",
            ));
        }
        Phase::Finalized => {
            return Err(layer("MPI_Init_thread", "MPI was finalised, and cannot be initialised again"));
        }
    }
    let (library, launchers) = (raw::version(), Launchers::read(|name| std::env::var(name).ok()));
    let is_open_mpi = library.starts_with("Open MPI");
    if !is_open_mpi && launchers.say_several() {
        room::check()?;
    }
    // SAFETY: MPI was not initialised, as was just asked, and the lock keeps other threads from it.
    unsafe { raw::initialize() }
        .map_err(|code| layer("MPI_Init_thread", &format!("error code {code}; is this run under mpirun?")))?;
    if !is_open_mpi {
        abort_at_exit();
    }
    let session = MpiSession { _this_thread: PhantomData };
    // SAFETY: MPI was just initialised, on this thread.
    let ranks = Comm::world().size(&unsafe { Permit::new() })?;
    launchers.check(ranks, &library)?;
    Ok(session)
}

/// MPI, initialised by this thread, which finalises it on drop.
///
/// `MPI_Finalize` waits for all ranks. A rank that ends with an error calls [`abort`](MpiSession::abort), so that the
/// others do not wait for it; while its thread is panicking, dropping the session does not finalise, so that the job ends
/// with the process. See also [`install_abort_hook`].
#[derive(Debug)]
pub struct MpiSession {
    /// The thread that initialises is the one that finalises.
    _this_thread: PhantomData<*const ()>,
}

impl MpiSession {
    /// Collective: a communicator of all ranks of the job.
    ///
    /// # Errors
    /// As for [`from_communicator`](crate::from_communicator), and [`TransportError::Variable`].
    pub fn world(&self) -> Result<Communicator, TransportError> {
        // SAFETY: the world lives as long as MPI runs; MPI is finalised by this session, on this thread.
        unsafe { from_raw(Comm::world().handle()) }
    }

    /// Ends all ranks of the job; the launcher returns `code` or another that is not 0.
    pub fn abort(&self, code: i32) -> ! {
        abort_if_running(code);
        std::process::exit(code)
    }
}

impl Drop for MpiSession {
    fn drop(&mut self) {
        if !std::thread::panicking() && raw::phase() == Phase::Running {
            // SAFETY: MPI is running, and this is the thread that initialised it, since a session is not `Send`. The
            // transports are shut before anything else happens.
            unsafe { raw::finalize() };
        }
    }
}

/// Has a panic on any thread end all ranks of the job with code 101, after its message is shown. For commands: a rank
/// that panics would leave the others waiting for it. Panics that are caught end the job too.
pub fn install_abort_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let shown = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            shown(panic);
            abort_if_running(101);
        }));
    });
}

/// An error where MPI is not running.
pub(crate) fn require_running(call: &'static str) -> Result<(), TransportError> {
    match raw::phase() {
        Phase::Before => Err(layer(call, "MPI is not initialised")),
        Phase::Running => Ok(()),
        Phase::Finalized => Err(layer(call, "MPI was finalised")),
    }
}

/// Has the job end when this process exits while MPI is running. Not for Open MPI: there a call of `MPI_Abort` from a process
/// that is exiting can wait for ever.
fn abort_at_exit() {
    extern "C" fn abort() {
        // A library may end this process by `exit` when it is told to end the job: its code is the first.
        if !ENDING.load(Ordering::SeqCst) {
            abort_if_running(1);
        }
    }
    // SAFETY: the function is there as long as the process, and a panic in it ends the process.
    if unsafe { libc::atexit(abort) } != 0 {
        tracing::warn!(
            "no memory to watch over the end of this process: others may wait for it if it exits early"
        );
    }
}

/// Whether this process has been ending the job.
static ENDING: AtomicBool = AtomicBool::new(false);

fn abort_if_running(code: i32) {
    if raw::phase() == Phase::Running {
        ENDING.store(true, Ordering::SeqCst);
        // SAFETY: MPI is running, as was just asked. The job is to end at once: at worst the call fails, or the process
        // ends otherwise, on a thread that may not call MPI.
        raw::abort(&unsafe { Permit::new() }, code);
    }
}
