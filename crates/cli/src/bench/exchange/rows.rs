//! Plain copies, row by row: what somebody writes who copies boxes by hand.

use haloport::device::Device;
use haloport::domain::MAX_AXES;
use haloport::{Element, Field, IndexBox, Piece};

use super::cells::as_box;
use crate::failure::Failure;

/// The rows of one box of one field.
pub(super) struct RowCopies<T> {
    source: *const T,
    target: *mut T,
    /// For each axis but the last: its extent, and its strides in the source and in the target, in elements.
    outer: [(usize, isize, isize); MAX_AXES - 1],
    /// The cells of a row, side by side on both sides.
    row: usize,
}

/// Where a box begins, and its strides in elements.
pub(super) struct Place<T> {
    begin: *mut T,
    strides: Vec<isize>,
}

impl<T: Element> Place<T> {
    /// The cells of `cells` in the only block of a field.
    ///
    /// # Errors
    /// [`Failure::Run`] where they do not lie in it.
    pub(super) fn in_field<D: Device>(field: &Field<T, D>, cells: &IndexBox) -> Result<Place<T>, Failure> {
        let layout = field.layout(0)?;
        let offset = layout
            .offset(cells.lower(), 0)
            .ok_or_else(|| Failure::Run("a piece of the pattern lies outside of its field".into()))?;
        let begin = field.pointer(0)?.as_ptr().cast::<T>().wrapping_offset(offset);
        Ok(Place { begin, strides: layout.strides().iter().map(|&stride| stride as isize).collect() })
    }

    /// The cells of `cells` packed one after the other from `begin` on, the last axis fastest.
    #[cfg(feature = "mpi")]
    pub(super) fn packed(begin: *mut T, cells: &IndexBox) -> Place<T> {
        let mut strides = vec![1; cells.axes()];
        for axis in (1..cells.axes()).rev() {
            strides[axis - 1] = strides[axis] * cells.extent(axis) as isize;
        }
        Place { begin, strides }
    }
}

impl<T: Element> RowCopies<T> {
    /// The copies of a piece from the field of its sender to that of its receiver.
    ///
    /// # Errors
    /// [`Failure::Run`] where it does not lie in them.
    pub(super) fn between<D: Device>(
        from: &Field<T, D>,
        to: &Field<T, D>,
        piece: &Piece,
    ) -> Result<RowCopies<T>, Failure> {
        let cells = as_box(&piece.target)?;
        let (source, target) = (Place::in_field(from, as_box(&piece.source)?)?, Place::in_field(to, cells)?);
        Ok(RowCopies::new(&source, &target, cells))
    }

    /// The copies of a box as large as `cells`.
    pub(super) fn new(source: &Place<T>, target: &Place<T>, cells: &IndexBox) -> RowCopies<T> {
        let last = cells.axes() - 1;
        let mut outer = [(1, 0, 0); MAX_AXES - 1];
        // Missing axes come first, so that the innermost loop is a long one.
        for (axis, slot) in outer[MAX_AXES - 1 - last..].iter_mut().enumerate() {
            *slot = (cells.extent(axis), source.strides[axis], target.strides[axis]);
        }
        RowCopies { source: source.begin, target: target.begin, outer, row: cells.extent(last) }
    }

    /// Copies.
    ///
    /// # Safety
    /// All rows are readable at the source and writable at the target, they do not overlap, and nobody else writes the
    /// ones or touches the others meanwhile.
    pub(super) unsafe fn run(&self) {
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
