//! The run on one rank.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use haloport::line::Line;
use haloport::{Communicator, Reduction};

use super::problem::Problem;
use crate::command::failure::Failure;
use crate::jobs::common::folder::Folder;
use haloport_demos::rolling::chart::chart;
use haloport_demos::rolling::model::mean::rolling_mean;
use haloport_demos::rolling::model::table::Table;

/// The results of the run; on ranks other than 0, some are empty.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// The means of all rows, row by row.
    pub(super) means: Vec<f64>,
    pub(super) rounds: usize,
    /// Bytes passed on by all ranks.
    pub(super) bytes: u64,
    /// The smallest and the largest number of rows of a rank.
    pub(super) rows_of_rank: [u64; 2],
    /// Time of the means alone, of the slowest rank.
    pub(super) wall: Duration,
    pub(super) record: PathBuf,
    pub(super) picture: PathBuf,
}

/// Collective: computes the means, and gathers them on rank 0.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn compute(comm: &Communicator, table: &Table, window: f64) -> Result<Results, Failure> {
    let line = Line::even(comm, table.rows() as u64)?;
    comm.barrier()?;
    let began = Instant::now();
    let means = rolling_mean(&line, table, window)?;
    let own = line.mine().end - line.mine().start;
    let mut largest = [began.elapsed().as_nanos() as u64, own, !own];
    comm.all_reduce(&mut largest, Reduction::Max)?;
    let mut bytes = [means.bytes];
    comm.all_reduce(&mut bytes, Reduction::Sum)?;
    // In the order of the ranks, which is that of the rows.
    let gathered = comm.gather(0, &means.values)?.unwrap_or_default();
    let [nanoseconds, most, least] = largest;
    Ok(Results {
        means: gathered.concat(),
        rounds: means.rounds,
        bytes: bytes[0],
        rows_of_rank: [!least, most],
        wall: Duration::from_nanos(nanoseconds),
        ..Results::default()
    })
}

/// Collective: computes the means, and writes them and a picture on rank 0.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn run(
    comm: &Communicator,
    problem: &Problem,
    title: &str,
    folder: &Folder,
) -> Result<Results, Failure> {
    let mut done = compute(comm, &problem.table, problem.window)?;
    if comm.rank() == 0 {
        done.record = folder.write("rolling.csv", &record(&problem.table, &done.means)?)?;
        let picture = chart(&problem.table, &done.means, title);
        let picture = picture.map_err(|error| Failure::Run(format!("cannot encode the picture: {error}")))?;
        done.picture = folder.write("rolling.png", &picture)?;
    }
    Ok(done)
}

/// The means as CSV: the times as text of the table, and a column for each of the table's. A cell without a mean is
/// empty. Reading the numbers gives the same bits.
fn record(table: &Table, means: &[f64]) -> Result<Vec<u8>, Failure> {
    let refuse = |error: csv::Error| Failure::Run(format!("cannot write the means: {error}"));
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(std::iter::once(&table.time).chain(&table.names)).map_err(refuse)?;
    for (label, means) in table.labels.iter().zip(means.chunks_exact(table.names.len())) {
        let cells = means.iter().map(|mean| if mean.is_nan() { String::new() } else { mean.to_string() });
        csv.write_record(std::iter::once(label.clone()).chain(cells)).map_err(refuse)?;
    }
    csv.into_inner().map_err(|error| Failure::Run(format!("cannot write the means: {error}")))
}
