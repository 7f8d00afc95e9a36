//! The checks of `--verify`.

use haloport::{Communicator, run_ranks};
use haloport_demos::common::numbers::largest_difference;

use super::ladder::{Rung, solve};
use super::problem::Problem;
use crate::command::failure::Failure;
use crate::jobs::common::checks::{Check, on_rank_0};

/// The numbers of ranks whose solutions are compared.
const RANKS: [usize; 5] = [1, 2, 3, 4, 8];

/// The lowest order of convergence between the two finest meshes. In theory it is 2.
const ORDER: f64 = 1.8;

/// The largest difference of solutions, as a part of the largest value: their residuals are 1e-10.
const SAME: f64 = 1e-8;

/// Collective: checks the order of convergence, and compares the solution of these ranks on the finest mesh, whose `values` rank 0
/// has, with those of threads in its process.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn checks(
    comm: &Communicator,
    problem: &Problem,
    rungs: &[Rung],
    values: Option<Vec<f64>>,
) -> Result<Vec<Check>, Failure> {
    let order = rungs.last().and_then(|rung| rung.order).unwrap_or(f64::NAN);
    let what = "order of the error in l2 between the two finest meshes";
    let mut checks = vec![Check::at_least("order", what, order, ORDER, "")];
    let largest = on_rank_0(comm, || on_any_ranks(problem, &values.unwrap_or_default()))?;
    let ranks = RANKS.map(|ranks| ranks.to_string()).join(", ");
    let what = format!(
        "solutions on {ranks} ranks are the job's: largest difference, as a part of the largest value"
    );
    checks.push(Check::below("ranks", &what, largest.unwrap_or(0.0), SAME, ""));
    Ok(checks)
}

/// The largest difference of solutions on several numbers of ranks from `values`.
fn on_any_ranks(problem: &Problem, values: &[f64]) -> Result<f64, Failure> {
    let mut largest = 0.0_f64;
    for ranks in RANKS {
        let solutions = run_ranks(ranks, |comm| {
            let Some((_, mesh)) = problem.meshes.last() else { return Ok(None) };
            let (poisson, solution) = solve(&comm, problem, mesh)?;
            poisson.gather(&solution)
        })?;
        let found = solutions.into_iter().next().flatten().unwrap_or_default();
        largest = largest.max(largest_difference(&found, values));
    }
    Ok(largest)
}
