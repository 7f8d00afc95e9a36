//! Messages that are staged in chunks, on the OpenCL driver that `OCL_ICD_VENDORS` names, with ranks as threads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use haloport_conformance::random::cases;
use haloport_conformance::staging;
use haloport_core::run_ranks;
use haloport_cpu::CpuDevice;

const RANKS: usize = 4;

#[test]
fn random_exchanges_in_chunks_match_the_oracles() {
    let Some(device) = common::device() else { return };
    staging::random(&device, cases(240), RANKS).unwrap();
}

#[test]
fn without_pinned_memory_they_match_the_oracles() {
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
fn exchanges_in_flight_at_once_keep_apart() {
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
