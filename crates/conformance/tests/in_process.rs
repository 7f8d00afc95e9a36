//! The suites on the in-process transport with the CPU backend.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};

use haloport_conformance::{Failure, cubed_sphere, exchange, large, line, sparse, transport, unstructured};
use haloport_core::{Communicator, run_ranks};
use haloport_cpu::CpuDevice;

/// Random cases of boxes in one run, with a fifth as many of unstructured domains and a tenth as many of cubed spheres.
/// `HALOPORT_CASES` sets another number.
fn cases() -> u64 {
    std::env::var("HALOPORT_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

#[test]
fn transport_suite() {
    for ranks in [1, 2, 3, 8] {
        run_ranks(ranks, |comm| transport::suite(&comm)).unwrap();
    }
}

#[test]
fn random_exchanges_match_the_global_oracle() {
    random_cases(cases(), |comm, device, number, size| {
        exchange::check(comm, device, &exchange::Case::new(number, comm.size(), size))
    });
}

/// Messages in parts, of which some lie in fields; with one thread, and with several, which pack all messages at once.
#[test]
fn planes_that_lie_in_fields_match_the_global_oracle() {
    for ranks in [2, 3] {
        for threads in [1, 2] {
            run_ranks(ranks, |comm| {
                let device = CpuDevice::with_threads(threads)?;
                (0..cases().div_ceil(500)).try_for_each(|number| {
                    exchange::check(&comm, &device, &exchange::Case::planes(number, comm.size()))
                })
            })
            .unwrap();
        }
    }
}

#[test]
fn random_unstructured_exchanges_match_the_global_oracle() {
    random_cases(cases().div_ceil(5), |comm, device, number, size| {
        unstructured::check(comm, device, &unstructured::Case::new(number, comm.size(), size))
    });
}

#[test]
fn random_exchanges_on_cubed_spheres_match_geometry() {
    random_cases(cases().div_ceil(10), |comm, device, number, size| {
        cubed_sphere::check(comm, device, &cubed_sphere::Case::new(number, comm.size(), size)?)
    });
}

/// Runs `total` cases on 1 to 8 ranks, the small ones first.
fn random_cases(
    total: u64,
    check: impl Fn(&Communicator, &CpuDevice, u64, usize) -> Result<(), Failure> + Sync,
) {
    let done = AtomicU64::new(0);
    for ranks in 1..=8u64 {
        // One start of the ranks serves many cases.
        run_ranks(ranks as usize, |comm| -> Result<(), Failure> {
            let device = CpuDevice::with_threads(1)?;
            for number in 0..total.div_ceil(8) {
                let size = 1 + (number * 10 / total.div_ceil(8)) as usize;
                check(&comm, &device, number, size)?;
                if comm.rank() == 0 {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        })
        .unwrap();
    }
    let done = done.into_inner();
    println!("{done} random exchanges match the oracle");
    assert!(done >= total);
}

#[test]
fn exchanges_in_flight_at_once_keep_apart() {
    for ranks in [1, 2, 3, 5] {
        run_ranks(ranks, |comm| -> Result<(), Failure> {
            let device = CpuDevice::with_threads(1)?;
            (0..20).try_for_each(|number| {
                exchange::interleaved(&comm, &device, number)?;
                unstructured::interleaved(&comm, &device, number)
            })
        })
        .unwrap();
    }
}

#[test]
fn more_than_2_to_the_19_indices_for_one_neighbour() {
    run_ranks(2, |comm| large::check_indices(&comm, &CpuDevice::with_threads(2)?, 1)).unwrap();
}

#[test]
fn sparse_exchanges_match_the_oracle() {
    for ranks in 1..=8 {
        run_ranks(ranks, |comm| -> Result<(), Failure> {
            let device = CpuDevice::with_threads(1)?;
            (0..40).try_for_each(|number| sparse::check(&comm, &device, number))
        })
        .unwrap();
    }
}

#[test]
fn windows_on_lines_match_the_oracle() {
    for ranks in 1..=8 {
        run_ranks(ranks, |comm| (0..100).try_for_each(|number| line::check(&comm, number))).unwrap();
    }
}

/// Takes several gigabytes: `cargo test -p haloport-conformance -- --ignored`.
#[test]
#[ignore = "takes 9 GB of memory"]
fn a_field_above_4_gib_and_messages_above_2_gib() {
    run_ranks(2, |comm| {
        large::check(&comm, &CpuDevice::with_threads(1)?)?;
        large::check_indices(&comm, &CpuDevice::with_threads(2)?, large::LEVELS)
    })
    .unwrap();
}
