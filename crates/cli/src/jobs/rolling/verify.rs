//! The checks of `--verify`: the means are bit for bit those of one rank.

use haloport::{Communicator, run_ranks};

use super::job::{Results, compute};
use super::problem::Problem;
use crate::command::failure::Failure;
use crate::jobs::common::checks::{Check, on_rank_0};
use haloport_demos::common::numbers::differing;
use haloport_demos::rolling::model::table::Table;

/// The numbers of ranks whose means are compared with those of one rank.
const RANKS: [usize; 4] = [2, 3, 4, 8];

/// Computes means on several numbers of ranks, as threads, for the window and for one wider than the rows of any rank,
/// and compares them with those of one rank.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn on_any_ranks(problem: &Problem) -> Result<Vec<Check>, Failure> {
    windows(problem)
        .map(|(what, window)| {
            let alone = in_process(1, &problem.table, window)?;
            let (mut count, mut rounds) = (0, Vec::new());
            for ranks in RANKS {
                let done = in_process(ranks, &problem.table, window)?;
                count += differing(&done.means, &alone.means);
                rounds.push(done.rounds.to_string());
            }
            Ok(check(count, format!("2, 3, 4 and 8 ranks, {what} ({} rounds)", rounds.join(", "))))
        })
        .collect()
}

/// Collective: compares the means of these ranks with those of one rank, which rank 0 computes alone.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn as_on_one_rank(comm: &Communicator, problem: &Problem) -> Result<Vec<Check>, Failure> {
    windows(problem)
        .map(|(what, window)| {
            let done = compute(comm, &problem.table, window)?;
            let alone = on_rank_0(comm, || in_process(1, &problem.table, window))?;
            let differing = alone.map_or(0, |alone| differing(&done.means, &alone.means));
            let ranks = format!("{} ranks ({}), {what}", comm.size(), comm.info().name);
            Ok(check(differing, format!("{ranks} ({} rounds)", done.rounds)))
        })
        .collect()
}

/// The window, and one over half of the table.
fn windows(problem: &Problem) -> impl Iterator<Item = (&'static str, f64)> {
    let times = &problem.table.times;
    let span = times.last().zip(times.first()).map_or(0.0, |(last, first)| last - first);
    let half = Some(("a window of half the table", span / 2.0)).filter(|(_, half)| *half > 0.0);
    [("the window", problem.window)].into_iter().chain(half)
}

fn check(differing: usize, what: String) -> Check {
    Check::same_fields(
        differing,
        format!("means are bit for bit those on 1 rank, on {what}: values that differ"),
    )
}

/// The means, computed on threads.
fn in_process(ranks: usize, table: &Table, window: f64) -> Result<Results, Failure> {
    let done = run_ranks(ranks, |comm| Ok(compute(&comm, table, window)?))?;
    done.into_iter().next().ok_or_else(|| Failure::Run("rank 0 has no means".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_that_differ_in_a_bit_are_counted() {
        assert_eq!(differing(&[1.0, f64::NAN], &[1.0, f64::NAN]), 0);
        assert_eq!(differing(&[1.0, 0.0], &[1.0, -0.0]), 1);
        assert_eq!(differing(&[1.0, 2.0], &[1.0]), 1);
    }
}
