//! The suites on the in-process transport with the CPU backend.

use std::time::Duration;

use haloport_conformance::random::{self, cases};
use haloport_conformance::{
    Failure, backend, faults, large, line, out_of_step, repeated, structured, transport, usual, whole,
};
use haloport_core::{Communicator, run_ranks};
use haloport_cpu::CpuDevice;

/// Random structured cases of one run; there are a fifth as many unstructured ones and a tenth as many cubed
/// spheres and tripolar grids.
const CASES: u64 = 10_000;

const RANKS: usize = 8;

fn device() -> CpuDevice {
    CpuDevice::with_threads(1).unwrap()
}

#[test]
fn transport_suite() {
    for ranks in [1, 2, 3, 8] {
        run_ranks(ranks, |comm| Ok(transport::suite(&comm)?)).unwrap();
    }
}

#[test]
fn ranks_that_make_other_calls_all_get_the_same_error() {
    for ranks in [1, 2, 3] {
        run_ranks(ranks, |comm| out_of_step::check(&comm, &device())).unwrap();
    }
}

#[test]
fn a_rank_that_leaves_out_its_last_call_is_named_at_the_time_limit() {
    let calls: Vec<_> = out_of_step::calls().into_iter().chain(out_of_step::variants()).collect();
    for ranks in [2, 3] {
        for (name, call) in &calls {
            run_ranks(ranks, |comm| -> Result<Communicator, Failure> {
                let made = out_of_step::Made::new(&comm, &device())?;
                if comm.rank() + 1 == ranks {
                    // Kept, so that the rank does not end.
                    return Ok(comm);
                }
                comm.set_time_limit(Some(Duration::from_millis(20)));
                let text = call(&made).unwrap_err().to_string();
                // On a busy machine the third rank may be late, too: "the ranks 0, 2".
                let missing = text.split_once(" to come to ").map_or("", |(missing, _)| missing);
                let named = missing.contains("waiting for ") && missing.ends_with(&format!(" {}", ranks - 1));
                assert!(named && text.contains("time limit of 20ms"), "{name}: {text}");
                Ok(comm)
            })
            .unwrap();
        }
    }
}

/// In a process of its own, whose memory and open files are those of this test.
#[test]
fn exchanges_that_are_made_and_dropped_leave_nothing() {
    const MARK: &str = "HALOPORT_TEST_REPEATED";
    if std::env::var_os(MARK).is_none() {
        let name = "in_process::exchanges_that_are_made_and_dropped_leave_nothing";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let output = alone.args([name, "--exact", "--nocapture"]).env(MARK, "1").output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success() && text[0].contains("1 passed"), "{}{}", text[0], text[1]);
        return;
    }
    run_ranks(2, |comm| repeated::check(&comm, &device(), usual(5_000, 100_000))).unwrap();
}

#[test]
fn random_exchanges_match_the_global_oracle() {
    random::boxes(&device(), cases(CASES), RANKS).unwrap();
}

/// Messages in parts, some of which are sent from fields; with one thread, and with several, which pack all messages at
/// once.
#[test]
fn planes_that_lie_in_fields_match_the_global_oracle() {
    for ranks in [2, 3] {
        for threads in [1, 2] {
            run_ranks(ranks, |comm| {
                let device = CpuDevice::with_threads(threads)?;
                random::numbers(cases(CASES).div_ceil(500)).try_for_each(|number| {
                    structured::check(&comm, &device, &structured::Case::planes(number, comm.size()))
                })
            })
            .unwrap();
        }
    }
}

#[test]
fn random_unstructured_exchanges_match_the_global_oracle() {
    random::lists(&device(), cases(CASES).div_ceil(5), RANKS).unwrap();
}

#[test]
fn random_exchanges_on_cubed_spheres_match_geometry() {
    random::cubed_spheres(&device(), cases(CASES).div_ceil(10), RANKS).unwrap();
}

#[test]
fn accumulated_halos_match_the_oracle() {
    random::accumulated(&device(), cases(CASES).div_ceil(4), RANKS).unwrap();
}

#[test]
fn sums_of_halos_have_the_same_bits_on_each_path_and_in_each_run() {
    random::same_bits(&device(), &device(), cases(CASES).div_ceil(10), RANKS, 2).unwrap();
}

#[test]
fn sums_of_halos_have_the_same_bits_in_a_hundred_runs() {
    random::same_bits(&device(), &device(), usual(8, 32), 4, usual(10, 100)).unwrap();
}

#[test]
fn exact_sums_have_the_same_bits_on_any_number_of_ranks() {
    backend::exact_sums_have_the_same_bits_on_any_number_of_ranks(&device()).unwrap();
}

#[test]
fn sums_in_the_order_of_ids_have_the_same_bits_on_any_number_of_ranks() {
    backend::sums_in_the_order_of_ids_have_the_same_bits_on_any_number_of_ranks(&device()).unwrap();
}

#[test]
fn redistributed_cells_match_the_oracles() {
    random::redistributed(&device(), cases(CASES).div_ceil(4), RANKS).unwrap();
}

#[test]
fn whole_arrays_match_the_oracle() {
    random::whole_arrays(&device(), cases(usual(150, 4000)), 5).unwrap();
}

#[test]
fn a_call_that_fails_while_a_whole_array_moves_is_an_error_of_all_ranks() {
    println!("{} calls failed in turn", whole::every_call_fails_once(&device()).unwrap());
}

#[test]
fn fields_of_several_patterns_match_the_oracles() {
    random::sets(&device(), cases(CASES).div_ceil(16), RANKS).unwrap();
}

#[test]
fn random_exchanges_on_tripolar_grids_match_geometry() {
    random::tripolar_grids(&device(), cases(CASES).div_ceil(10), RANKS).unwrap();
}

#[test]
fn exchanges_in_flight_at_once_keep_apart() {
    random::in_flight_at_once(&device(), 100, 5).unwrap();
}

#[test]
fn uneven_ranks_need_no_call_of_a_neighbour_that_has_started() {
    random::uneven_ranks(&device(), usual(60, 1000), 4).unwrap();
}

#[test]
fn steps_in_a_row_are_right() {
    backend::steps_in_a_row_are_right(&device()).unwrap();
}

#[test]
fn a_call_that_fails_is_an_error_of_its_rank_and_hangs_no_other() {
    println!("{} calls failed in turn", faults::every_call_fails_once(&device()).unwrap());
}

#[test]
fn more_than_2_to_the_19_indices_for_one_neighbour() {
    random::many_indices(&CpuDevice::with_threads(2).unwrap()).unwrap();
}

#[test]
fn sparse_exchanges_match_the_oracle() {
    random::sparse_exchanges(&device(), random::cases(320), RANKS).unwrap();
}

#[test]
fn windows_on_lines_match_the_oracle() {
    for ranks in 1..=8 {
        run_ranks(ranks, |comm| random::numbers(100).try_for_each(|number| line::check(&comm, number)))
            .unwrap();
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
