//! Ranks as threads, each on a device of its own: their streams hand fields over to each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haloport_conformance::random::cases;
use haloport_conformance::{Failure, ordering, overlap, scheduled, structured, unstructured};
use haloport_core::device::{Device, Priority, Stream};
use haloport_core::exchange::CopiedBy;
use haloport_core::{BindOptions, Communicator, DataPath, run_ranks};
use haloport_cuda::CudaDevice;

/// The paths by which halos are filled.
const PATHS: [fn() -> BindOptions; 3] = [
    || BindOptions::default().prefer(DataPath::Direct).copied_by(CopiedBy::Receiver),
    || BindOptions::default().prefer(DataPath::Direct).copied_by(CopiedBy::Sender),
    || BindOptions::default().path(DataPath::Messages).staging_chunk(usize::MAX),
];

/// Runs a test on 2 ranks, and on as many as there are devices, at most 4. Prints that it is skipped if there is only one.
fn on_devices(test: impl Fn(&Communicator, &CudaDevice) -> Result<(), Failure> + Sync) {
    if crate::common::device().is_none() {
        return;
    }
    let devices = CudaDevice::list().unwrap().len();
    if devices < 2 {
        eprintln!("skipped: ranks on devices of their own need two devices, found {devices}");
        return;
    }
    for ranks in (2..=devices.min(4)).step_by(2) {
        run_ranks(ranks, |comm| {
            let device = CudaDevice::select(&format!("cuda:{}", comm.rank()))?;
            test(&comm, &device).map_err(|error| format!("{ranks} ranks, rank {}: {error}", comm.rank()))?;
            Ok::<_, Failure>(())
        })
        .unwrap();
    }
}

#[test]
fn exchanges_are_ordered_with_the_work_around_them() {
    if crate::common::device_with_gates().is_none() {
        return;
    }
    on_devices(|comm, device| {
        let owner = device.create_stream(Priority::Normal)?;
        // SAFETY: the stream outlives what is borrowed from it.
        let borrowed = unsafe { device.borrow_stream(owner.handle()) }?;
        ordering::suite(comm, device, Some(&borrowed))
    });
}

#[test]
fn many_exchanges_on_several_streams_at_once() {
    on_devices(|comm, device| scheduled::storm(comm, device, 5));
}

/// The work behind an exchange writes cells that neighbours have read.
#[test]
fn steps_in_a_row_are_right() {
    for options in overlap::PATHS {
        on_devices(|comm, device| overlap::steps_in_a_row(comm, device, options));
    }
}

#[test]
fn a_neighbour_that_does_not_exchange_hangs_no_stream() {
    for options in PATHS {
        let told = AtomicBool::new(false);
        on_devices(|comm, device| {
            told.store(false, Ordering::SeqCst);
            comm.barrier()?;
            scheduled::silent_neighbour(comm, device, options(), Duration::from_millis(700), &told)
        });
    }
}

#[test]
fn a_neighbour_that_ends_hangs_no_stream() {
    for options in PATHS {
        on_devices(|comm, device| scheduled::neighbour_that_ends(comm, device, options()));
    }
}

#[test]
fn memory_that_is_dropped_in_flight_holds_nobody_up() {
    if crate::common::device_with_gates().is_none() {
        return;
    }
    let dropped = AtomicBool::new(false);
    for options in PATHS {
        on_devices(|comm, device| scheduled::memory_dropped_in_flight(comm, device, options(), &dropped));
    }
}

#[test]
fn random_exchanges_match_the_oracles() {
    let count = cases(60);
    on_devices(|comm, device| {
        for number in 0..count {
            let size = 1 + (number * 10 / count) as usize;
            let number = number + 1000 * comm.size() as u64;
            structured::check(comm, device, &structured::Case::new(number, comm.size(), size))?;
            unstructured::check(comm, device, &unstructured::Case::new(number, comm.size(), size))?;
            if number.is_multiple_of(5) {
                structured::interleaved(comm, device, number)?;
            }
        }
        Ok(())
    });
}
