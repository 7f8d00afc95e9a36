//! The lower bound: every rank copies its columns straight from the rows of all ranks, without any synchronisation.

use std::sync::Arc;

use haloport::Communicator;
use haloport::device::Device;
use haloport::domain::MAX_AXES;
use haloport::exchange::SourceTarget;

use super::problem::{Pairs, Problem, check};
use crate::bench::contestant::Contestant;
use crate::bench::exchange::{RowCopies, SharedFields, StridedBox};
use crate::command::failure::Failure;

/// Plain copies of the cells of one rank's columns.
pub(super) struct OnePassCopy<D: Device> {
    pairs: Arc<Pairs<D>>,
    copies: Vec<RowCopies<f64>>,
    /// Whether the rows of all ranks are in this process; if not, equal cells of the rank's own are copied instead.
    from_all: bool,
    /// Keeps the rows of the others alive.
    _others: Vec<Arc<Pairs<D>>>,
}

impl<D: Device> OnePassCopy<D> {
    /// Collective: shows filled fields to the other ranks of this process, and finds theirs.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn new(
        problem: &Problem,
        comm: &Communicator,
        pairs: Pairs<D>,
        shared: &SharedFields,
    ) -> Result<OnePassCopy<D>, Failure> {
        let (rank, pairs) = (comm.rank(), Arc::new(pairs));
        shared.show(rank, Arc::clone(&pairs) as _);
        comm.barrier()?;
        let part = |of: Option<haloport::IndexBox>| {
            of.ok_or_else(|| Failure::Run("a rank has no part of the grid".into()))
        };
        let (columns, own_rows) = (part(problem.columns.part(rank))?, part(problem.rows.part(rank))?);
        let mut made = OnePassCopy { pairs, copies: Vec::new(), from_all: true, _others: Vec::new() };
        for peer in 0..comm.size() {
            let rows = part(problem.rows.part(peer))?;
            let Some(cells) = rows.intersection(&columns) else { continue };
            let theirs = shared.of(peer).and_then(|pairs| pairs.downcast::<Pairs<D>>().ok());
            made.from_all &= theirs.is_some();
            // The parts of all ranks are equally large.
            let mut shift = [0; MAX_AXES];
            if theirs.is_none() {
                shift[0] = own_rows.lower()[0] - rows.lower()[0];
            }
            let from = theirs.clone().unwrap_or_else(|| Arc::clone(&made.pairs));
            for (SourceTarget { source, .. }, SourceTarget { target, .. }) in
                from.iter().zip(made.pairs.iter())
            {
                let source = StridedBox::in_field(source, &cells.shifted(&shift))?;
                made.copies.push(RowCopies::new(&source, &StridedBox::in_field(target, &cells)?, &cells));
            }
            made._others.extend(theirs);
        }
        Ok(made)
    }
}

impl<D: Device> Contestant for OnePassCopy<D> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            for copies in &self.copies {
                // SAFETY: the fields of both sides are alive, and the boxes lie in them. No thread writes sources after the
                // barrier in `new`, and only this thread accesses its targets.
                unsafe { copies.copy() };
            }
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        if self.from_all { check(&self.pairs, "one_pass_copy") } else { Ok(()) }
    }
}
