//! The printed results.

use std::io::{self, Write};
use std::path::PathBuf;

use haloport::Communicator;
use serde::Serialize;

use super::args::RollingArgs;
use super::job::Results;
use super::problem::Problem;
use crate::command::print;
use crate::command::text::{bytes, counted};
use crate::jobs::common::checks::{Check, write_checks};

/// The results of a run: the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The file of the table; null for the shipped one.
    table: Option<PathBuf>,
    rows: usize,
    time: String,
    first: String,
    last: String,
    columns: Vec<Column>,
    window: String,
    ranks: usize,
    transport: &'static str,
    /// The smallest and the largest number of rows of a rank.
    rows_of_rank: [u64; 2],
    rounds: usize,
    /// Passed on by all ranks.
    bytes_passed: u64,
    wall_s: f64,
    out: PathBuf,
    record: PathBuf,
    picture: PathBuf,
    /// Null without `--verify`.
    pub(super) checks: Option<Vec<Check>>,
    /// Whether all ranks are threads of this process.
    #[serde(skip)]
    pub(super) in_process: bool,
}

/// One column of values.
#[derive(Debug, Serialize)]
struct Column {
    name: String,
    /// Cells without a value, which means leave out.
    missing: usize,
    /// Rows without a mean, since their windows hold no value.
    without_mean: usize,
    /// The mean of the last row.
    last_mean: Option<f64>,
}

impl Report {
    pub(super) fn new(
        args: &RollingArgs,
        problem: &Problem,
        comm: &Communicator,
        done: Results,
        in_process: bool,
        checks: Option<Vec<Check>>,
    ) -> Report {
        let table = &problem.table;
        let label = |label: Option<&String>| label.cloned().unwrap_or_default();
        let column = |(place, name): (usize, &String)| {
            let of = |values: &[f64]| -> Vec<f64> {
                values.iter().skip(place).step_by(table.names.len()).copied().collect()
            };
            let nothing = |values: &[f64]| values.iter().filter(|value| value.is_nan()).count();
            let means = of(&done.means);
            Column {
                name: name.clone(),
                missing: nothing(&of(&table.values)),
                without_mean: nothing(&means),
                last_mean: means.last().copied().filter(|mean| !mean.is_nan()),
            }
        };
        Report {
            table: args.table.clone(),
            rows: table.rows(),
            time: table.time.clone(),
            first: label(table.labels.first()),
            last: label(table.labels.last()),
            columns: table.names.iter().enumerate().map(column).collect(),
            window: args.window.to_string(),
            ranks: comm.size(),
            transport: comm.info().name,
            rows_of_rank: done.rows_of_rank,
            rounds: done.rounds,
            bytes_passed: done.bytes,
            wall_s: done.wall.as_secs_f64(),
            out: args.out.clone(),
            record: done.record,
            picture: done.picture,
            checks,
            in_process,
        }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let place = self.table.as_ref().map_or_else(
            || "shares and indices, as Yahoo Finance had them".to_owned(),
            |path| path.display().to_string(),
        );
        writeln!(out, "Rolling mean over {} of {place}\n", self.window)?;
        let mut line = |name: &str, text: String| writeln!(out, "  {name:<14}{text}");
        line("rows", format!("{}, {} {} to {}", self.rows, self.time, self.first, self.last))?;
        let [least, most] = self.rows_of_rank;
        let each = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        line("ranks", format!("{} ({}), {each} rows each", self.ranks, self.transport))?;
        let rounds = counted(self.rounds, "round");
        line("passed on", format!("{} in {rounds}", bytes(self.bytes_passed)))?;
        line("time", format!("{:.2} ms", 1e3 * self.wall_s))?;
        let missing: usize = self.columns.iter().map(|column| column.missing).sum();
        line(
            "missing",
            match missing {
                0 => "no values".into(),
                _ => format!("{missing} of {} values, which are left out", self.rows * self.columns.len()),
            },
        )?;
        writeln!(out, "\n  {:<18}{:>10}{:>14}{:>16}", "column", "missing", "without mean", "last mean")?;
        for Column { name, missing, without_mean, last_mean } in &self.columns {
            let last = last_mean.map_or("-".into(), |mean| format!("{mean:.6}"));
            writeln!(out, "  {name:<18}{missing:>10}{without_mean:>14}{last:>16}")?;
        }
        writeln!(out)?;
        let mut line = |name: &str, text: String| writeln!(out, "  {name:<14}{text}");
        line("means", self.record.display().to_string())?;
        line("picture", self.picture.display().to_string())?;
        self.checks.as_deref().map_or(Ok(()), |checks| write_checks(out, checks))
    }
}
