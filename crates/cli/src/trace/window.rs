//! Which part of a time line is drawn.

use std::collections::HashMap;
use std::ops::Range;

use haloport::trace::Phase;

use super::read::{RankLine, Span, TimeLine};
use crate::failure::Failure;

/// So many steps are drawn unless told otherwise.
const STEPS: usize = 3;

/// The nanoseconds that are drawn: from `from` to `to` milliseconds, or, where neither is given, some steps in the middle.
///
/// # Errors
/// [`Failure::BadInput`] for a time line without spans, and for a window without length.
pub(super) fn window(line: &TimeLine, from: Option<f64>, to: Option<f64>) -> Result<Range<u64>, Failure> {
    let end = line.ranks.values().flat_map(|line| &line.spans).map(|span| span.end).max();
    let end = end.ok_or_else(|| Failure::BadInput("the time line has no spans".into()))?;
    let nanoseconds = |milliseconds: f64| (1e6 * milliseconds).round() as u64;
    let window = match (from, to) {
        (None, None) => middle(line).unwrap_or(0..end),
        (from, to) => from.map_or(0, nanoseconds)..to.map_or(end, nanoseconds),
    };
    if window.start >= window.end {
        let [from, to] = [window.start, window.end].map(|at| at as f64 / 1e6);
        let found = format!("--from, --to: expected a begin before the end, found {from} ms to {to} ms");
        return Err(Failure::BadInput(format!("{found}; the time line has {} ms", end as f64 / 1e6)));
    }
    Ok(window)
}

/// Some steps in the middle of the time line of the first rank that has steps: from the begin of what an exchange does
/// first to the same some exchanges later.
fn middle(line: &TimeLine) -> Option<Range<u64>> {
    let begins = line.ranks.values().find_map(steps)?;
    let first = (begins.len() - 1).saturating_sub(STEPS) / 2;
    let last = (first + STEPS).min(begins.len() - 1);
    Some(begins[first]..begins[last])
}

/// When the exchange that was made most often began; none where that was once.
fn steps(line: &RankLine) -> Option<Vec<u64>> {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    let moving = || line.spans.iter().filter(|span| span.phase != Phase::Waiting);
    for exchange in moving().filter_map(|span| span.exchange) {
        *counts.entry(exchange).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|&(exchange, count)| (count, std::cmp::Reverse(exchange)));
    let (exchange, _) = most?;
    let mut of_it = moving().filter(|span| span.exchange == Some(exchange)).peekable();
    let first: &Span = of_it.peek()?;
    let key = (first.row, first.phase, first.name.as_str());
    let begins: Vec<u64> = of_it
        .filter(|span| (span.row, span.phase, span.name.as_str()) == key)
        .map(|span| span.begin)
        .collect();
    (begins.len() > 1).then_some(begins)
}
