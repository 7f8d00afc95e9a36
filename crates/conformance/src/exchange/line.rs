//! Random lines: every rank gathers a window around its own items.

use haloport_core::line::{NextRound, Payloads};
use haloport_core::{Communicator, Line, LineExchange};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{Failure, ensure};

/// Collective: intervals of random lengths, many of them empty, and random windows over several ranks or none. The case
/// is made from `number`.
///
/// # Errors
/// The first window that differs from the line, or the error of a call.
pub fn check(comm: &Communicator, number: u64) -> Result<(), Failure> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut random = StdRng::seed_from_u64(number);
    let lengths: Vec<usize> =
        (0..size).map(|_| if random.random_bool(0.3) { 0 } else { random.random_range(1..20) }).collect();
    let begins: Vec<usize> = (0..=size).map(|rank| lengths[..rank].iter().sum()).collect();
    let items: Vec<u8> = (0..begins[size]).map(|_| random.random()).collect();
    let line = Line::new(comm, begins[rank] as u64..begins[rank + 1] as u64)?;
    ensure!(line.items() == items.len() as u64, "case {number}: the line has {} items", line.items());
    let mut exchange = LineExchange::new(&line)?;
    for _ in 0..3 {
        let window = [0, random.random_range(0..10), random.random_range(0..100)][random.random_range(0..3)];
        let around = begins[rank].saturating_sub(window)..items.len().min(begins[rank + 1] + window);
        let before = begins[rank] - around.start;
        let after = around.end - begins[rank + 1];

        let own = items[begins[rank]..begins[rank + 1]].to_vec();
        let (mut left, mut right) = (Vec::<u8>::new(), Vec::<u8>::new());
        // A rank with items sends them first; afterwards each rank passes on what it gets.
        let mut first = Some(own.clone())
            .filter(|own| !own.is_empty())
            .map(|own| Payloads { left: Some(own.clone()), right: Some(own) });
        let mut begun = false;
        let rounds = exchange.rounds(|came| {
            if let Some(items) = &came.left {
                left.splice(..0, items.iter().copied());
            }
            right.extend(came.right.iter().flatten());
            let pass = if std::mem::replace(&mut begun, true) {
                Payloads { left: came.right, right: came.left }
            } else {
                first.take().unwrap_or_default()
            };
            NextRound { pass, enough: left.len() >= before && right.len() >= after }
        })?;
        let mut got = left.split_off(left.len() - before.min(left.len()));
        got.extend(own);
        got.extend(right.into_iter().take(after));
        ensure!(got == items[around], "case {number}, window {window}: the window holds other items");
        let expected = (0..size).map(|rank| reach(&begins, rank, window)).max().unwrap_or(0);
        ensure!(rounds == expected, "case {number}, window {window}: {rounds} rounds instead of {expected}");
    }
    Ok(())
}

/// The distance in ranks to the farthest item that a rank wants; ranks without items count.
fn reach(begins: &[usize], rank: usize, window: usize) -> usize {
    let ranks = begins.len() - 1;
    let (first, last) = (begins[rank].saturating_sub(window), begins[ranks].min(begins[rank + 1] + window));
    let owner = |item: usize| (0..ranks).find(|&rank| begins[rank] <= item && item < begins[rank + 1]);
    let left = if first < begins[rank] { owner(first).map_or(0, |owner| rank - owner) } else { 0 };
    let right = if last > begins[rank + 1] { owner(last - 1).map_or(0, |owner| owner - rank) } else { 0 };
    left.max(right)
}
