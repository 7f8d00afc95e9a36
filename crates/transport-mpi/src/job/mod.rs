//! The job, for programs that leave MPI to Haloport: `session` initialises and finalises MPI, `launcher` checks that
//! the launcher is that of the same MPI, and `space` that `/dev/shm` is not full.

mod launcher;
mod session;
mod space;

pub(crate) use launcher::Launchers;
pub use session::{MpiSession, initialize, install_abort_hook};
