//! The exchange suites on the OpenCL driver that `OCL_ICD_VENDORS` names, with ranks as threads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use haloport_conformance::random::{self, cases};
use haloport_conformance::staging;
use haloport_core::run_ranks;
use haloport_cpu::CpuDevice;

const RANKS: usize = 5;

#[test]
fn random_exchanges_match_the_global_oracle() {
    let Some(device) = common::device() else { return };
    random::boxes(&device, cases(500), RANKS).unwrap();
}

#[test]
fn random_unstructured_exchanges_match_the_global_oracle() {
    let Some(device) = common::device() else { return };
    random::lists(&device, cases(500), RANKS).unwrap();
}

#[test]
fn random_exchanges_on_cubed_spheres_match_geometry() {
    let Some(device) = common::device() else { return };
    random::cubed_spheres(&device, cases(500).div_ceil(5), RANKS).unwrap();
}

#[test]
fn fields_of_the_cpu_and_of_the_device_in_one_exchange_match_the_oracle() {
    let Some(device) = common::device() else { return };
    let cpu = CpuDevice::with_threads(1).unwrap();
    random::two_devices(&device, &cpu, cases(500).div_ceil(5), RANKS).unwrap();
}

#[test]
fn exchanges_in_flight_at_once_keep_apart() {
    let Some(device) = common::device() else { return };
    random::in_flight_at_once(&device, 15, 3).unwrap();
}

#[test]
fn sparse_exchanges_with_halos_in_flight_match_the_oracle() {
    let Some(device) = common::device() else { return };
    random::sparse_exchanges(&device, 50, RANKS).unwrap();
}

#[test]
fn more_than_2_to_the_19_indices_for_one_neighbour() {
    let Some(device) = common::device() else { return };
    random::many_indices(&device).unwrap();
}

#[test]
fn random_exchanges_in_chunks_match_the_oracles() {
    let Some(device) = common::device() else { return };
    staging::random(&device, cases(240), RANKS).unwrap();
}

#[test]
fn exchanges_in_chunks_without_pinned_memory_match_the_oracles() {
    let Some(device) = common::device() else { return };
    staging::random(&staging::without_pinned_memory(&device), cases(120), RANKS).unwrap();
}

#[test]
fn ranks_that_stage_and_ranks_that_do_not_exchange() {
    let Some(device) = common::device() else { return };
    let cpu = CpuDevice::with_threads(1).unwrap();
    staging::beside_another(&device, &cpu, cases(120), RANKS).unwrap();
}

#[test]
fn exchanges_in_chunks_in_flight_at_once_keep_apart() {
    let Some(device) = common::device() else { return };
    staging::in_flight_at_once(&device, 15, 3).unwrap();
}

#[test]
fn messages_larger_than_a_chunk_are_cut() {
    let Some(device) = common::device() else { return };
    for ranks in [2, 3] {
        run_ranks(ranks, |comm| staging::larger_messages_are_cut(&comm, &device)).unwrap();
    }
}

#[test]
fn a_chunk_arrives_while_the_next_one_is_packed() {
    let Some(device) = common::device() else { return };
    run_ranks(2, |comm| staging::next_is_packed_meanwhile(&comm, &device)).unwrap();
}
