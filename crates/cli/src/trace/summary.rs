//! `haloport trace summary`: where the time went.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use haloport::trace::Phase;
use serde::Serialize;

use super::intervals::Intervals;
use super::read::{RankLine, Span, TimeLine, read};
use crate::failure::Failure;
use crate::print::{self, Report as _};

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

/// What a time line says: the object that `--json` prints. Times are microseconds.
#[derive(Debug, Serialize)]
struct Summary {
    /// From the first begin to the last end of all ranks.
    total_us: f64,
    /// Sums over the ranks.
    #[serde(flatten)]
    all: Figures,
    ranks: Vec<RankFigures>,
}

#[derive(Debug, Serialize)]
struct RankFigures {
    rank: usize,
    #[serde(flatten)]
    figures: Figures,
}

/// The figures of a rank, or of all.
#[derive(Debug, Default, Serialize)]
struct Figures {
    phases: BTreeMap<Phase, OfPhase>,
    /// The time in which something was packed, under way or unpacked.
    communication_us: f64,
    /// Of this, the time in which a kernel of the same rank ran.
    hidden_us: f64,
    /// The part of the communication that was hidden; none where nothing was communicated.
    hidden: Option<f64>,
    /// The time in which the host waited.
    blocked_us: f64,
    /// The same, by the names of the calls that it waited in.
    blocked_in_us: BTreeMap<String, f64>,
    /// Spans that the file lacks: there was no room for them.
    dropped: u64,
    /// Spans that ended because something had failed.
    failed: usize,
}

#[derive(Debug, Default, Serialize)]
struct OfPhase {
    count: usize,
    /// The time in which at least one span of it was going on.
    time_us: f64,
    bytes: u64,
}

/// Prints the summary.
///
/// # Errors
/// [`Failure::BadInput`] for what is no time line.
pub(super) fn run(args: &SummaryArgs) -> Result<(), Failure> {
    Summary::of(&read(&args.file)?).print(args.json)
}

impl Summary {
    fn of(line: &TimeLine) -> Summary {
        let spans = || line.ranks.values().flat_map(|line| &line.spans);
        let first = spans().map(|span| span.begin).min().unwrap_or(0);
        let last = spans().map(|span| span.end).max().unwrap_or(first);
        let of_rank = |(&rank, line): (&usize, &RankLine)| RankFigures { rank, figures: Figures::of(line) };
        let ranks: Vec<RankFigures> = line.ranks.iter().map(of_rank).collect();
        Summary { total_us: microseconds(last - first), all: Figures::sum(&ranks), ranks }
    }
}

impl Figures {
    fn of(line: &RankLine) -> Figures {
        let covered = |takes_part: &dyn Fn(&Span) -> bool| {
            let spans = line.spans.iter().filter(|span| takes_part(span));
            Intervals::covering(spans.map(|span| (span.begin, span.end)))
        };
        let of_phase = |phase: Phase| {
            let spans = || line.spans.iter().filter(move |span| span.phase == phase);
            let time_us = microseconds(covered(&|span| span.phase == phase).length());
            (phase, OfPhase { count: spans().count(), time_us, bytes: spans().map(|span| span.bytes).sum() })
        };
        let communication =
            covered(&|span| matches!(span.phase, Phase::Packing | Phase::Wire | Phase::Unpacking));
        let kernels = covered(&|span| span.phase == Phase::Kernel);
        let is_wait = |span: &Span| span.phase == Phase::Waiting;
        let names: BTreeSet<&str> =
            line.spans.iter().filter(|span| is_wait(span)).map(|span| span.name.as_str()).collect();
        let blocked_in = |name: &str| covered(&|span| is_wait(span) && span.name == name).length();
        Figures {
            phases: Phase::ALL.into_iter().map(of_phase).collect(),
            communication_us: microseconds(communication.length()),
            hidden_us: microseconds(communication.intersection(&kernels).length()),
            blocked_us: microseconds(covered(&is_wait).length()),
            blocked_in_us: names
                .into_iter()
                .map(|name| (name.to_owned(), microseconds(blocked_in(name))))
                .collect(),
            dropped: line.dropped,
            failed: line.spans.iter().filter(|span| span.failed).count(),
            hidden: None,
        }
        .with_part()
    }

    fn sum(ranks: &[RankFigures]) -> Figures {
        let mut sum = Figures::default();
        for RankFigures { figures, .. } in ranks {
            for (&phase, one) in &figures.phases {
                let all = sum.phases.entry(phase).or_default();
                all.count += one.count;
                all.time_us += one.time_us;
                all.bytes += one.bytes;
            }
            sum.communication_us += figures.communication_us;
            sum.hidden_us += figures.hidden_us;
            sum.blocked_us += figures.blocked_us;
            for (name, microseconds) in &figures.blocked_in_us {
                *sum.blocked_in_us.entry(name.clone()).or_default() += microseconds;
            }
            sum.dropped += figures.dropped;
            sum.failed += figures.failed;
        }
        sum.with_part()
    }

    fn with_part(mut self) -> Figures {
        self.hidden = (self.communication_us > 0.0).then(|| self.hidden_us / self.communication_us);
        self
    }

    fn write_communication(&self, out: &mut impl Write) -> io::Result<()> {
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

impl print::Report for Summary {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let plural = if self.ranks.len() == 1 { "" } else { "s" };
        writeln!(
            out,
            "{} rank{plural}, {}; times are summed over the ranks\n",
            self.ranks.len(),
            time(self.total_us)
        )?;
        writeln!(out, "{:<12}{:>10}{:>14}{:>14}", "", "spans", "time", "bytes")?;
        for (phase, OfPhase { count, time_us, bytes }) in &self.all.phases {
            writeln!(out, "{phase:<12}{count:>10}{:>14}{bytes:>14}", time(*time_us))?;
        }
        writeln!(out)?;
        self.all.write_communication(out)?;
        for RankFigures { rank, figures } in self.ranks.iter().filter(|_| self.ranks.len() > 1) {
            write!(out, "rank {rank}: ")?;
            figures.write_communication(out)?;
        }
        if !self.all.blocked_in_us.is_empty() {
            let of_call = |(name, us): (&String, &f64)| format!("{name} {}", time(*us));
            let calls: Vec<String> = self.all.blocked_in_us.iter().map(of_call).collect();
            writeln!(out, "the host waited in: {}", calls.join(", "))?;
        }
        if self.all.failed > 0 {
            writeln!(out, "spans that ended because something had failed: {}", self.all.failed)?;
        }
        if self.all.dropped > 0 {
            writeln!(out, "incomplete: spans that were dropped, for want of room: {}", self.all.dropped)?;
        }
        Ok(())
    }
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// A time in the unit that suits it.
fn time(microseconds: f64) -> String {
    match microseconds {
        short if short < 1e3 => format!("{short:.1} µs"),
        middle if middle < 1e6 => format!("{:.2} ms", middle / 1e3),
        long => format!("{:.3} s", long / 1e6),
    }
}
