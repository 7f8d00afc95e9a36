//! The contestant to beat: every rank copies its halos straight from its neighbours' fields, row by row with plain
//! copies and without any word between the ranks. No exchange that moves each value once can do with less.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use haloport::device::Device;
use haloport::domain::MAX_AXES;
use haloport::{Element, Field, Pattern, Piece};

use super::cells::{check, fill};
use super::contestant::Contestant;
use super::problem::Problem;
use crate::failure::Failure;

/// The fields of the ranks that are threads of this process, by rank.
#[derive(Debug, Default)]
pub(super) struct SharedFields(Mutex<HashMap<usize, Arc<dyn Any + Send + Sync>>>);

/// Plain copies of the cells of one rank's halos.
pub(super) struct OnePassCopy<T, D: Device> {
    pattern: Pattern,
    fields: Arc<Vec<Field<T, D>>>,
    copies: Vec<RowCopies<T>>,
    /// Whether each neighbour's fields are in this process; if not, equal cells of the rank's own stand in for them.
    from_neighbours: bool,
    /// The neighbours' fields live as long as this.
    _neighbours: Vec<Arc<Vec<Field<T, D>>>>,
}

/// The rows of one piece of one field.
struct RowCopies<T> {
    source: *const T,
    target: *mut T,
    /// For each axis but the last: its extent, and its strides in the source and in the target, in elements.
    outer: [(usize, isize, isize); MAX_AXES - 1],
    /// The cells of a row, side by side on both sides.
    row: usize,
}

impl<T: Element, D: Device> OnePassCopy<T, D> {
    /// Collective: fills the fields, shows them to the other ranks of this process and finds theirs.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn new(
        problem: &Problem,
        pattern: &Pattern,
        mut fields: Vec<Field<T, D>>,
        shared: &SharedFields,
    ) -> Result<OnePassCopy<T, D>, Failure> {
        fill(&mut fields, pattern.grid())?;
        let rank = pattern.comm().rank();
        let fields = Arc::new(fields);
        shared.lock().insert(rank, Arc::clone(&fields) as _);
        pattern.comm().barrier()?;
        let mut made = OnePassCopy {
            pattern: pattern.clone(),
            fields,
            copies: Vec::new(),
            from_neighbours: true,
            _neighbours: Vec::new(),
        };
        for (&peer, pieces) in pattern.receives() {
            let theirs = shared.lock().get(&peer).cloned().and_then(|fields| fields.downcast().ok());
            made.from_neighbours &= theirs.is_some();
            let from: Arc<Vec<Field<T, D>>> = theirs.clone().unwrap_or_else(|| Arc::clone(&made.fields));
            let owner = if theirs.is_some() { peer } else { rank };
            for (source, target) in from.iter().zip(made.fields.iter()) {
                for piece in pieces {
                    let piece = moved(problem, piece, peer, owner)?;
                    made.copies.push(RowCopies::new(source, target, &piece)?);
                }
            }
            made._neighbours.push(from);
        }
        Ok(made)
    }
}

impl<T: Element, D: Device> Contestant for OnePassCopy<T, D> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            for copies in &self.copies {
                // SAFETY: the fields of both sides are alive, and the boxes lie in them. Nobody writes the cells that a
                // rank owns since the barrier in `new`, and nobody but this thread touches the halos of its fields.
                unsafe { copies.run() };
            }
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        if self.from_neighbours {
            check(&self.fields, self.pattern.grid(), "one_pass_copy")?;
        }
        Ok(())
    }
}

impl SharedFields {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Arc<dyn Any + Send + Sync>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same piece with its source at the same place within the block of `owner`, which is as large as that of `peer`.
fn moved(problem: &Problem, piece: &Piece, peer: usize, owner: usize) -> Result<Piece, Failure> {
    let (Some(from), Some(to)) = (problem.split.part(peer), problem.split.part(owner)) else {
        return Err(Failure::Run(format!("rank {peer} or {owner} has no block")));
    };
    let mut shift = [0; MAX_AXES];
    for (axis, shift) in shift.iter_mut().enumerate().take(from.axes()) {
        *shift = to.lower()[axis] - from.lower()[axis];
    }
    Ok(Piece { source: piece.source.shifted(&shift), ..*piece })
}

impl<T: Element> RowCopies<T> {
    fn new<D: Device>(from: &Field<T, D>, to: &Field<T, D>, piece: &Piece) -> Result<RowCopies<T>, Failure> {
        let (from_layout, to_layout) = (from.layout(0)?, to.layout(0)?);
        let begin =
            from_layout.offset(piece.source.lower(), 0).zip(to_layout.offset(piece.target.lower(), 0));
        let (source, target) =
            begin.ok_or_else(|| Failure::Run("a piece of the pattern lies outside of its field".into()))?;
        let last = piece.target.axes() - 1;
        let mut outer = [(1, 0, 0); MAX_AXES - 1];
        // Missing axes come first, so that the innermost loop is a long one.
        for (axis, slot) in outer[MAX_AXES - 1 - last..].iter_mut().enumerate() {
            let strides = (from_layout.strides()[axis] as isize, to_layout.strides()[axis] as isize);
            *slot = (piece.target.extent(axis), strides.0, strides.1);
        }
        Ok(RowCopies {
            source: from.pointer(0)?.as_ptr().cast::<T>().wrapping_offset(source),
            target: to.pointer(0)?.as_ptr().cast::<T>().wrapping_offset(target),
            outer,
            row: piece.target.extent(last),
        })
    }

    /// # Safety
    /// All rows are readable at the source and writable at the target, they do not overlap, and nobody else writes the
    /// ones or touches the others meanwhile.
    unsafe fn run(&self) {
        // Short rows are typed moves, decided outside of all loops; a call costs more than they do.
        // SAFETY: the caller's promise.
        unsafe {
            match self.row {
                1 => self.run_rows(|source, target| target.write(source.read())),
                2 => self
                    .run_rows(|source, target| target.cast::<[T; 2]>().write(source.cast::<[T; 2]>().read())),
                3 => self
                    .run_rows(|source, target| target.cast::<[T; 3]>().write(source.cast::<[T; 3]>().read())),
                row => self.run_rows(|source, target| std::ptr::copy_nonoverlapping(source, target, row)),
            }
        }
    }

    /// # Safety
    /// As for [`run`](RowCopies::run).
    #[inline(always)]
    unsafe fn run_rows(&self, copy_row: impl Fn(*const T, *mut T)) {
        let [a, b, c] = self.outer;
        for at_a in 0..a.0 as isize {
            for at_b in 0..b.0 as isize {
                let mut source = self.source.wrapping_offset(at_a * a.1 + at_b * b.1);
                let mut target = self.target.wrapping_offset(at_a * a.2 + at_b * b.2);
                for _ in 0..c.0 {
                    copy_row(source, target);
                    source = source.wrapping_offset(c.1);
                    target = target.wrapping_offset(c.2);
                }
            }
        }
    }
}
