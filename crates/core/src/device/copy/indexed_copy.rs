//! Copies of rows that are selected by index.

use std::sync::Arc;

use super::box_copy::{BoxCopy, part_begin};
use crate::device::DeviceError;

/// The rows of one side of an [`IndexedCopy`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRows {
    /// Bytes from row 0 to row 1.
    pub stride: isize,
    /// The rows in the order in which they are copied; `None` for 0, 1, 2, …
    pub indices: Option<Arc<[u32]>>,
}

impl CopyRows {
    /// The row at `position` in the order of the copy.
    #[inline]
    pub fn index(&self, position: usize) -> usize {
        self.indices.as_ref().map_or(position, |indices| indices[position] as usize)
    }
}

/// One box copied at many rows, selected by index on either side: number `k` goes from row `source.index(k)` to row
/// `target.index(k)`. A row may be read several times and is written at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedCopy {
    row: BoxCopy,
    rows: usize,
    source: CopyRows,
    target: CopyRows,
}

impl IndexedCopy {
    /// A copy of `rows` rows. `row` copies row 0, with its addresses on both sides.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for an index list that has not `rows` entries, a row that changes signs, which
    /// only boxes do, and more bytes than memory can hold.
    pub fn new(
        row: BoxCopy,
        rows: usize,
        source: CopyRows,
        target: CopyRows,
    ) -> Result<IndexedCopy, DeviceError> {
        if let Some(change) = row.sign_change() {
            let found = format!("{change:?}");
            return Err(DeviceError::invalid("the sign change of an indexed copy", "none", found));
        }
        for indices in [&source.indices, &target.indices].into_iter().flatten() {
            if indices.len() != rows {
                return Err(DeviceError::invalid("the index list of a copy", rows, indices.len()));
            }
        }
        // The selected row that lies furthest away.
        let last = |side: &CopyRows| match &side.indices {
            Some(indices) => indices.iter().max().map_or(0, |&last| last as usize),
            None => rows.saturating_sub(1),
        };
        let within = |side: &CopyRows| side.stride.unsigned_abs().checked_mul(last(side));
        let sizes = [rows.checked_mul(row.bytes()), within(&source), within(&target)];
        if !sizes.iter().all(|size| size.is_some_and(|size| isize::try_from(size).is_ok())) {
            let found = format!("{rows} rows of {} bytes", row.bytes());
            return Err(DeviceError::invalid(
                "the size of an indexed copy",
                "a size that memory can hold",
                found,
            ));
        }
        Ok(IndexedCopy { row, rows, source, target })
    }

    /// The copy of some of its rows, those at these places in its order.
    ///
    /// All of them exist.
    #[must_use]
    pub(crate) fn of_rows(&self, places: &[u32]) -> IndexedCopy {
        let of = |rows: &CopyRows| CopyRows {
            indices: Some(places.iter().map(|place| rows.index(*place as usize) as u32).collect()),
            ..*rows
        };
        IndexedCopy { row: self.row, rows: places.len(), source: of(&self.source), target: of(&self.target) }
    }

    /// The copy of row 0.
    pub fn row(&self) -> &BoxCopy {
        &self.row
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The rows of the source.
    pub fn source(&self) -> &CopyRows {
        &self.source
    }

    /// The rows of the target.
    pub fn target(&self) -> &CopyRows {
        &self.target
    }

    /// All bytes that it moves.
    pub fn bytes(&self) -> usize {
        self.rows * self.row.bytes()
    }

    /// Cuts it into at most `pieces` copies with nearly equal numbers of rows.
    pub fn split(&self, pieces: usize) -> Vec<IndexedCopy> {
        let pieces = pieces.clamp(1, self.rows.max(1));
        (0..pieces)
            .map(|piece| {
                let (begin, end) =
                    (part_begin(self.rows, piece, pieces), part_begin(self.rows, piece + 1, pieces));
                let cut = |rows: &CopyRows| match &rows.indices {
                    Some(indices) => (0, CopyRows { indices: Some(indices[begin..end].into()), ..*rows }),
                    None => (begin as isize * rows.stride, rows.clone()),
                };
                let ((from, source), (to, target)) = (cut(&self.source), cut(&self.target));
                IndexedCopy { row: self.row.moved(from, to), rows: end - begin, source, target }
            })
            .collect()
    }
}
