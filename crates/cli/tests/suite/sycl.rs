//! The jobs on an OpenCL device give the results of the CPU backend, bit for bit.
#![cfg(feature = "sycl")]

use haloport_conformance::drawn;

use crate::common::{Haloport, SMALL_RELIEF, same_as_on_cpu};

#[test]
fn a_tsunami_is_that_of_the_cpu_on_any_number_of_ranks() {
    let tsunami = Haloport::new("run tsunami");
    for (ranks, more) in drawn(&[(1, ""), (2, ""), (2, "--no-overlap"), (4, "")]) {
        verify(
            &tsunami,
            &format!("--bathymetry {SMALL_RELIEF} --refine 1 --hours 0.05 --ranks {ranks} {more}"),
        );
    }
}

#[test]
fn a_tracer_is_that_of_the_cpu_on_any_number_of_ranks() {
    let advection = Haloport::new("run advection");
    for (ranks, more) in drawn(&[(1, ""), (2, "--levels 3"), (2, "--no-overlap"), (4, "--limited")]) {
        verify(&advection, &format!("--mesh icon:R2B2 --days 1 --ranks {ranks} {more}"));
    }
}

/// Runs a job with all its checks, if there is a device.
fn verify(job: &Haloport, arguments: &str) {
    if let Err(error) = haloport::sycl::SyclDevice::new()
        && std::env::var_os("HALOPORT_SYCL").is_none()
    {
        return eprintln!("skipped: {error}");
    }
    same_as_on_cpu(job, "sycl", arguments);
}
