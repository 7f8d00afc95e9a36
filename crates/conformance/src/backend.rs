//! Tests that backends share: functions of one device, each with the name of its test. A test binary lists those that
//! its backend passes:
//!
//! ```text
//! haloport_conformance::backend_tests! { common::device: exchanges_in_flight_at_once_keep_apart, … }
//! ```
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "the name says what is tested, the error what is wrong"
)]

use std::ffi::OsStr;
use std::process::Command;

use haloport_core::device::{Combine, Device, DeviceError, DeviceInfo};
use haloport_core::{BindOptions, Communicator, Pattern, Progress, run_ranks};

use crate::random::{self, cases};
use crate::test_devices::altered::{CallAlteration, with_calls};
use crate::{Failure, drawn, faults, overlap, progress, staging, trace, usual};

/// The most ranks of random exchanges.
const RANKS: usize = 5;

/// Defines a test for each function of [`backend`](crate::backend) that is listed, on the device that `$device()`
/// returns. If it returns `None`, the tests are skipped.
#[macro_export]
macro_rules! backend_tests {
    ($device:path: $($test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                if let Some(device) = $device() {
                    $crate::backend::$test(&device).unwrap();
                }
            }
        )*
    };
}

/// The device under test. If it is missing and the variable `required` is not set, says so and returns `None`.
///
/// # Panics
/// If the device cannot be opened for another reason, or is missing although the variable is set.
pub fn device_under_test<D: Device>(opened: Result<D, DeviceError>, required: &str) -> Option<D> {
    match opened {
        Ok(device) => {
            eprintln!("on {}: {}", device.info().name, device.info().driver);
            Some(device)
        }
        Err(error @ DeviceError::NotFound { .. }) if std::env::var_os(required).is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs the ignored test `name` of this binary in a process of its own, with a variable set, and returns its output.
/// The test must pass.
pub fn printed_by(name: &str, variable: &str, value: impl AsRef<OsStr>) -> Result<String, Failure> {
    let mut test = Command::new(std::env::current_exe()?);
    let output = test.args(["--ignored", "--nocapture", name]).env(variable, value).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    crate::ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

pub fn random_exchanges_match_the_global_oracle<D: Device>(device: &D) -> Result<(), Failure> {
    random::boxes(device, cases(500), RANKS)
}

pub fn random_unstructured_exchanges_match_the_global_oracle<D: Device>(device: &D) -> Result<(), Failure> {
    random::lists(device, cases(500), RANKS)
}

pub fn random_exchanges_on_cubed_spheres_match_geometry<D: Device>(device: &D) -> Result<(), Failure> {
    random::cubed_spheres(device, cases(500).div_ceil(5), RANKS)
}

pub fn random_exchanges_on_tripolar_grids_match_geometry<D: Device>(device: &D) -> Result<(), Failure> {
    random::tripolar_grids(device, cases(500).div_ceil(5), RANKS)
}

pub fn accumulated_halos_match_the_oracle<D: Device>(device: &D) -> Result<(), Failure> {
    random::accumulated(device, usual(cases(500).div_ceil(2), cases(500)), RANKS)?;
    let mut info = device.info().clone();
    info.capabilities.combining = false;
    let without = with_calls(device, WithoutCombining(info));
    let refused = run_ranks(2, |comm| {
        let pattern = Pattern::on_grid(&comm, [4]).periodic([true]).halo(1).build()?;
        let sum = BindOptions::default().accumulate(Combine::Sum);
        Ok(pattern.bind_with(pattern.field::<f32, _>(&without)?, sum).map(drop)?)
    });
    let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
    crate::ensure!(text.contains("has no halos that are accumulated"), "the refusal says {text:?}");
    Ok(())
}

/// A device without copies that combine.
#[derive(Debug)]
struct WithoutCombining(DeviceInfo);

impl<D: Device> CallAlteration<D> for WithoutCombining {
    fn info<'a>(&'a self, _device: &'a DeviceInfo) -> &'a DeviceInfo {
        &self.0
    }
}

pub fn redistributed_cells_match_the_oracles<D: Device>(device: &D) -> Result<(), Failure> {
    random::redistributed(device, usual(cases(500).div_ceil(2), cases(500)), RANKS)
}

pub fn exact_sums_have_the_same_bits_on_any_number_of_ranks<D: Device>(device: &D) -> Result<(), Failure> {
    // 50 random decompositions on each number of ranks.
    random::exact_sums(device, 400, 8)
}

pub fn sums_in_the_order_of_ids_have_the_same_bits_on_any_number_of_ranks<D: Device>(
    device: &D,
) -> Result<(), Failure> {
    random::sums_in_the_order_of_ids(device, usual(80, 400), 8)
}

pub fn whole_arrays_match_the_oracle<D: Device>(device: &D) -> Result<(), Failure> {
    random::whole_arrays(device, cases(500).div_ceil(10), RANKS)
}

pub fn fields_of_several_patterns_match_the_oracles<D: Device>(device: &D) -> Result<(), Failure> {
    random::sets(device, cases(500).div_ceil(5), RANKS)
}

pub fn exchanges_in_flight_at_once_keep_apart<D: Device>(device: &D) -> Result<(), Failure> {
    random::in_flight_at_once(device, 15, 3)
}

pub fn uneven_ranks_need_no_call_of_a_neighbour_that_has_started<D: Device>(
    device: &D,
) -> Result<(), Failure> {
    random::uneven_ranks(device, usual(12, 120), 4)
}

pub fn sparse_exchanges_with_halos_in_flight_match_the_oracle<D: Device>(device: &D) -> Result<(), Failure> {
    random::sparse_exchanges(device, 50, RANKS)
}

pub fn more_than_2_to_the_19_indices_for_one_neighbour<D: Device>(device: &D) -> Result<(), Failure> {
    random::many_indices(device)
}

pub fn random_exchanges_in_chunks_match_the_oracles<D: Device>(device: &D) -> Result<(), Failure> {
    // Each is four exchanges.
    staging::random(device, cases(960).div_ceil(4), RANKS)
}

pub fn exchanges_in_chunks_without_pinned_memory_match_the_oracles<D: Device>(
    device: &D,
) -> Result<(), Failure> {
    staging::random(&staging::without_pinned_memory(device), cases(960).div_ceil(8), RANKS)
}

pub fn exchanges_in_chunks_in_flight_at_once_keep_apart<D: Device>(device: &D) -> Result<(), Failure> {
    staging::in_flight_at_once(device, 15, 3)
}

pub fn messages_larger_than_a_chunk_are_cut<D: Device>(device: &D) -> Result<(), Failure> {
    on_ranks(&[2, 3], |comm| staging::larger_messages_are_cut(comm, device))
}

pub fn a_chunk_arrives_while_the_next_one_is_packed<D: Device>(device: &D) -> Result<(), Failure> {
    on_ranks(&[2], |comm| staging::next_is_packed_meanwhile(comm, device))
}

pub fn a_gate_opens_while_another_rank_waits_for_its_stream<D: Device>(device: &D) -> Result<(), Failure> {
    let handed = progress::HandedGate::default();
    for by in [Progress::Auto, Progress::Caller] {
        on_ranks(&[2], |comm| progress::gates_open_while_a_rank_waits(comm, device, &handed, by))?;
    }
    Ok(())
}

pub fn a_forgotten_exchange_is_completed_by_the_next_one<D: Device>(device: &D) -> Result<(), Failure> {
    on_ranks(&[2], |comm| progress::forgotten_exchanges_are_completed(comm, device))
}

pub fn exchanges_that_fail_behind_gates_keep_no_other_waiting<D: Device>(device: &D) -> Result<(), Failure> {
    let meetings = [(); 4].map(|()| progress::Meeting::default());
    let [one, two, three, four] = &meetings;
    on_ranks(&[3], |comm| progress::an_exchange_fails_behind_a_gate(comm, device, [one, two]))?;
    let handed = progress::HandedGate::default();
    on_ranks(&[3], |comm| progress::exchanges_fail_at_once(comm, device, &handed, [three, four]))
}

pub fn large_messages_are_moved_by_a_copy<D: Device>(device: &D) -> Result<(), Failure> {
    on_ranks(drawn(&[2, 3]), |comm| staging::large_messages_are_moved(comm, device))
}

pub fn chunks_that_are_moved_have_a_row_in_the_time_line<D: Device>(device: &D) -> Result<(), Failure> {
    on_ranks(&[2], |comm| trace::moves_have_a_row(comm, device))
}

pub fn steps_in_a_row_are_right<D: Device>(device: &D) -> Result<(), Failure> {
    overlap::PATHS.into_iter().try_for_each(|options| {
        on_ranks(&[1, 2, 3, 4], |comm| overlap::steps_in_a_row(comm, device, options))
    })
}

pub fn a_call_that_fails_is_an_error_of_its_rank_and_hangs_no_other<D: Device>(
    device: &D,
) -> Result<(), Failure> {
    println!("{} calls failed in turn", faults::every_call_fails_once(device)?);
    Ok(())
}

fn on_ranks(
    counts: &[usize],
    test: impl Fn(&Communicator) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    counts.iter().try_for_each(|&ranks| Ok(run_ranks(ranks, |comm| test(&comm)).map(drop)?))
}
