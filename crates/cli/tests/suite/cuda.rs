//! The jobs on the first GPU give the results of the CPU backend, bit for bit.
#![cfg(feature = "cuda")]

use haloport_conformance::drawn;

use crate::common::{Haloport, SMALL_RELIEF, same_as_on_cpu};

/// Numbers of ranks, with an option that changes the order of work. One check of each run computes the fields on 2, 3, 4 and 8
/// ranks.
const RANKS: [(usize, &str); 4] = [(1, ""), (2, "--no-overlap"), (3, ""), (4, "")];

#[test]
fn a_tsunami_is_that_of_the_cpu_on_any_number_of_ranks() {
    let tsunami = Haloport::new("run tsunami");
    for (ranks, more) in drawn(&RANKS) {
        verify(
            &tsunami,
            &format!("--bathymetry {SMALL_RELIEF} --refine 1 --hours 0.05 --ranks {ranks} {more}"),
        );
    }
}

#[test]
fn a_tracer_is_that_of_the_cpu_on_any_number_of_ranks() {
    let advection = Haloport::new("run advection");
    for (ranks, more) in drawn(&RANKS) {
        verify(&advection, &format!("--mesh icon:R2B1 --days 0.1 --ranks {ranks} {more}"));
    }
}

/// Runs a job with all its checks, if there is a device.
fn verify(job: &Haloport, arguments: &str) {
    if let Err(error) = haloport::cuda::CudaDevice::new()
        && std::env::var_os("HALOPORT_CUDA").is_none()
    {
        return eprintln!("skipped: {error}");
    }
    same_as_on_cpu(job, "cuda", arguments);
}
