//! The part of a time line that is drawn.

use std::ops::Range;

use super::read::TimeLine;
use super::steps::begins;
use crate::command::failure::Failure;

/// The default number of steps drawn.
const STEPS: usize = 3;

/// The nanoseconds that are drawn: from `from` to `to` milliseconds or, if neither is given, some steps in the middle.
///
/// # Errors
/// [`Failure::BadInput`] if there are no spans, or the window has no length.
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

/// Some steps in the middle of the time line, of the first rank that has steps.
fn middle(line: &TimeLine) -> Option<Range<u64>> {
    let begins = line.ranks.values().find_map(begins)?;
    let first = (begins.len() - 1).saturating_sub(STEPS) / 2;
    let last = (first + STEPS).min(begins.len() - 1);
    Some(begins[first]..begins[last])
}
