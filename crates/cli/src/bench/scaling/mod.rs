//! `haloport bench scaling`: the messages and memory of thousands of simulated ranks.
//!
//! The set-up is real, the ranks are simulated: every rank runs the library's own set-up of a pattern and of an
//! exchange bound to fields. Read in this order:
//! - this file, and `args`, the command line;
//! - `cases`: the set-up of each rank;
//! - `simulation`: runs all ranks in one process, on their `transport`;
//! - `loggp`: the time of the messages on a network;
//! - `report`: the mean and the largest figures of all ranks, printed.

mod args;
mod cases;
mod loggp;
mod report;
mod simulation;
mod transport;

pub(crate) use args::ScalingArgs;

use crate::command::failure::Failure;
use crate::command::print::Report as _;
use cases::{blocks, mesh_parts, new_mesh_parts, new_parts, sums};
use report::{Report, Row};

/// Simulates all numbers of ranks, and prints the figures.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(args: &ScalingArgs) -> Result<(), Failure> {
    let mut report = Report::new(args);
    let [grid, summed, moved, mesh, mesh_named, mesh_summed, mesh_moved] = &mut report.series;
    let mut numbers = args.ranks.clone();
    numbers.sort_unstable();
    numbers.dedup();
    for ranks in numbers {
        tracing::info!(ranks, "simulating");
        let (blocks, axes) = blocks(args, ranks)?;
        grid.rows.push(Row::new(args, &blocks, &axes));
        summed.rows.push(Row::new(args, &sums(args, ranks)?, &[]));
        moved.rows.push(Row::new(args, &new_parts(args, ranks)?, &[]));
        let [found, named, added] = mesh_parts(args, ranks)?;
        mesh.rows.push(Row::new(args, &found, &[]));
        mesh_named.rows.push(Row::new(args, &named, &[]));
        mesh_summed.rows.push(Row::new(args, &added, &[]));
        mesh_moved.rows.push(Row::new(args, &new_mesh_parts(args, ranks)?, &[]));
    }
    report.print(args.json)
}
