//! The checks of `--verify`.

use haloport::device::Device;
use haloport::{AnyDevice, Communicator, run_ranks};
use haloport_mesh::Partition;

use super::carry::{Measured, in_process, some_steps};
use super::order::Rung;
use super::problem::Case;
use crate::command::failure::Failure;
use crate::jobs::common::checks::{Check, STEPS_AS_ON_CPU, as_on_cpu, on_rank_0};
use crate::jobs::common::progress::Progress;
use haloport_demos::common::numbers::{differing, largest_difference};

/// The numbers of ranks whose fields are compared.
const RANKS: [usize; 5] = [1, 2, 3, 4, 8];

/// The lowest order of convergence between the two finest meshes.
const ORDER: f64 = 1.8;

/// The checks of the run itself and of its errors on several meshes.
pub(super) fn of_the_run(case: &Case, measured: &Measured, ladder: &[Rung]) -> Vec<Check> {
    let mut checks =
        vec![Check::below("mass", "mass is conserved: largest relative change", measured.drift, 1e-12, "")];
    let what = "no value is negative: smallest value";
    if case.limited {
        checks.push(Check::at_least("positive", what, measured.extremes[0], -1e-15, ""));
    } else {
        let order = ladder.last().and_then(|rung| rung.order).map_or(f64::NAN, |order| order.l2);
        checks.push(Check::at_least(
            "order",
            "order of the error in l2 between the two finest meshes",
            order,
            ORDER,
            "",
        ));
    }
    checks
}

/// Runs on several numbers of ranks, as threads, each with two partitions, and compares their fields with `field`, the
/// job's, after all steps.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn same_fields_on_any_ranks<D: Device>(
    device: &D,
    case: &Case,
    field: &[f64],
    progress: &Progress,
) -> Result<Check, Failure> {
    let mut different = 0;
    for ranks in RANKS {
        let mut partitions = vec![case.by_curve(ranks)?];
        if ranks > 1 {
            partitions.push(case.dealt(ranks)?);
        }
        for (partition, how) in partitions.iter().zip(["along a curve", "dealt out in turns"]) {
            progress.say(format!("the field of {ranks} ranks, cells {how}"));
            different += differing(&in_process(device, case, partition)?, field);
        }
    }
    let ranks: Vec<String> = RANKS.iter().map(ToString::to_string).collect();
    Ok(Check::same_fields(
        different,
        format!(
            "fields on {} ranks, cells along a curve and dealt out in turns, are bit for bit the job's after all \
             steps: values that differ",
            ranks.join(", ")
        ),
    ))
}

/// Collective: rank 0 runs on one rank alone, and compares that field with `field`, which it has of all ranks.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn same_field_as_one_rank<D: Device>(
    comm: &Communicator,
    device: &D,
    case: &Case,
    field: &[f64],
) -> Result<Check, Failure> {
    let alone = on_rank_0(comm, || in_process(device, case, &case.by_curve(1)?))?;
    let different = alone.map_or(0, |alone| differing(&alone, field));
    Ok(Check::same_fields(
        different,
        format!(
            "the field on {} ranks ({}) is bit for bit that on 1 rank after all steps: values that differ",
            comm.size(),
            comm.info().name
        ),
    ))
}

/// Collective: compares the field of these ranks on this device with that of one rank on the CPU backend.
///
/// # Errors
/// [`Failure::Run`], also if this build has no CPU backend.
pub(super) fn same_field_as_on_cpu<D: Device>(
    comm: &Communicator,
    device: &D,
    case: &Case,
    partition: &Partition,
) -> Result<Check, Failure> {
    let here = some_steps(comm, device, case, partition, STEPS_AS_ON_CPU)?;
    let on_cpu = |cpu: &AnyDevice| {
        let whole = case.by_curve(1)?;
        let fields = run_ranks(1, |comm| Ok(some_steps(&comm, cpu, case, &whole, STEPS_AS_ON_CPU)?))?;
        Ok(fields.into_iter().next().flatten().unwrap_or_default())
    };
    as_on_cpu(comm, here, on_cpu, |here, on_cpu| largest_difference(here, on_cpu))
}
