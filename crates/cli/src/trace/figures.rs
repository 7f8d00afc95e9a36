//! The figures of a time line's steps. Times are microseconds.

use std::collections::{BTreeMap, BTreeSet};

use haloport::trace::Phase;
use serde::Serialize;

use super::intervals::Intervals;
use super::read::{RankLine, Span, TimeLine};
use super::steps::{Steps, steps};

/// The figures of a time line: the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    /// Over all steps of all ranks; null if no exchange was made twice: all figures are then of the whole time line.
    pub(super) steps: Option<OfSteps>,
    /// From the earliest start to the latest end on any rank, including what the other figures leave out.
    pub(super) total_us: f64,
    /// Sums over the ranks.
    #[serde(flatten)]
    pub(super) all: Figures,
    /// By name, over all steps of all ranks.
    pub(super) kernels: BTreeMap<String, Runs>,
    pub(super) ranks: Vec<RankFigures>,
}

/// The steps of a rank, or of all.
#[derive(Debug, Serialize)]
pub(super) struct OfSteps {
    pub(super) count: usize,
    /// Left-out steps: those in which the host makes rare calls.
    pub(super) left_out: usize,
    /// The duration of a step.
    pub(super) length_us: Spread,
    /// The time of a step in which cells are packed, under way, unpacked or waited for while no kernel of the rank
    /// runs.
    pub(super) exposed_us: Spread,
}

#[derive(Debug, Serialize)]
pub(super) struct RankFigures {
    pub(super) rank: usize,
    pub(super) steps: Option<OfSteps>,
    #[serde(flatten)]
    pub(super) figures: Figures,
}

/// The smallest, the median and the largest of several times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) max: f64,
}

/// The runs of a kernel.
#[derive(Debug, Serialize)]
pub(super) struct Runs {
    pub(super) count: usize,
    pub(super) total_us: f64,
    pub(super) time_us: Spread,
}

/// The figures of a rank, or of all, in their steps.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    pub(super) phases: BTreeMap<Phase, OfPhase>,
    /// The time in which cells were packed, under way or unpacked.
    pub(super) communication_us: f64,
    /// Of this, the time in which a kernel of the same rank ran.
    pub(super) hidden_us: f64,
    /// The share of the communication that was hidden; `None` if there was no communication.
    pub(super) hidden: Option<f64>,
    /// The time in which the host waited.
    pub(super) blocked_us: f64,
    /// The same by the name of the call that waited.
    pub(super) blocked_in_us: BTreeMap<String, f64>,
    /// Spans that the file lacks, since there was no room for them.
    pub(super) dropped: u64,
    /// Spans that ended with an error, also outside of steps.
    pub(super) failed: usize,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct OfPhase {
    /// Spans that began in steps.
    pub(super) count: usize,
    /// The time in which at least one span of it was open.
    pub(super) time_us: f64,
    pub(super) bytes: u64,
}

/// A rank, its steps, and the time that they cover.
struct Rank<'l> {
    number: usize,
    line: &'l RankLine,
    steps: Option<Steps>,
    inside: Intervals,
}

impl Summary {
    pub(super) fn of(line: &TimeLine) -> Summary {
        let spans = || line.ranks.values().flat_map(|line| &line.spans);
        let first = spans().map(|span| span.begin).min().unwrap_or(0);
        let last = spans().map(|span| span.end).max().unwrap_or(first);
        let found: Vec<Option<Steps>> = line.ranks.values().map(steps).collect();
        // A rank that exchanges with no other has the steps of the first rank that does.
        let usual = found.iter().flatten().next();
        let rank = |((&number, line), steps): ((&usize, _), &Option<Steps>)| {
            let steps = steps.as_ref().or(usual).cloned();
            let windows = steps.as_ref().map_or(vec![(first, last + 1)], |steps| steps.windows.clone());
            Rank { number, line, steps, inside: Intervals::covering(windows) }
        };
        let ranks: Vec<Rank<'_>> = line.ranks.iter().zip(&found).map(rank).collect();
        let figures: Vec<RankFigures> = ranks.iter().map(Rank::figures).collect();
        Summary {
            steps: OfSteps::of(&ranks),
            total_us: microseconds(last - first),
            all: Figures::sum(&figures),
            kernels: kernels(&ranks),
            ranks: figures,
        }
    }
}

impl OfSteps {
    /// Over all steps of these ranks.
    fn of(ranks: &[Rank<'_>]) -> Option<OfSteps> {
        let steps = || ranks.iter().filter_map(|rank| rank.steps.as_ref());
        let lengths = steps().flat_map(|steps| &steps.windows).map(|(begin, end)| end - begin);
        let exposed = ranks.iter().flat_map(Rank::exposed);
        Some(OfSteps {
            count: steps().map(|steps| steps.windows.len()).sum(),
            left_out: steps().map(|steps| steps.left_out).sum(),
            length_us: Spread::of(lengths)?,
            exposed_us: Spread::of(exposed)?,
        })
    }
}

impl Spread {
    /// From nanoseconds; `None` if there are none.
    fn of(times: impl Iterator<Item = u64>) -> Option<Spread> {
        let mut times: Vec<u64> = times.collect();
        times.sort_unstable();
        let middle = times.len() / 2;
        let median = match times.len() % 2 {
            0 if middle > 0 => 0.5 * (microseconds(times[middle - 1]) + microseconds(times[middle])),
            _ => microseconds(*times.get(middle)?),
        };
        Some(Spread { min: microseconds(*times.first()?), median, max: microseconds(*times.last()?) })
    }
}

impl Rank<'_> {
    /// The time that spans cover together, also outside of steps.
    fn covered(&self, takes_part: impl Fn(&Span) -> bool) -> Intervals {
        let spans = self.line.spans.iter().filter(|span| takes_part(span));
        Intervals::covering(spans.map(|span| (span.begin, span.end)))
    }

    /// The same, in steps alone.
    fn in_steps(&self, takes_part: impl Fn(&Span) -> bool) -> Intervals {
        self.covered(takes_part).intersection(&self.inside)
    }

    /// The exposed wait of each step, nanoseconds.
    fn exposed(&self) -> Vec<u64> {
        let Some(Steps { windows, .. }) = &self.steps else { return Vec::new() };
        let exchange = self.covered(|span| {
            is_communication(span) || (span.phase == Phase::Waiting && span.exchange.is_some())
        });
        let hidden = exchange.intersection(&self.covered(|span| span.phase == Phase::Kernel));
        let [all, hidden] = [exchange, hidden].map(|intervals| intervals.lengths_in(windows));
        all.into_iter().zip(hidden).map(|(all, hidden)| all - hidden).collect()
    }

    fn figures(&self) -> RankFigures {
        let begun = || self.line.spans.iter().filter(|span| self.inside.contains(span.begin));
        let of_phase = |phase: Phase| {
            let spans = || begun().filter(move |span| span.phase == phase);
            let time_us = microseconds(self.in_steps(|span| span.phase == phase).length());
            (phase, OfPhase { count: spans().count(), time_us, bytes: spans().map(|span| span.bytes).sum() })
        };
        let communication = self.in_steps(is_communication);
        let kernels = self.covered(|span| span.phase == Phase::Kernel);
        let is_wait = |span: &Span| span.phase == Phase::Waiting;
        let names: BTreeSet<&str> =
            begun().filter(|span| is_wait(span)).map(|span| span.name.as_str()).collect();
        let blocked_in = |name: &str| self.in_steps(|span| is_wait(span) && span.name == name).length();
        let figures = Figures {
            phases: Phase::ALL.into_iter().map(of_phase).collect(),
            communication_us: microseconds(communication.length()),
            hidden_us: microseconds(communication.intersection(&kernels).length()),
            blocked_us: microseconds(self.in_steps(is_wait).length()),
            blocked_in_us: names
                .into_iter()
                .map(|name| (name.to_owned(), microseconds(blocked_in(name))))
                .collect(),
            dropped: self.line.dropped,
            failed: self.line.spans.iter().filter(|span| span.failed).count(),
            hidden: None,
        };
        let steps = OfSteps::of(std::slice::from_ref(self));
        RankFigures { rank: self.number, steps, figures: figures.with_part() }
    }
}

impl Figures {
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
}

/// The kernels that began in steps.
fn kernels(ranks: &[Rank<'_>]) -> BTreeMap<String, Runs> {
    let mut times: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for Rank { line, inside, .. } in ranks {
        for span in
            line.spans.iter().filter(|span| span.phase == Phase::Kernel && inside.contains(span.begin))
        {
            times.entry(&span.name).or_default().push(span.end - span.begin);
        }
    }
    let runs = |(name, times): (&str, Vec<u64>)| {
        let (count, total_us) = (times.len(), microseconds(times.iter().sum()));
        Some((name.to_owned(), Runs { count, total_us, time_us: Spread::of(times.into_iter())? }))
    };
    times.into_iter().filter_map(runs).collect()
}

fn is_communication(span: &Span) -> bool {
    matches!(span.phase, Phase::Packing | Phase::Wire | Phase::Unpacking)
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
