//! `haloport trace summary`: how the time of a step was spent.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use super::figures::{Figures, OfPhase, OfSteps, RankFigures, Runs, Summary};
use super::read::read;
use crate::command::failure::Failure;
use crate::command::print::{self, Report as _};
use crate::command::text::counted;

const EXAMPLES: &str = "\
Examples:
  haloport trace summary t.json
  haloport trace summary t.json --json";

/// Arguments of `haloport trace summary`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SummaryArgs {
    /// A file that a command has written with --trace
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the summary.
///
/// # Errors
/// [`Failure::BadInput`] if the file is no time line.
pub(super) fn run(args: &SummaryArgs) -> Result<(), Failure> {
    Summary::of(&read(&args.file)?).print(args.json)
}

impl print::Report for Summary {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let ranks = counted(self.ranks.len(), "rank");
        match &self.steps {
            Some(steps) => {
                steps.write(out)?;
                writeln!(
                    out,
                    "{ranks}, {} steps together; set-up, drawing and all else outside of steps is left out",
                    steps.count
                )?;
            }
            None => {
                writeln!(
                    out,
                    "{ranks}; no exchange was made twice, so there are no steps: figures are of all"
                )?;
            }
        }
        writeln!(out, "the time line has {}; times below are summed over the ranks\n", time(self.total_us))?;
        writeln!(out, "{:<18}{:>10}{:>14}{:>14}", "phase", "spans", "time", "bytes")?;
        for (phase, OfPhase { count, time_us, bytes }) in &self.all.phases {
            writeln!(out, "{phase:<18}{count:>10}{:>14}{bytes:>14}", time(*time_us))?;
        }
        self.write_kernels(out)?;
        writeln!(out)?;
        self.all.write(out)?;
        for RankFigures { rank, steps, figures } in self.ranks.iter().filter(|_| self.ranks.len() > 1) {
            write!(out, "rank {rank}: ")?;
            if let Some(OfSteps { exposed_us, .. }) = steps {
                write!(out, "exposed wait per step {}; ", time(exposed_us.median))?;
            }
            figures.write(out)?;
        }
        if !self.all.blocked_in_us.is_empty() {
            let of_call = |(name, us): (&String, &f64)| format!("{name} {}", time(*us));
            let calls: Vec<String> = self.all.blocked_in_us.iter().map(of_call).collect();
            writeln!(out, "the host waited in: {}", calls.join(", "))?;
        }
        if self.all.failed > 0 {
            writeln!(out, "spans that ended with an error: {}", self.all.failed)?;
        }
        if self.all.dropped > 0 {
            writeln!(out, "incomplete: spans dropped for lack of room: {}", self.all.dropped)?;
        }
        Ok(())
    }
}

impl Summary {
    fn write_kernels(&self, out: &mut impl Write) -> io::Result<()> {
        if self.kernels.is_empty() {
            return Ok(());
        }
        let [min, median, max, total] = ["min", "median", "max", "total"];
        writeln!(out, "\n{:<18}{:>10}{min:>14}{median:>14}{max:>14}{total:>14}", "kernel", "runs")?;
        for (name, Runs { count, total_us, time_us }) in &self.kernels {
            let [min, median, max, total] = [time_us.min, time_us.median, time_us.max, *total_us].map(time);
            writeln!(out, "{name:<18}{count:>10}{min:>14}{median:>14}{max:>14}{total:>14}")?;
        }
        Ok(())
    }
}

impl OfSteps {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let OfSteps { exposed_us, length_us, .. } = self;
        writeln!(
            out,
            "exposed wait per step: {} (median; {} to {}), {:.0} % of a step of {}",
            time(exposed_us.median),
            time(exposed_us.min),
            time(exposed_us.max),
            100.0 * exposed_us.median / length_us.median,
            time(length_us.median)
        )
    }
}

impl Figures {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Figures { communication_us, hidden_us, hidden, blocked_us, .. } = self;
        match hidden {
            Some(part) => write!(
                out,
                "communication {}, of which {} ({:.0} %) hidden behind kernels",
                time(*communication_us),
                time(*hidden_us),
                100.0 * part
            )?,
            None => write!(out, "no communication")?,
        }
        writeln!(out, "; the host was blocked for {}", time(*blocked_us))
    }
}

/// A time in a unit that gives few digits.
fn time(microseconds: f64) -> String {
    match microseconds {
        short if short < 1e3 => format!("{short:.1} µs"),
        middle if middle < 1e6 => format!("{:.2} ms", middle / 1e3),
        long => format!("{:.3} s", long / 1e6),
    }
}
