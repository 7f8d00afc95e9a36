//! Communicators: the ranks that a program exchanges with.

use std::ffi::c_void;
use std::fmt;
use std::time::Duration;

use haloport::comm::Progress;
use haloport::{Communicator, mpi};

use crate::arguments::{count, make, slice, write};
use crate::handle::{Handle, kind};
use crate::status::{Failure, Status, call};

kind!(Communicator, "hp_comm", 0x4863);

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_mpi(
    comm: *const c_void,
    bytes: usize,
    made: *mut Handle<Communicator>,
) -> Status {
    call("hp_comm_mpi", || {
        // SAFETY: by the contract of the header, `made` may be written, and `comm` is null with a size of 0, or an MPI_Comm of
        // that size, of an MPI that runs.
        unsafe {
            make(made, || {
                if comm.is_null() && bytes == 0 {
                    return Ok(mpi::from_world()?);
                }
                let handle = match bytes {
                    4 => i64::from(slice(comm.cast::<i32>(), 1, "mpi_comm")?[0]),
                    8 => slice(comm.cast::<i64>(), 1, "mpi_comm")?[0],
                    _ => {
                        return Err(Failure::argument(format!(
                            "bytes: expected the size of an MPI_Comm, 4 or 8, found {bytes}; pass `&comm, sizeof comm`"
                        )));
                    }
                };
                Ok(mpi::from_raw(handle)?)
            })
        }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_fortran(comm: i32, made: *mut Handle<Communicator>) -> Status {
    // SAFETY: by the contract of the header, `made` may be written, and `comm` is the handle of a communicator.
    call("hp_comm_fortran", || unsafe { make(made, || Ok(mpi::from_fortran(comm)?)) })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_threads(ranks: i32, comms: *mut Handle<Communicator>) -> Status {
    call("hp_comm_threads", || {
        let ranks = count(ranks, "ranks")?;
        if comms.is_null() {
            return Err(Failure::argument("comms: expected a place for each rank, found null"));
        }
        for (rank, comm) in haloport::comm::threads(ranks)?.into_iter().enumerate() {
            // SAFETY: by the contract of the header there is room for that many.
            unsafe { comms.add(rank).write(Handle::new(comm)) };
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_rank(comm: Handle<Communicator>, rank: *mut i32) -> Status {
    call("hp_comm_rank", || {
        // SAFETY: by the contract of the header, here and below. After a failure there is no rank.
        unsafe { write(rank, -1) };
        let comm = communicator(comm)?;
        // SAFETY: as above. Ranks are fewer than 2^31.
        unsafe { write(rank, comm.rank() as i32) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_size(comm: Handle<Communicator>, ranks: *mut i32) -> Status {
    call("hp_comm_size", || {
        // SAFETY: by the contract of the header, here and below. After a failure there are no ranks.
        unsafe { write(ranks, 0) };
        let comm = communicator(comm)?;
        // SAFETY: as above. Ranks are fewer than 2^31.
        unsafe { write(ranks, comm.size() as i32) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_comm_set_time_limit(comm: Handle<Communicator>, seconds: f64) -> Status {
    call("hp_comm_set_time_limit", || {
        let limit = duration(seconds)?;
        communicator(comm)?.set_time_limit(limit);
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_comm_set_warn_after(comm: Handle<Communicator>, seconds: f64) -> Status {
    call("hp_comm_set_warn_after", || {
        let time = duration(seconds)?;
        communicator(comm)?.set_warn_after(time);
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_comm_set_progress(comm: Handle<Communicator>, progress: i32) -> Status {
    call("hp_comm_set_progress", || {
        let found = match progress {
            0 => Progress::Auto,
            1 => Progress::Thread,
            2 => Progress::Caller,
            _ => {
                return Err(Failure::argument(format!(
                    "progress: expected HP_PROGRESS_AUTO, HP_PROGRESS_THREAD or HP_PROGRESS_CALLER, found {progress}"
                )));
            }
        };
        Ok(communicator(comm)?.set_progress(found)?)
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_comm_free(comm: Handle<Communicator>) -> Status {
    call("hp_comm_free", || comm.take().map(drop))
}

/// `None` for 0 seconds.
fn duration(seconds: f64) -> Result<Option<Duration>, Failure> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) => Ok((!time.is_zero()).then_some(time)),
        Err(_) => Err(Failure::argument(format!(
            "seconds: expected a number above 0, or 0 for none, found {seconds}"
        ))),
    }
}

/// A rank that the caller names.
pub(crate) fn rank(found: i32, ranks: usize, name: fmt::Arguments<'_>) -> Result<usize, Failure> {
    usize::try_from(found).ok().filter(|&rank| rank < ranks).ok_or_else(|| {
        Failure::argument(format!("{name}: expected one of the {ranks} ranks, counted from 0, found {found}"))
    })
}

/// The communicator of a handle, which other threads may use meanwhile.
pub(crate) fn communicator(comm: Handle<Communicator>) -> Result<Communicator, Failure> {
    comm.get()?.with(|comm| Ok(comm.clone()))
}

/// Collective: the value of `mine` on every rank, or a failure on every rank if it is one on some.
pub(crate) fn agree<T>(comm: &Communicator, mine: Result<T, Failure>) -> Result<T, Failure> {
    let complaint = mine.as_ref().err().map(|failure| failure.text.clone());
    let agreed = comm.agree(complaint);
    let value = mine?;
    agreed?.map_err(|text| Failure { status: Status::Refused, text })?;
    Ok(value)
}
