//! MPI from start to end, for programs that leave it to Haloport.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use haloport_core::{Communicator, TransportError};

use super::launcher::Launchers;
use super::space;
use crate::error::failed;
use crate::raw::{self, Comm, Mpi, MpiState, Permit, ThreadLevel};
use crate::transport::MpiTransport;

/// Initialises MPI for a program, with calls from any thread if the library allows that.
///
/// From then on, if a process exits while MPI is running, for example by [`exit`](std::process::exit), the job ends
/// with a code other than 0. The launcher of Open MPI ends it; with other libraries, whose launchers may report
/// success, the process itself ends all ranks with code 1.
///
/// A library takes a communicator instead: [`from_raw`](crate::from_raw).
///
/// # Errors
/// [`TransportError::Layer`] if there is [no MPI library](crate#the-library), if MPI is initialised already or was
/// finalised, and if `MPI_Init_thread` fails; [`TransportError::WrongLauncher`] if a launcher has started several
/// processes and each would be a job of its own, as under the `mpirun` of another MPI. With MPICH, `Layer` also if a
/// job of several ranks finds `/dev/shm` full: a signal would end MPICH itself. With Cray MPICH and
/// `MPICH_GPU_SUPPORT_ENABLED=1`, `Layer` also if the library of its GPU transport layer (GTL), which is loaded first, is
/// not found: `MPI_Init_thread` would end the process.
pub fn initialize() -> Result<MpiSession, TransportError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mpi = raw::chosen()?;
    match mpi.state() {
        MpiState::NotInitialized => {}
        MpiState::Running => {
            return Err(failed(
                "MPI_Init_thread",
                "MPI is initialised already: make a communicator from one of its owner instead",
            ));
        }
        MpiState::Finalized => {
            return Err(failed("MPI_Init_thread", "MPI was finalised, and cannot be initialised again"));
        }
    }
    let launchers = Launchers::read(|name| std::env::var(name).ok());
    let is_open_mpi = mpi.version.starts_with("Open MPI");
    if !is_open_mpi && launchers.say_several() {
        space::check()?;
    }
    // SAFETY: MPI was not initialised, as was just checked, and the lock keeps other threads from initialising it.
    unsafe { raw::initialize(mpi, ThreadLevel::Multiple)? };
    if !is_open_mpi {
        abort_at_exit();
    }
    let session = MpiSession { mpi, _this_thread: PhantomData };
    // SAFETY: MPI was just initialised, on this thread.
    let ranks = Comm::world(mpi).size(&unsafe { Permit::new(mpi) })?;
    launchers.check(ranks, &mpi.version)?;
    Ok(session)
}

/// MPI, initialised by this thread, which finalises it on drop.
///
/// `MPI_Finalize` waits for all ranks. A rank that ends with an error must call [`abort`](MpiSession::abort), or the
/// others wait for it. If its thread is panicking, dropping the session does not finalise MPI, so that the job ends
/// with the process. See also [`install_abort_hook`].
#[derive(Debug)]
pub struct MpiSession {
    mpi: &'static Mpi,
    /// Not `Send`: the thread that initialises MPI must finalise it.
    _this_thread: PhantomData<*const ()>,
}

impl MpiSession {
    /// Collective: makes a communicator of all ranks of the job.
    ///
    /// # Errors
    /// As for [`from_raw`](crate::from_raw), and [`TransportError::Variable`].
    pub fn world(&self) -> Result<Communicator, TransportError> {
        // SAFETY: the world lives as long as MPI runs, and this session finalises MPI, on this thread.
        let transport = unsafe { MpiTransport::new(self.mpi, Comm::world(self.mpi))? };
        Communicator::try_new(transport)
    }

    /// Ends all ranks of the job; the launcher returns `code`, or another code that is not 0.
    pub fn abort(&self, code: i32) -> ! {
        abort_if_running(code);
        std::process::exit(code)
    }
}

impl Drop for MpiSession {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.mpi.state() == MpiState::Running {
            // SAFETY: MPI is running, and this thread initialised it, since a session is not `Send`. `MPI_Finalize`
            // shuts the transports first.
            unsafe { raw::finalize(self.mpi) };
        }
    }
}

/// Makes a panic on any thread end all ranks of the job with code 101, after its message is shown; also a panic that is
/// caught. For programs: without it, the other ranks wait for a rank that has panicked.
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

/// Makes the job end when this process exits while MPI is running. Not for Open MPI, where `MPI_Abort` can block for
/// ever if a process calls it while it exits.
fn abort_at_exit() {
    extern "C" fn abort() {
        // A library may call `exit` to end the job, whose code was set first.
        if !ENDING.load(Ordering::SeqCst) {
            abort_if_running(1);
        }
    }
    // SAFETY: the function exists as long as the process, and a panic in it ends the process.
    if unsafe { libc::atexit(abort) } != 0 {
        haloport_core::log::warning(format_args!(
            "no memory to register a function for the exit of this process: if it exits early, other ranks may wait for it"
        ));
    }
}

/// Whether this process has begun to end the job.
static ENDING: AtomicBool = AtomicBool::new(false);

fn abort_if_running(code: i32) {
    if let Some(mpi) = raw::running() {
        ENDING.store(true, Ordering::SeqCst);
        // SAFETY: MPI is running, as was just checked. The job must end at once: at worst, on a thread that may not
        // call MPI, the call fails or ends the process in another way.
        raw::abort(&unsafe { Permit::new(mpi) }, code);
    }
}
