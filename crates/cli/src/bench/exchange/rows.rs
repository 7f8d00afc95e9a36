//! Plain copies of boxes, row by row, as written by hand.

use std::ops::AddAssign;

use haloport::device::Device;
use haloport::domain::MAX_AXES;
use haloport::pattern::Piece;
use haloport::{Element, Field, IndexBox};

use super::cells::as_box;
use crate::command::failure::Failure;

/// The rows of one box of one field.
pub(in crate::bench) struct RowCopies<T> {
    source: *const T,
    target: *mut T,
    /// For each axis but the last: its extent, and its strides in the source and in the target, in elements.
    outer: [(usize, isize, isize); MAX_AXES - 1],
    /// The cells of a row, contiguous on both sides.
    row: usize,
    /// Offsets from the source and the target to those of an equal box, which is copied in the same sweep.
    twin: Option<(isize, isize)>,
}

/// The number of rows by which cache lines are prefetched in a sweep over two boxes.
const ROWS_AHEAD: isize = 32;

/// The first element of a box, and the strides in elements.
pub(in crate::bench) struct StridedBox<T> {
    begin: *mut T,
    strides: Vec<isize>,
}

impl<T: Element> StridedBox<T> {
    /// The cells of `cells` in the only block of a field.
    ///
    /// # Errors
    /// [`Failure::Run`] if they do not lie in it.
    pub(in crate::bench) fn in_field<D: Device>(
        field: &Field<T, D>,
        cells: &IndexBox,
    ) -> Result<StridedBox<T>, Failure> {
        let layout = field.layout(0)?;
        let offset = layout
            .offset(cells.lower(), 0)
            .ok_or_else(|| Failure::Run("a piece of the pattern lies outside of its field".into()))?;
        let begin = field.pointer(0)?.as_ptr().cast::<T>().wrapping_offset(offset);
        Ok(StridedBox { begin, strides: layout.strides().iter().map(|&stride| stride as isize).collect() })
    }

    /// The cells of `cells` packed from `begin` on, the last axis fastest.
    #[cfg(feature = "mpi")]
    pub(super) fn packed(begin: *mut T, cells: &IndexBox) -> StridedBox<T> {
        let mut strides = vec![1; cells.axes()];
        for axis in (1..cells.axes()).rev() {
            strides[axis - 1] = strides[axis] * cells.extent(axis) as isize;
        }
        StridedBox { begin, strides }
    }
}

impl<T: Element> RowCopies<T> {
    /// The copies of a piece from the field of its sender to that of its receiver.
    ///
    /// # Errors
    /// [`Failure::Run`] if the piece does not lie in them.
    pub(super) fn between<D: Device>(
        from: &Field<T, D>,
        to: &Field<T, D>,
        piece: &Piece,
    ) -> Result<RowCopies<T>, Failure> {
        let cells = as_box(&piece.target)?;
        let (source, target) =
            (StridedBox::in_field(from, as_box(&piece.source)?)?, StridedBox::in_field(to, cells)?);
        Ok(RowCopies::new(&source, &target, cells))
    }

    /// The copies of a box as large as `cells`.
    pub(in crate::bench) fn new(
        source: &StridedBox<T>,
        target: &StridedBox<T>,
        cells: &IndexBox,
    ) -> RowCopies<T> {
        let mut last = cells.axes() - 1;
        let mut row = cells.extent(last);
        // Rows without gaps between them, on both sides, are one.
        while last > 0 && [source, target].iter().all(|side| side.strides[last - 1] == row as isize) {
            last -= 1;
            row *= cells.extent(last);
        }
        let mut outer = [(1, 0, 0); MAX_AXES - 1];
        // Missing axes come first, so that the innermost loop is long.
        for (axis, slot) in outer[MAX_AXES - 1 - last..].iter_mut().enumerate() {
            *slot = (cells.extent(axis), source.strides[axis], target.strides[axis]);
        }
        RowCopies { source: source.begin, target: target.begin, outer, row, twin: None }
    }

    /// Joins copies of short rows in pairs: the faces of a block along the fastest axis lie in the same cache lines.
    pub(super) fn paired(copies: Vec<RowCopies<T>>) -> Vec<RowCopies<T>> {
        let mut paired: Vec<RowCopies<T>> = Vec::new();
        for copy in copies {
            let like = |other: &&mut RowCopies<T>| {
                other.twin.is_none() && copy.row <= 3 && (other.row, other.outer) == (copy.row, copy.outer)
            };
            let bytes = |from: *const T, to: *const T| to.addr().wrapping_sub(from.addr()) as isize;
            match paired.iter_mut().rev().find(like) {
                Some(other) => {
                    other.twin = Some((bytes(other.source, copy.source), bytes(other.target, copy.target)))
                }
                None => paired.push(copy),
            }
        }
        paired
    }

    /// Copies.
    ///
    /// # Safety
    /// All rows are readable at the source and writable at the target, and do not overlap. Meanwhile no other thread
    /// writes the source or accesses the target.
    pub(in crate::bench) unsafe fn copy(&self) {
        // Short rows are typed moves, chosen outside of all loops: a call would take longer than the move.
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

    /// Adds the rows of the source to those of the target.
    ///
    /// # Safety
    /// As for [`copy`](RowCopies::copy).
    pub(super) unsafe fn add(&self)
    where
        T: AddAssign,
    {
        let add = |source: *const T, target: *mut T, row: usize| {
            for at in 0..row {
                // SAFETY: the caller's promise.
                unsafe { *target.add(at) += source.add(at).read() };
            }
        };
        // SAFETY: the caller's promise.
        unsafe {
            match self.row {
                1 => self.run_rows(|source, target| add(source, target, 1)),
                2 => self.run_rows(|source, target| add(source, target, 2)),
                3 => self.run_rows(|source, target| add(source, target, 3)),
                row => self.run_rows(|source, target| add(source, target, row)),
            }
        }
    }

    /// # Safety
    /// As for [`copy`](RowCopies::copy).
    #[inline(always)]
    unsafe fn run_rows(&self, copy_row: impl Fn(*const T, *mut T)) {
        let [a, b, c] = self.outer;
        let size = size_of::<T>() as isize;
        let last = (size * c.1 * ROWS_AHEAD, size * c.2 * ROWS_AHEAD);
        for at_a in 0..a.0 as isize {
            for at_b in 0..b.0 as isize {
                let mut source = self.source.wrapping_offset(at_a * a.1 + at_b * b.1);
                let mut target = self.target.wrapping_offset(at_a * a.2 + at_b * b.2);
                for _ in 0..c.0 {
                    copy_row(source, target);
                    if let Some((to_source, to_target)) = self.twin {
                        let (source, target) =
                            (source.wrapping_byte_offset(to_source), target.wrapping_byte_offset(to_target));
                        prefetch(target.wrapping_byte_offset(last.1));
                        prefetch(source.wrapping_byte_offset(last.0));
                        copy_row(source, target);
                    }
                    source = source.wrapping_offset(c.1);
                    target = target.wrapping_offset(c.2);
                }
            }
        }
    }
}

/// Prefetches a cache line; any address may be passed.
#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
