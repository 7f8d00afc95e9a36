//! The exchange suites on the first GPU, with ranks as threads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use haloport_conformance::{Failure, cubed_sphere, exchange, large, sparse, unstructured};
use haloport_core::{Communicator, run_ranks};
use haloport_cpu::CpuDevice;
use haloport_cuda::CudaDevice;

/// Random cases in one run of each test. `HALOPORT_CASES` sets another number.
fn cases() -> u64 {
    std::env::var("HALOPORT_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

#[test]
fn random_exchanges_match_the_global_oracle() {
    random_cases(cases(), |comm, device, number, size| {
        exchange::check(comm, device, &exchange::Case::new(number, comm.size(), size))
    });
}

#[test]
fn random_unstructured_exchanges_match_the_global_oracle() {
    random_cases(cases(), |comm, device, number, size| {
        unstructured::check(comm, device, &unstructured::Case::new(number, comm.size(), size))
    });
}

#[test]
fn random_exchanges_on_cubed_spheres_match_geometry() {
    random_cases(cases().div_ceil(5), |comm, device, number, size| {
        cubed_sphere::check(comm, device, &cubed_sphere::Case::new(number, comm.size(), size)?)
    });
}

/// Fields of the CPU and of the device in one exchange.
#[test]
fn fields_of_two_devices_in_one_exchange_match_the_oracle() {
    random_cases(cases().div_ceil(5), |comm, device, number, size| {
        let cpu = CpuDevice::with_threads(1)?;
        let (boxes, cells) = (
            exchange::Case::new(number, comm.size(), size),
            unstructured::Case::new(number, comm.size(), size),
        );
        exchange::check_on(comm, device, &cpu, &boxes)?;
        exchange::check_on(comm, &cpu, device, &boxes)?;
        unstructured::check_on(comm, device, &cpu, &cells)
    });
}

/// Runs `total` cases on 1 to 5 ranks, the small ones first.
fn random_cases(
    total: u64,
    check: impl Fn(&Communicator, &CudaDevice, u64, usize) -> Result<(), Failure> + Sync,
) {
    let Some(device) = common::device() else { return };
    let done = AtomicU64::new(0);
    let each = total.div_ceil(5);
    for ranks in 1..=5 {
        run_ranks(ranks, |comm| -> Result<(), Failure> {
            for number in 0..each {
                check(&comm, &device, number, 1 + (number * 10 / each) as usize)?;
                if comm.rank() == 0 {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        })
        .unwrap();
    }
    println!("{} random exchanges match the oracle", done.into_inner());
}

#[test]
fn exchanges_in_flight_at_once_keep_apart() {
    let Some(device) = common::device() else { return };
    for ranks in [1, 2, 3] {
        run_ranks(ranks, |comm| -> Result<(), Failure> {
            (0..5).try_for_each(|number| {
                exchange::interleaved(&comm, &device, number)?;
                unstructured::interleaved(&comm, &device, number)
            })
        })
        .unwrap();
    }
}

#[test]
fn sparse_exchanges_with_halos_in_flight_match_the_oracle() {
    let Some(device) = common::device() else { return };
    for ranks in [1, 3, 5] {
        run_ranks(ranks, |comm| (0..10).try_for_each(|number| sparse::check(&comm, &device, number)))
            .unwrap();
    }
}

#[test]
fn more_than_2_to_the_19_indices_for_one_neighbour() {
    let Some(device) = common::device() else { return };
    run_ranks(2, |comm| large::check_indices(&comm, &device, 1)).unwrap();
}
