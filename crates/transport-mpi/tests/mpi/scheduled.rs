//! Exchanges that end without a wait of the host, on the OpenCL device, if there is one.

use std::time::Duration;

use haloport_conformance::{ensure, progress, scheduled, sets, structured};
use haloport_core::device::DeviceError;
use haloport_core::{Communicator, Progress};
use haloport_mpi::plain::{ThreadLevel, thread_level};
use haloport_sycl::SyclDevice;

use crate::Outcome;

pub(crate) fn suite(comm: &Communicator) -> Outcome {
    let device = match SyclDevice::new() {
        Ok(device) => device,
        Err(error @ DeviceError::NotFound { .. }) if std::env::var_os("HALOPORT_SYCL").is_none() => {
            println!("skipped: {error}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let any_thread = thread_level()? >= ThreadLevel::Serialized;
    let result = comm.set_progress(Progress::Thread);
    ensure!(result.is_ok() == any_thread, "the result of asking for a progress thread: {result:?}");
    comm.set_progress(Progress::Auto)?;
    for number in 0..20 {
        let case = structured::Case::new(number, comm.size(), 1 + number as usize / 2);
        // A third of them in chunks.
        let case = if number % 3 == 0 { case.in_chunks(256) } else { case };
        structured::check(comm, &device, &case)?;
        sets::check(comm, &device, number, 1 + number as usize / 2)?;
    }
    progress::forgotten_exchanges_are_completed(comm, &device)?;
    scheduled::storm(comm, &device, 50)?;
    if any_thread {
        let time = scheduled::host_goes_on(comm, &device, 30, &haloport_sycl::blocking_calls)?;
        ensure!(time < Duration::from_millis(1), "a start and its finish took {time:?}");
    }
    comm.barrier()?;
    if comm.rank() == 0 {
        println!("{} ranks: scheduled exchanges passed", comm.size());
    }
    Ok(())
}
