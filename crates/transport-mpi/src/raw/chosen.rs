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
    if let Some(mpi) = CHOSEN.get() {
        return Ok(mpi);
    }
    let _one_at_a_time = SEARCH.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mpi) = CHOSEN.get() {
        return Ok(mpi);
    }
    let found = find_any()?;
    Ok(CHOSEN.get_or_init(|| found))
}

/// The library of this process, if it runs. Loads none, and does not wait for a search that is under way.
pub(crate) fn running() -> Option<&'static Mpi> {
    let chosen = CHOSEN.get().or_else(|| {
        let _one_at_a_time = SEARCH.try_lock().ok()?;
        let found = find::running()?;
        Some(CHOSEN.get_or_init(|| found))
    });
    chosen.filter(|mpi| mpi.state() == MpiState::Running)
}

/// The library that [`chosen`] would choose now. The choice stays open: a program may still load another one.
///
/// # Errors
/// As for [`chosen`].
pub(crate) fn describe() -> Result<String, TransportError> {
    let text = |mpi: &Mpi| format!("{} ({})", mpi.version, mpi.file);
    match CHOSEN.get() {
        Some(mpi) => Ok(text(mpi)),
        None => find_any().map(|mpi| {
            let text = text(&mpi);
            // An MPI that is unloaded may leave threads and functions to call at exit behind.
            std::mem::forget(mpi);
            text
        }),
    }
}

/// Returns an error if MPI is not running.
pub(crate) fn require_running(mpi: &Mpi, call: &'static str) -> Result<(), TransportError> {
    match mpi.state() {
        MpiState::NotInitialized => Err(failed(call, format!("MPI is not initialised ({})", mpi.file))),
        MpiState::Running => Ok(()),
        MpiState::Finalized => Err(failed(call, "MPI was finalised")),
    }
}

fn find_any() -> Result<Mpi, TransportError> {
    find::find(|name| std::env::var(name).ok()).map_err(|why| failed("the search for MPI", why))
}
