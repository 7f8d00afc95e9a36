//! The ways to do an exchange, and the one that was chosen.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::names::named;
use super::{DataPath, HaloOrder};

/// One way to do an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// How data gets to ranks that share memory; [`DataPath::Quickest`] for a way of its own for each field and
    /// neighbour, by the model.
    pub path: DataPath,
    /// In which order halos are filled; never [`HaloOrder::Quickest`].
    pub order: HaloOrder,
}

/// How a way was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// By the options, and by the model where these leave a choice.
    Model,
    /// By a [`Trial`](super::Trial).
    Trial,
    /// It was kept from an earlier trial.
    Kept,
}

named!(Origin {
    Model => "model",
    Trial => "trial",
    Kept => "kept",
});

/// What a trial found out about one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The candidate.
    pub candidate: Candidate,
    /// Microseconds per exchange: of each round the longest time of any rank, and of all rounds the median.
    pub median_us: f64,
    /// The number of rounds; 0 for one that was run once more than to warm up, because time was short or it took far
    /// longer than others.
    pub rounds: usize,
}

/// How the exchange is done, and why: from [`Exchange::choice`](super::Exchange::choice), the same on every rank.
///
/// It can be written to a file with serde, and given to a later run by [`BindOptions::kept`](super::BindOptions::kept).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// What tells this exchange from others; `None` where nobody asked for a trial, nor for a choice that was kept.
    pub fingerprint: Option<String>,
    /// How it was chosen.
    pub origin: Origin,
    /// The way that is taken.
    pub chosen: Candidate,
    /// The way that the model would take.
    pub model: Candidate,
    /// What the trial found out, the model's candidate first; empty without a trial. Candidates that come to the same
    /// as another one, or that there was no time for, are not among them.
    pub measured: Vec<Measured>,
}

impl Choice {
    /// What was measured of a candidate.
    pub fn of(&self, candidate: Candidate) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.candidate == candidate)
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.path, self.order)
    }
}

/// One line, and a table of what was measured, if anything was.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chosen by {}: {}", self.origin, self.chosen)?;
        if self.measured.is_empty() {
            return Ok(());
        }
        write!(f, "\n\n  {:<10} {:<15} {:>12} {:>7}", "path", "order", "median, µs", "rounds")?;
        for Measured { candidate, median_us, rounds } in &self.measured {
            let Candidate { path, order } = candidate;
            write!(f, "\n  {path:<10} {order:<15} {median_us:>12.1} {rounds:>7}")?;
            let marks = [(*candidate == self.chosen, "chosen"), (*candidate == self.model, "the model's")];
            let marks: Vec<&str> = marks.into_iter().filter(|(is, _)| *is).map(|(_, mark)| mark).collect();
            if !marks.is_empty() {
                write!(f, "  {}", marks.join(", "))?;
            }
        }
        Ok(())
    }
}
