//! The steps of the program in a time line.

use std::collections::{BTreeMap, HashMap, HashSet};

use haloport::trace::Phase;

use super::read::{RankLine, Span};

/// A host call belongs to the steps if at least one in this many steps makes it.
const SELDOM: usize = 4;

/// The name of a span that an exchange makes only if a neighbour is late.
const LATE: &str = "pack for a late neighbour";

/// The steps of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Steps {
    /// From the start of each step to that of the next, in order.
    pub(super) windows: Vec<(u64, u64)>,
    /// The number of steps left out.
    pub(super) left_out: usize,
}

/// Finds the steps of a rank: from one start of the most frequent exchange to the next.
///
/// A step is left out if the host waits in calls that fewer than a quarter of the steps make, such as those that
/// gather a field for a picture. Returns `None` if no exchange was made twice.
pub(super) fn steps(line: &RankLine) -> Option<Steps> {
    let begins = begins(line)?;
    let windows: Vec<(u64, u64)> = begins.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let mut calls: Vec<HashSet<&str>> = vec![HashSet::new(); windows.len()];
    for span in line.spans.iter().filter(|span| span.phase == Phase::Waiting && span.exchange.is_none()) {
        let after = begins.partition_point(|&begin| begin <= span.begin);
        if let Some(calls) = after.checked_sub(1).and_then(|step| calls.get_mut(step)) {
            calls.insert(&span.name);
        }
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    calls.iter().flatten().for_each(|name| *counts.entry(name).or_default() += 1);
    let is_usual = |calls: &HashSet<&str>| calls.iter().all(|name| SELDOM * counts[name] >= windows.len());
    let usual: Vec<(u64, u64)> =
        windows.iter().zip(&calls).filter(|(_, calls)| is_usual(calls)).map(|(window, _)| *window).collect();
    Some(Steps { left_out: windows.len() - usual.len(), windows: usual })
}

/// The starts of the most frequent exchange; `None` if it was made once.
fn begins(line: &RankLine) -> Option<Vec<u64>> {
    let mut exchanges: BTreeMap<u32, HashMap<Kind<'_>, Vec<u64>>> = BTreeMap::new();
    for span in line.spans.iter().filter(|span| span.phase != Phase::Waiting && span.name != LATE) {
        if let Some(exchange) = span.exchange {
            let kinds = exchanges.entry(exchange).or_default();
            kinds.entry(kind(line, span)).or_default().push(span.begin);
        }
    }
    // The first span that an exchange makes exactly once each time.
    let once = |kinds: HashMap<Kind<'_>, Vec<u64>>| {
        kinds.into_values().min_by_key(|begins| (begins.len(), begins.first().copied()))
    };
    let all = exchanges.into_values().filter_map(once);
    // Of equally frequent exchanges, the first.
    let mut most = all.reduce(|most, other| if other.len() > most.len() { other } else { most })?;
    most.sort_unstable();
    most.dedup();
    (most.len() > 1).then_some(most)
}

/// A span that recurs in each exchange: its row, phase and name.
type Kind<'l> = (&'l str, Phase, &'l str);

fn kind<'l>(line: &'l RankLine, span: &'l Span) -> Kind<'l> {
    let row = line.rows.get(&span.row).map_or("", String::as_str);
    // Overlapping spans are shown in several rows: `to rank 1`, `to rank 1 (2)`.
    let row = row.rsplit_once(" (").filter(|(_, rest)| rest.ends_with(')')).map_or(row, |(row, _)| row);
    (row, span.phase, &span.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(phase: Phase, name: &str, exchange: Option<u32>, begin: u64) -> Span {
        let (name, end) = (name.to_owned(), begin + 5);
        Span { row: 0, phase, name, exchange, begin, end, bytes: 0, failed: false }
    }

    #[test]
    fn steps_go_from_one_exchange_to_the_next_without_those_in_which_a_picture_is_drawn() {
        let mut line = RankLine::default();
        line.spans.push(span(Phase::Waiting, "all_gather", None, 3));
        for step in 0..10 {
            let begin = 1000 + 100 * step;
            line.spans.push(span(Phase::Packing, "pack", Some(1), begin));
            // Two messages each time; another exchange is made less often.
            line.spans.push(span(Phase::Wire, "message", Some(1), begin + 10));
            line.spans.push(span(Phase::Wire, "message", Some(1), begin + 20));
            if step % 3 == 0 {
                line.spans.push(span(Phase::Packing, "pack", Some(0), begin + 30));
            }
            line.spans.push(span(Phase::Waiting, "all_reduce", None, begin + 50));
            if step == 4 {
                line.spans.push(span(Phase::Waiting, "barrier", None, begin + 60));
                line.spans.push(span(Phase::Packing, LATE, Some(1), begin + 15));
            }
        }
        let steps = steps(&line).unwrap();
        let expected: Vec<(u64, u64)> =
            [0, 1, 2, 3, 5, 6, 7, 8].map(|step| (1000 + 100 * step, 1100 + 100 * step)).to_vec();
        assert_eq!((steps.windows, steps.left_out), (expected, 1));
    }

    #[test]
    fn what_is_exchanged_once_has_no_steps() {
        let mut line = RankLine::default();
        assert_eq!(super::steps(&line), None);
        line.spans.push(span(Phase::Packing, "pack", Some(0), 5));
        line.spans.push(span(Phase::Wire, "message", Some(1), 5));
        assert_eq!(super::steps(&line), None);
    }
}
