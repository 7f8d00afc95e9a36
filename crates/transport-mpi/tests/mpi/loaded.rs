//! Programs that have loaded and initialised their MPI themselves, such as Python with mpi4py.

use std::ffi::{c_int, c_void};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

use crate::{Failure, Outcome, suite};

/// Loads the library `file`, initialises it, and runs the suite on its world, whose handle in Fortran is `world`. If
/// `other` is given, that library of another MPI is loaded first, and not initialised.
pub(crate) fn check(file: &str, world: &str, other: Option<&str>) -> Outcome {
    let other = other.map(open).transpose()?;
    let mpi = open(file)?;
    // SAFETY: the standard declares the functions with these types. MPI was not initialised before, and is finalised by
    // the thread that has initialised it, after everything else.
    unsafe {
        let initialize = mpi
            .get::<unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int>(
                "MPI_Init_thread",
            )?;
        let finalize = mpi.get::<unsafe extern "C" fn() -> c_int>("MPI_Finalize")?;
        let mut provided = 0;
        assert_eq!(initialize(std::ptr::null_mut(), std::ptr::null_mut(), 0, &mut provided), 0);
        let comm = haloport_mpi::from_fortran(world.parse()?)?;
        let found = haloport_mpi::library()?;
        if comm.rank() == 0 {
            println!("{} ranks of {found}, loaded by the program", comm.size());
        }
        assert!(found.contains(file), "expected {file}, found {found}");
        suite(&comm)?;
        drop(comm);
        assert_eq!(finalize(), 0);
    }
    // They stay loaded, since an MPI may leave functions behind that are called at exit.
    std::mem::forget((mpi, other));
    Ok(())
}

/// Loads a library whose symbols only its owner finds.
fn open(file: &str) -> Result<Library, Failure> {
    // SAFETY: loading an MPI library requires nothing of the caller.
    Ok(unsafe { Library::open(Some(file), RTLD_LAZY | RTLD_LOCAL)? })
}
