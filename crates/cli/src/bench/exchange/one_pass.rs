//! The lower bound: every rank copies its halos straight from its neighbours' fields, row by row, without any
//! synchronisation. No exchange that moves each value once can do less.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use haloport::device::Device;
use haloport::domain::MAX_AXES;
use haloport::pattern::{Cells, Piece};
use haloport::{Communicator, Element, Field, Pattern};

use super::cells::{as_box, check, fill};
use super::problem::Problem;
use super::rows::RowCopies;
use crate::bench::boundary::BoundaryWrites;
use crate::bench::contestant::Contestant;
use crate::command::failure::Failure;

/// The fields of the ranks of this process, by rank.
#[derive(Debug, Default)]
pub(in crate::bench) struct SharedFields(Mutex<HashMap<usize, Arc<dyn Any + Send + Sync>>>);

/// The pieces that a rank fills, by the rank that has their sources.
pub(super) type Pieces = BTreeMap<usize, Vec<Piece>>;

/// The rows of one pass over pieces, from the fields of neighbours to those of one rank.
pub(super) struct Pass<T: Element, D: Device> {
    pub(super) fields: Arc<Vec<Field<T, D>>>,
    pub(super) rows: Vec<RowCopies<T>>,
    /// Whether each neighbour's fields are in this process; if not, equal cells of the rank's own are read instead.
    pub(super) from_neighbours: bool,
    /// Keeps the neighbours' fields alive.
    _neighbours: Vec<Arc<Vec<Field<T, D>>>>,
}

impl<T: Element, D: Device> Pass<T, D> {
    /// Collective: shows filled fields to the other ranks of this process, and finds theirs. Without `shared`, cells are read
    /// from the rank's own fields alone.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn over(
        problem: &Problem,
        (comm, pieces): (&Communicator, &Pieces),
        fields: Vec<Field<T, D>>,
        shared: Option<&SharedFields>,
    ) -> Result<Pass<T, D>, Failure> {
        let (rank, fields) = (comm.rank(), Arc::new(fields));
        if let Some(shared) = shared {
            shared.show(rank, Arc::clone(&fields) as _);
        }
        comm.barrier()?;
        let mut made = Pass { fields, rows: Vec::new(), from_neighbours: true, _neighbours: Vec::new() };
        for (&peer, pieces) in pieces {
            let theirs = shared.and_then(|shared| shared.of(peer));
            let theirs = theirs.and_then(|fields| fields.downcast().ok());
            made.from_neighbours &= theirs.is_some();
            let from: Arc<Vec<Field<T, D>>> = theirs.clone().unwrap_or_else(|| Arc::clone(&made.fields));
            let owner = if theirs.is_some() { peer } else { rank };
            for (source, target) in from.iter().zip(made.fields.iter()) {
                for piece in pieces {
                    let piece = moved(problem, piece, peer, owner)?;
                    made.rows.push(RowCopies::between(source, target, &piece)?);
                }
            }
            made._neighbours.extend(theirs);
        }
        made.rows = RowCopies::paired(made.rows);
        Ok(made)
    }
}

/// Plain copies of the cells of one rank's halos.
pub(super) struct OnePassCopy<T: Element, D: Device> {
    pattern: Pattern,
    pass: Pass<T, D>,
    /// What is written, if no other rank reads these fields.
    step: Option<BoundaryWrites<T>>,
}

impl<T: Element, D: Device> OnePassCopy<T, D> {
    /// Collective: fills the fields. Without `shared`, cells are copied from the rank's own fields alone, and those may be
    /// written.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn new(
        problem: &Problem,
        pattern: &Pattern,
        mut fields: Vec<Field<T, D>>,
        shared: Option<&SharedFields>,
    ) -> Result<OnePassCopy<T, D>, Failure> {
        fill(&mut fields, pattern)?;
        let step = shared.is_none().then(|| BoundaryWrites::of(&mut fields, pattern)).transpose()?;
        let pass = Pass::over(problem, (pattern.comm(), pattern.receives()), fields, shared)?;
        Ok(OnePassCopy { pattern: pattern.clone(), pass, step })
    }
}

impl<T: Element, D: Device> Contestant for OnePassCopy<T, D> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            for rows in &self.pass.rows {
                // SAFETY: the fields of both sides are alive, and the boxes lie in them. No thread writes owned cells
                // that another one reads after the barrier in `over`, and only this thread accesses the halos of its fields.
                unsafe { rows.copy() };
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
        if self.pass.from_neighbours {
            check(&self.pass.fields, &self.pattern, "one_pass_copy")?;
        }
        Ok(())
    }
}

impl SharedFields {
    /// Shows the fields of a rank to the others of this process.
    pub(in crate::bench) fn show(&self, rank: usize, fields: Arc<dyn Any + Send + Sync>) {
        self.lock().insert(rank, fields);
    }

    /// The fields of a rank; `None` if it is not in this process.
    pub(in crate::bench) fn of(&self, rank: usize) -> Option<Arc<dyn Any + Send + Sync>> {
        self.lock().get(&rank).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Arc<dyn Any + Send + Sync>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same piece with its source at the same position within the block of `owner`, which is as large as that of
/// `peer`.
fn moved(problem: &Problem, piece: &Piece, peer: usize, owner: usize) -> Result<Piece, Failure> {
    let (Some(from), Some(to)) = (problem.split.part(peer), problem.split.part(owner)) else {
        return Err(Failure::Run(format!("rank {peer} or {owner} has no block")));
    };
    let mut shift = [0; MAX_AXES];
    for (axis, shift) in shift.iter_mut().enumerate().take(from.axes()) {
        *shift = to.lower()[axis] - from.lower()[axis];
    }
    Ok(Piece { source: Cells::Box(as_box(&piece.source)?.shifted(&shift)), ..piece.clone() })
}
