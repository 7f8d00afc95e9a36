//! The exchange suites on the first GPU, with ranks as threads.

use haloport_conformance::random::{self, cases};
use haloport_core::device::Device;
use haloport_cpu::CpuDevice;
use haloport_cuda::CudaDevice;

haloport_conformance::backend_tests! { crate::common::device:
    random_exchanges_match_the_global_oracle,
    random_unstructured_exchanges_match_the_global_oracle,
    random_exchanges_on_cubed_spheres_match_geometry,
    random_exchanges_on_tripolar_grids_match_geometry,
    accumulated_halos_match_the_oracle,
    redistributed_cells_match_the_oracles,
    exact_sums_have_the_same_bits_on_any_number_of_ranks,
    sums_in_the_order_of_ids_have_the_same_bits_on_any_number_of_ranks,
    whole_arrays_match_the_oracle,
    fields_of_several_patterns_match_the_oracles,
    a_forgotten_exchange_is_completed_by_the_next_one,
    random_exchanges_in_chunks_match_the_oracles,
    messages_larger_than_a_chunk_are_cut,
    a_chunk_arrives_while_the_next_one_is_packed,
    exchanges_in_chunks_in_flight_at_once_keep_apart,
    large_messages_are_moved_by_a_copy,
    chunks_that_are_moved_have_a_row_in_the_time_line,
    exchanges_in_flight_at_once_keep_apart,
    uneven_ranks_need_no_call_of_a_neighbour_that_has_started,
    sparse_exchanges_with_halos_in_flight_match_the_oracle,
    more_than_2_to_the_19_indices_for_one_neighbour,
}

#[test]
fn sums_of_halos_have_the_bits_of_the_cpu() {
    let Some(device) = crate::common::device() else { return };
    let cpu = CpuDevice::with_threads(1).unwrap();
    random::same_bits(&device, &cpu, cases(500).div_ceil(3), 5, 2).unwrap();
}

#[test]
fn fields_of_the_cpu_and_of_the_device_in_one_exchange_match_the_oracle() {
    let Some(device) = crate::common::device() else { return };
    let cpu = CpuDevice::with_threads(1).unwrap();
    random::two_devices(&device, &cpu, cases(500).div_ceil(5), 5).unwrap();
}

#[test]
fn fields_of_two_gpus_in_one_exchange_match_the_oracle() {
    let Some(device) = crate::common::device() else { return };
    let second = match CudaDevice::select("cuda:1") {
        Ok(second) => second,
        Err(error) => return println!("skipped: {error}"),
    };
    assert_ne!(device.id(), second.id());
    random::two_devices(&device, &second, cases(500).div_ceil(5), 5).unwrap();
}
