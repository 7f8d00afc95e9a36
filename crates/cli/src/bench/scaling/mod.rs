//! `haloport bench scaling`: the messages and memory of thousands of simulated ranks.
//!
//! The set-up is real, the ranks are simulated: every rank runs the library's own set-up of a pattern and of an
//! exchange bound to fields. Read in this order:
//! - this file, and `args`, the command line;
//! - `cases`: the set-up of each rank;
//! - `simulation`: runs all ranks in one process, on their `transport`;
//! - `loggp`: the time of the messages on a network;
//! - `report`: the mean and the largest figures of all ranks, printed, and `plot`: their growth, drawn.

mod args;
mod cases;
mod loggp;
mod plot;
mod report;
mod simulation;
mod transport;

pub(crate) use args::ScalingArgs;

use crate::command::endings::PictureFile;
use crate::command::failure::Failure;
use crate::command::output;
use crate::command::print::Report as _;
use cases::{Blocks, MeshParts};
use haloport_demos::drawing::Plot as _;
use plot::Growth;
use report::{Report, Row, Series};

/// Simulates all numbers of ranks, and prints the figures.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(args: &ScalingArgs) -> Result<(), Failure> {
    if let Some(PictureFile { path, .. }) = &args.out {
        output::check(path).map_err(|error| {
            let path = path.display();
            Failure::BadInput(format!("--out: expected a file that can be written, found {path}: {error}"))
        })?;
    }
    let mut series = Series::all(args);
    let [grid, mesh, mesh_named] = &mut series;
    let mut numbers = args.ranks.clone();
    numbers.sort_unstable();
    numbers.dedup();
    for ranks in numbers {
        tracing::info!(ranks, "simulating");
        let blocks = Blocks::new(args, ranks)?;
        grid.rows.push(Row::new(args, &blocks.costs()?, Some(&blocks.axis_after_axis())));
        let parts = MeshParts::new(args, ranks)?;
        mesh.rows.push(Row::new(args, &parts.costs(false)?, None));
        mesh_named.rows.push(Row::new(args, &parts.costs(true)?, None));
    }
    if let Some(PictureFile { path, format }) = &args.out {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::Run(format!("--out: cannot write {}: {error}", path.display()))
        };
        let picture = Growth(&series).file(*format).map_err(|error| failed(&error))?;
        output::write(path, &picture).map_err(|error| failed(&error))?;
    }
    Report::new(args, &series).print(args.json)
}
