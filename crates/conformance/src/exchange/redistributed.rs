//! Cells that go from their owners in one pattern to those in another one, of random domains and fields, against the global
//! oracles of both.

use haloport_core::device::Device;
use haloport_core::{BlockLayout, Communicator, Grid, Pattern};

use super::structured::is_exchanged;
use super::{cubed_sphere, structured, tripolar, unstructured};
use crate::oracle::{
    CaseField, CaseFields, FieldMaker, Name, Oracle, PlacedField, PlacedFields, Rounds, make_moved, name_of,
    run_at_addresses, run_passed, run_rounds,
};
use crate::{Failure, ensure};

/// Collective: takes the fields of a case with this number from one ownership of its cells to another one, each on some of
/// the ranks: of boxes, lists, a folded grid and a cubed sphere in turn, from boxes to lists and from lists to boxes, with
/// the halo and without it.
///
/// # Errors
/// The first element that is wrong on this rank, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D, number: u64, size: usize) -> Result<(), Failure> {
    let (ranks, me) = (comm.size(), comm.rank());
    let fills_halo = number % 12 < 6;
    let (run, cases): (Result<(), Failure>, String) = match number % 6 {
        0 => {
            let case = structured::Case::new(number, ranks, size);
            let (from, to) = (case.again(1), case.again(2));
            let patterns = (from.pattern(comm)?, to.pattern(comm)?);
            let moves = Moves { patterns, oracles: (&from, &to), rounds: (&from.rounds, &to.rounds) };
            (moves.run(device, fills_halo), format!("{from:?}\n{to:?}"))
        }
        1 => {
            let case = unstructured::Case::new(number, ranks, size);
            let (from, to) = (case.again(1), case.again(2));
            let (here, there) = (from.here(me), to.here(me));
            let patterns = (from.whole_pattern(comm)?, to.whole_pattern(comm)?);
            let moves = Moves { patterns, oracles: (&here, &there), rounds: (&from.rounds, &to.rounds) };
            (moves.run(device, fills_halo), format!("{from:?}\n{to:?}"))
        }
        2 => {
            let case = tripolar::Case::new(number, ranks, size);
            let (from, to) = (case.again(1), case.again(2));
            let patterns = (from.pattern(comm)?, to.pattern(comm)?);
            let (here, there) = (from.oracle(), to.oracle());
            let moves = Moves { patterns, oracles: (&here, &there), rounds: (&from.rounds, &to.rounds) };
            (moves.run(device, fills_halo), format!("{from:?}\n{to:?}"))
        }
        3 => {
            let case = cubed_sphere::Case::new(number, ranks, size)?;
            let (from, to) = (case.again(1), case.again(2));
            let patterns = (from.pattern(comm)?, to.pattern(comm)?);
            let (here, there) = (from.oracle(), to.oracle());
            let moves = Moves { patterns, oracles: (&here, &there), rounds: (&from.rounds, &to.rounds) };
            (moves.run(device, fills_halo), format!("{from:?}\n{to:?}"))
        }
        kind => {
            let case = structured::Case::new(number, ranks, size);
            let (boxes, lists) = (case.again(1), unstructured::Case::of_grid(&case, ranks, 2));
            let (on_grid, here) = (boxes.pattern(comm)?, lists.here(me));
            let in_lists = lists.whole_pattern(comm)?;
            let (of_boxes, of_lists) =
                (ById { oracle: &boxes, extents: &case.extents }, ById { oracle: &here, extents: &[] });
            let (boxed, listed) = (&boxes.rounds, &lists.rounds);
            let run = if kind == 4 {
                let (patterns, oracles) = ((on_grid, in_lists), (&of_boxes as _, &of_lists as _));
                Moves { patterns, oracles, rounds: (boxed, listed) }.run(device, fills_halo)
            } else {
                let (patterns, oracles) = ((in_lists, on_grid), (&of_lists as _, &of_boxes as _));
                Moves { patterns, oracles, rounds: (listed, boxed) }.run(device, false)
            };
            (run, format!("{boxes:?}\n{lists:?}"))
        }
    };
    run.map_err(|error| format!("redistributed case {number}: {error}\n{cases}").into())
}

/// The two sides of a redistribution: first the source, then the target.
struct Moves<'c, S, T> {
    patterns: (Pattern, Pattern),
    oracles: (&'c dyn Oracle, &'c dyn Oracle),
    /// With the same number, options and number of rounds.
    rounds: (&'c Rounds<S>, &'c Rounds<T>),
}

impl<S: FieldMaker, T: FieldMaker> Moves<'_, S, T> {
    /// Collective: runs the rounds, first of an exchange that owns its fields, then of a plan to which fields are passed,
    /// then of one to which addresses are passed.
    fn run<D: Device>(&self, device: &D, fills_halo: bool) -> Result<(), Failure> {
        let ((from, to), (sources, targets)) = (&self.patterns, self.rounds);
        let redistribution =
            if fills_halo { from.redistribute_with_halo(to)? } else { from.redistribute(to)? };
        let moved = redistribution.receives().values().flatten().map(|piece| piece.target.count());
        let (moved, fewest) = (moved.sum::<u128>(), if fills_halo { to.halo_cells() } else { 0 });
        ensure!(moved >= fewest, "the redistribution fills {moved} cells, expected {fewest} or more");

        let axes = to.grid().map_or(1, Grid::axes);
        let received = Received { oracle: self.oracles.1, axes, fills_halo };
        let make = || -> Result<PlacedFields<'_>, Failure> {
            let pairs = sources.fields.iter().zip(&targets.fields).enumerate();
            let oracles: (&dyn Oracle, &dyn Oracle) = (self.oracles.0, &received);
            pairs.map(|(number, makers)| make_moved(device, (from, to), oracles, makers, number)).collect()
        };
        let (number, count, options) = (sources.number, sources.count, || sources.options.options());
        let mut fields = as_cases(make()?);
        fields.iter_mut().try_for_each(|field| field.prepare(0))?;
        let exchange = redistribution.bind_with(fields, options())?;
        exchange.fields().iter().try_for_each(|field| field.verify(0, false))?;
        run_rounds(device, device, exchange, number, count)?;

        let mut sets = [as_cases(make()?), as_cases(make()?)];
        let plan = redistribution.plan_with(&mut sets[0], options())?;
        run_passed(device, plan, sets, number, count)?;

        let sets = [make()?, make()?, make()?];
        let layouts = targets.fields.iter().zip(&sets[0]);
        let layouts = layouts.map(|(maker, field)| field.field_layout(maker.vector()));
        let layouts = layouts.collect::<Result<Vec<_>, _>>()?;
        let plan = redistribution.plan_layouts(&layouts, options().in_flight(2))?;
        run_at_addresses(device, plan, sets, number, count)
    }
}

fn as_cases(fields: PlacedFields<'_>) -> CaseFields<'_> {
    fields.into_iter().map(|field: Box<dyn PlacedField>| field as Box<dyn CaseField>).collect()
}

/// An oracle that names the cells of a grid by their numbers in it, and other cells as they are.
struct ById<'o> {
    oracle: &'o dyn Oracle,
    /// Those of the grid; none for numbered cells.
    extents: &'o [usize],
}

impl Oracle for ById<'_> {
    fn name(&self, domain: usize, layout: &BlockLayout, cell: &[i64], after: bool) -> Option<Name> {
        let name = self.oracle.name(domain, layout, cell, after)?;
        if self.extents.is_empty() {
            return Some(name);
        }
        let (of_cell, of_level) = name.split_at(self.extents.len());
        let along = of_cell.iter().zip(self.extents);
        let id = along.fold(0, |id, (index, extent)| id * *extent as i64 + index);
        Some(name_of(&[&[id], of_level].concat()))
    }

    fn seed(&self, field: usize, round: u64) -> u64 {
        round << 32 ^ (field as u64) << 48
    }
}

/// Knows what the target of a redistribution holds: nothing before it, then the exchanged levels of owned cells, and of the
/// halo if it is filled.
struct Received<'r> {
    oracle: &'r dyn Oracle,
    /// Those of the pattern.
    axes: usize,
    fills_halo: bool,
}

impl Oracle for Received<'_> {
    fn name(&self, domain: usize, layout: &BlockLayout, cell: &[i64], after: bool) -> Option<Name> {
        let arrives = after && is_exchanged(&layout.owned(), self.axes, cell);
        if arrives { self.oracle.name(domain, layout, cell, self.fills_halo) } else { None }
    }

    fn component(&self, field: usize, cell: &[i64], component: usize) -> (usize, bool) {
        self.oracle.component(field, cell, component)
    }

    fn seed(&self, field: usize, round: u64) -> u64 {
        self.oracle.seed(field, round)
    }
}
