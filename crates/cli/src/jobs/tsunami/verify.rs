//! The checks of `--verify`.

use haloport::device::Device;
use haloport::{AnyDevice, Communicator, run_ranks};

use super::problem::Problem;
use crate::command::failure::Failure;
use crate::jobs::common::checks::{Check, STEPS_AS_ON_CPU, as_on_cpu, on_rank_0};
use crate::jobs::common::progress::Progress;
use haloport_demos::tsunami::model::decomposition::decompose;
use haloport_demos::tsunami::model::solver::{Solver, Whole};
use haloport_demos::tsunami::model::survey::Survey;
use haloport_demos::tsunami::model::uplift::{Uplift, initial_state};

/// The duration of the lake at rest, seconds.
const REST: f64 = 3600.0;

/// The number of steps after which fields are compared.
const STEPS: usize = 200;

/// The numbers of ranks whose fields are compared with those of one rank.
const RANKS: [usize; 4] = [2, 3, 4, 8];

/// Collective: checks that nothing moves without an uplift.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn lake_at_rest<D: Device>(
    comm: &Communicator,
    device: &D,
    problem: &Problem,
) -> Result<Check, Failure> {
    let mut solver = Solver::new(comm, device, &problem.relief, &problem.physics, problem.overlap)?;
    let calm = Uplift { height: 0.0, ..problem.uplift };
    solver.set_state(&initial_state(solver.block(), &problem.relief, &calm))?;
    let progress = Progress::simulated(REST, "lake at rest", problem.show_progress && comm.rank() == 0);
    let mut time = 0.0;
    while time < REST {
        time += solver.step(REST - time)?;
        progress.at(time);
    }
    let speed = solver
        .gather()?
        .map_or(0.0, |whole| Survey::new(&problem.area, &problem.physics, whole.state()).max_speed);
    Ok(Check::below(
        "rest",
        "a lake stays at rest: largest speed after 1 simulated hour",
        speed,
        1e-10,
        "m/s",
    ))
}

/// Computes fields on several numbers of ranks, as threads, and compares them with those of one rank.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn same_fields_on_any_ranks<D: Device>(
    device: &D,
    problem: &Problem,
    progress: &Progress,
) -> Result<Check, Failure> {
    let (nx, ny) = (problem.relief.nx(), problem.relief.ny());
    let served: Vec<usize> = RANKS.into_iter().filter(|&ranks| decompose(nx, ny, ranks).is_ok()).collect();
    progress.say("fields of 1 rank");
    let alone = in_process(1, device, problem, STEPS)?;
    let mut differing = 0;
    for &ranks in &served {
        progress.say(format!("fields of {ranks} ranks against those of 1"));
        differing += in_process(ranks, device, problem, STEPS)?.differing(&alone);
    }
    let served: Vec<String> = served.iter().map(ToString::to_string).collect();
    Ok(Check::same_fields(
        differing,
        format!(
            "fields on {} ranks are bit for bit those on 1 rank after {STEPS} steps on this grid: values that differ",
            served.join(", ")
        ),
    ))
}

/// Collective: compares the fields of these ranks with those of one rank, which rank 0 computes alone.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn same_fields_as_one_rank<D: Device>(
    comm: &Communicator,
    device: &D,
    problem: &Problem,
) -> Result<Check, Failure> {
    let together = some_steps(comm, device, problem, STEPS)?;
    let alone = on_rank_0(comm, || in_process(1, device, problem, STEPS))?;
    let differing = together.zip(alone).map_or(0, |(together, alone)| together.differing(&alone));
    Ok(Check::same_fields(
        differing,
        format!(
            "fields on {} ranks ({}) are bit for bit those on 1 rank after {STEPS} steps on this grid: values that \
             differ",
            comm.size(),
            comm.info().name
        ),
    ))
}

/// Collective: compares the fields of these ranks on this device with those of one rank on the CPU backend.
///
/// # Errors
/// [`Failure::Run`], also if this build has no CPU backend.
pub(super) fn same_fields_as_on_cpu<D: Device>(
    comm: &Communicator,
    device: &D,
    problem: &Problem,
) -> Result<Check, Failure> {
    let here = some_steps(comm, device, problem, STEPS_AS_ON_CPU)?;
    let on_cpu = |cpu: &AnyDevice| in_process(1, cpu, problem, STEPS_AS_ON_CPU);
    as_on_cpu(comm, here, on_cpu, Whole::largest_difference)
}

/// The fields after some steps, computed on threads.
fn in_process<D: Device>(
    ranks: usize,
    device: &D,
    problem: &Problem,
    steps: usize,
) -> Result<Whole, Failure> {
    let wholes = run_ranks(ranks, |comm| Ok(some_steps(&comm, device, problem, steps)?))?;
    wholes.into_iter().next().flatten().ok_or_else(|| Failure::Run("rank 0 has no fields".into()))
}

/// Collective: the fields after some steps, on rank 0.
fn some_steps<D: Device>(
    comm: &Communicator,
    device: &D,
    problem: &Problem,
    steps: usize,
) -> Result<Option<Whole>, Failure> {
    let mut solver = Solver::new(comm, device, &problem.relief, &problem.physics, problem.overlap)?;
    solver.set_state(&initial_state(solver.block(), &problem.relief, &problem.uplift))?;
    for _ in 0..steps {
        solver.step(f64::INFINITY)?;
    }
    Ok(solver.gather()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_differ_in_a_bit_are_counted() {
        let whole = |h: f64| Whole { h: vec![1.0, h], hu: vec![0.0], ..Whole::default() };
        assert_eq!(whole(2.0).differing(&whole(2.0)), 0);
        assert_eq!(whole(0.0).differing(&whole(-0.0)), 1);
        assert_eq!(whole(f64::NAN).differing(&whole(f64::NAN)), 0);
        assert_eq!(whole(2.0).differing(&Whole::default()), 3);
    }
}
