//! The MPI library of this process: one, chosen at the first call that needs it.

use std::sync::{Mutex, OnceLock, PoisonError};

use haloport_core::TransportError;

use super::find;
use super::mpi::{Mpi, MpiState};
use crate::error::failed;

static CHOSEN: OnceLock<Mpi> = OnceLock::new();
static SEARCH: Mutex<()> = Mutex::new(());

/// The library of this process. The first call searches for it; if that fails, the next call searches again.
///
/// # Errors
/// [`TransportError::Layer`]: what was looked for, and what to do.
pub(crate) fn chosen() -> Result<&'static Mpi, TransportError> {
    search(|_| Ok(()))
}

/// The library of this process, which runs. If none runs, the choice stays open.
///
/// # Errors
/// As for [`chosen`]; [`TransportError::Layer`] of `call` if MPI is not running.
pub(crate) fn chosen_running(call: &'static str) -> Result<&'static Mpi, TransportError> {
    let mpi = search(|found| found.require_running(call))?;
    mpi.require_running(call).map(|()| mpi)
}

/// A library that runs: the chosen one, or one that the program has initialised. Loads and chooses none, and does not
/// wait.
pub(crate) fn running() -> Option<&'static Mpi> {
    let running = |mpi: &&Mpi| mpi.state() == MpiState::Running;
    CHOSEN.get().filter(running).or_else(|| Some(Box::leak(Box::new(find::running()?))))
}

/// The library that [`chosen`] would choose now, as a text. The choice stays open: a program may still load another one.
///
/// # Errors
/// As for [`chosen`].
pub(crate) fn describe() -> Result<String, TransportError> {
    let text = |mpi: &Mpi| format!("{} ({})", mpi.version, mpi.file);
    match CHOSEN.get() {
        Some(mpi) => Ok(text(mpi)),
        None => find_any().map(|mpi| {
            let text = text(&mpi);
            mpi.stay_loaded();
            text
        }),
    }
}

/// Returns the chosen library, or searches for one and chooses it if `accept` succeeds.
fn search(accept: impl FnOnce(&Mpi) -> Result<(), TransportError>) -> Result<&'static Mpi, TransportError> {
    if let Some(mpi) = CHOSEN.get() {
        return Ok(mpi);
    }
    let _one_at_a_time = SEARCH.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mpi) = CHOSEN.get() {
        return Ok(mpi);
    }
    let found = find_any()?;
    if let Err(error) = accept(&found) {
        found.stay_loaded();
        return Err(error);
    }
    if found.state() == MpiState::NotInitialized {
        find::publish(&found);
    }
    Ok(CHOSEN.get_or_init(|| found))
}

fn find_any() -> Result<Mpi, TransportError> {
    find::find(|name| std::env::var(name).ok()).map_err(|why| failed("the search for MPI", why))
}
