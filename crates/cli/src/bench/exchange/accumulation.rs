//! The other direction: halo cells are added to those of their owners.
//!
//! The lower bound reads each halo cell and its owner's, and writes the owner's, without any synchronisation.

use std::ops::AddAssign;
use std::sync::Arc;

use haloport::device::Device;
use haloport::exchange::{Combine, FieldSet};
use haloport::pattern::Piece;
use haloport::{Communicator, Element, Field, Pattern};

use super::args::ExchangeArgs;
use super::cells::as_box;
use super::one_pass::{Pass, Pieces, SharedFields};
use super::problem::Problem;
use super::report::Report;
use crate::bench::block::{Block, CallerMemory, FieldMemory, for_each_cell, list_index};
use crate::bench::boundary::{Boundary, BoundaryWrites, crowded};
use crate::bench::contestant::{Contestant, Entry, measure};
use crate::bench::handover::handover;
use crate::bench::library::Library;
use crate::bench::raw_send::RawSend;
use crate::command::failure::Failure;
use crate::command::launch::ranks_here;

/// Elements that are added.
pub(super) trait Float: Element + AddAssign + From<u8> {}

impl<T: Element + AddAssign + From<u8>> Float for T {}

/// Checks and measures all contestants on one rank.
///
/// # Errors
/// [`Failure`].
pub(super) fn on_floats<T: Float, D: Device>(
    comm: &Communicator,
    device: &D,
    args: &ExchangeArgs,
    shared: &SharedFields,
) -> Result<Report, Failure> {
    let problem = Problem::new(args, comm.size())?;
    problem.check_memory(device.info(), ranks_here(comm))?;
    let boundary = args.boundary.choose(device.info(), crowded(comm))?;
    args.trace.begin(comm)?;
    let pattern = problem.pattern(comm)?;
    let (mut fields, mut memory, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    // Alternately: the order of allocation changes times by several percent.
    for _ in 0..args.fields {
        let field = args.memory.build(Field::<T, D>::builder(&pattern), device)?;
        if args.memory.memory == FieldMemory::Caller {
            memory.push(CallerMemory::like(&field)?);
        } else {
            fields.push(field);
        }
        plain.push(Field::<T, D>::builder(&pattern).node_shared(false).build(device)?);
    }
    // Without synchronisation, a rank may not write what others read.
    let shared = (boundary == Boundary::Unchanged).then_some(shared);
    let one_pass = match device.info().host_accessible {
        true => Some(OnePassAdd::new(&problem, &pattern, plain, shared)?),
        false => None,
    };
    if memory.is_empty() {
        return compete(fields, one_pass, device, &problem, &pattern, args, boundary);
    }
    let fields = memory.iter_mut().map(|memory| memory.lend(device)).collect::<Result<Vec<_>, _>>()?;
    compete(fields, one_pass, device, &problem, &pattern, args, boundary)
}

/// Measures the library on `fields` and the other contestants, in turns.
fn compete<T: Float, F: FieldSet + Block<T>, D: Device>(
    mut fields: Vec<F>,
    one_pass: Option<OnePassAdd<T, D>>,
    device: &D,
    problem: &Problem,
    pattern: &Pattern,
    args: &ExchangeArgs,
    boundary: Boundary,
) -> Result<Report, Failure> {
    fill(&mut fields, pattern)?;
    let step = halo_writes(&mut fields, pattern)?;
    let options = args.memory.options().accumulate(Combine::Sum);
    let check = |fields: &[F]| check(fields, pattern, "haloport");
    let library = Library::of(pattern.bind_with(fields, options)?, check)
        .with_writes(Box::new(move |fields| step.write(fields)));
    let (traffic, choice) = (library.traffic(), library.choice());
    let raw_send = RawSend::new(pattern, args.fields * size_of::<T>())?;
    let mut entries = vec![
        Entry::new("haloport", Some(Box::new(library))),
        Entry::new("one_pass_add", one_pass.map(|it| Box::new(it) as _)),
        Entry::new("raw_send", raw_send.map(|it| Box::new(it) as _)),
    ];
    for entry in &mut entries {
        entry.verify()?;
    }
    let comm = pattern.comm();
    let before = handover(comm)?;
    let results = measure(comm, &mut entries, args.samples, boundary)?;
    args.trace.write(comm)?;
    let handover = before.zip(handover(comm)?).map(<[f64; 2]>::from);
    Ok(Report::new(args, problem, pattern, device.info(), traffic, choice, results, handover, boundary))
}

/// Plain sums of the cells that a rank owns and of those in halos.
struct OnePassAdd<T: Element, D: Device> {
    pattern: Pattern,
    pass: Pass<T, D>,
    /// What is written, if no other rank reads these fields.
    step: Option<BoundaryWrites<T>>,
}

impl<T: Float, D: Device> OnePassAdd<T, D> {
    /// Collective: fills the fields.
    fn new(
        problem: &Problem,
        pattern: &Pattern,
        mut fields: Vec<Field<T, D>>,
        shared: Option<&SharedFields>,
    ) -> Result<OnePassAdd<T, D>, Failure> {
        fill(&mut fields, pattern)?;
        let step = shared.is_none().then(|| halo_writes(&mut fields, pattern)).transpose()?;
        let turned = |piece: &Piece| Piece {
            source: piece.target.clone(),
            target: piece.source.clone(),
            source_domain: piece.target_domain,
            target_domain: piece.source_domain,
            ..piece.clone()
        };
        let pieces: Pieces =
            pattern.sends().iter().map(|(&peer, all)| (peer, all.iter().map(turned).collect())).collect();
        let pass = Pass::over(problem, (pattern.comm(), &pieces), fields, shared)?;
        Ok(OnePassAdd { pattern: pattern.clone(), pass, step })
    }
}

impl<T: Float, D: Device> Contestant for OnePassAdd<T, D> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            for rows in &self.pass.rows {
                // SAFETY: the fields of both sides are alive, and the boxes lie in them. No thread writes halo cells that
                // another one reads after the barrier in `over`, and only this thread accesses the owned cells of its fields.
                unsafe { rows.add() };
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Failure> {
        match (&self.step, Arc::get_mut(&mut self.pass.fields)) {
            (Some(step), Some(fields)) => step.write(fields),
            _ => Ok(()),
        }
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        // Others may read these fields, and this rank theirs, until all have arrived.
        self.pattern.comm().barrier()?;
        if self.pass.from_neighbours {
            check(&self.pass.fields, &self.pattern, "one_pass_add")?;
        }
        Ok(())
    }
}

/// Rewrites the halo cells of `fields`, as a step of a model does that computes in its halo.
fn halo_writes<T: Float>(
    fields: &mut [impl Block<T>],
    pattern: &Pattern,
) -> Result<BoundaryWrites<T>, Failure> {
    let mut places = Vec::new();
    if let Some(first) = fields.first() {
        let layout = first.layout()?;
        for piece in pattern.receives().values().flatten() {
            for_each_cell(as_box(&piece.target)?, |index| places.extend(list_index(layout, index)));
        }
    }
    BoundaryWrites::at(fields, places)
}

/// Sets every cell, of the halo as well, to the value of its place in the grid.
fn fill<T: Float>(fields: &mut [impl Block<T>], pattern: &Pattern) -> Result<(), Failure> {
    for (number, field) in fields.iter_mut().enumerate() {
        let layout = field.layout()?;
        let mut values = vec![T::from(0); layout.span().1.unsigned_abs()];
        for_each_cell(&layout.allocated(), |index| {
            if let Some(at) = list_index(layout, index) {
                values[at] = T::from(value(pattern, number, index));
            }
        });
        field.store(&values)?;
    }
    Ok(())
}

/// Checks every owned cell after one accumulation: it has its own value, and once more that of each halo cell of its place.
///
/// # Errors
/// [`Failure::Run`] with the first cell that is wrong.
fn check<T: Float>(fields: &[impl Block<T>], pattern: &Pattern, contestant: &str) -> Result<(), Failure> {
    for (number, field) in fields.iter().enumerate() {
        let layout = field.layout()?;
        let mut times = vec![1_usize; layout.span().1.unsigned_abs()];
        for piece in pattern.sends().values().flatten() {
            for_each_cell(as_box(&piece.source)?, |index| {
                list_index(layout, index).into_iter().for_each(|at| times[at] += 1);
            });
        }
        let (values, mut wrong) = (field.load()?, None);
        for_each_cell(&layout.owned(), |index| {
            let Some(at) = list_index(layout, index) else { return };
            let (one, mut expected) = (T::from(value(pattern, number, index)), T::from(0));
            (0..times[at]).for_each(|_| expected += one);
            if wrong.is_none() && bytemuck::bytes_of(&values[at]) != bytemuck::bytes_of(&expected) {
                let found = values[at];
                wrong = Some(format!("the cell {index:?} of field {number} is {found:?}, not {expected:?}"));
            }
        });
        if let Some(wrong) = wrong {
            return Err(Failure::Run(format!("the check of {contestant} failed: {wrong}")));
        }
    }
    Ok(())
}

/// The value of the cells of one place in the periodic grid.
fn value(pattern: &Pattern, field: usize, index: &[i64]) -> u8 {
    let extent = |axis: usize| pattern.grid().map_or(1, |grid| grid.extent(axis)) as i64;
    let places = index.iter().enumerate().map(|(axis, &at)| (axis as i64 + 2) * at.rem_euclid(extent(axis)));
    1 + ((places.sum::<i64>() + field as i64) % 61) as u8
}
