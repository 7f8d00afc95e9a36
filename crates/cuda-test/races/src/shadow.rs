//! The works that last wrote and read each byte of a block of memory.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::race::{Access, Race};
use crate::works::{Readers, Work};

/// The size of a page is 2 to this power, in bytes.
const PAGE_SHIFT: u32 = 14;
const PAGE: usize = 1 << PAGE_SHIFT;

/// The works that last wrote and read each byte of a block of memory. Dropping it forgets them.
///
/// For each byte it keeps the last write, and the reads since then without those that a later reader follows. Until the first
/// race at a byte, the works of all earlier accesses come before one of those kept. A work that follows those kept then
/// follows all, so the first race at each byte is found. Later races at this byte may be missed.
///
/// Its memory grows with use: 8 bytes for each group of bytes that were always accessed together. A group is a power of 2,
/// at most 16 KiB, and all groups of such a page have the size of the smallest one.
pub struct Shadow {
    block: Arc<str>,
    bytes: usize,
    pages: Box<[Mutex<Page>]>,
}

impl Shadow {
    /// A block of memory of this name and size that no work has accessed.
    pub fn new(name: impl Into<Arc<str>>, bytes: usize) -> Shadow {
        let page = |at| Mutex::new(Page::new(PAGE.min(bytes - at)));
        Shadow { block: name.into(), bytes, pages: (0..bytes).step_by(PAGE).map(page).collect() }
    }

    /// Notes that `work` reads or writes a range of bytes, counted from the beginning of the block. Returns the race at the
    /// first byte that has one. Bytes past the end of the block are left out. The works of a block are of the same
    /// [`Lines`](crate::Lines).
    ///
    /// Call it before or after the access itself, while the work runs. Several threads may call it at the same time: of two
    /// accesses to a byte, one sees the other.
    pub fn access(&self, range: Range<usize>, writes: bool, work: &Work) -> Option<Race> {
        let end = range.end.min(self.bytes);
        let mut begin = range.start;
        let mut race = None;
        while begin < end {
            let page = begin >> PAGE_SHIFT;
            let first = page << PAGE_SHIFT;
            let past = end.min(first + PAGE);
            let found = lock(&self.pages[page]).access(begin - first..past - first, writes, work);
            if let Some(conflict) = found
                && race.is_none()
            {
                race = Some(self.race(first, conflict, writes, work));
            }
            begin = past;
        }
        race
    }

    #[cold]
    fn race(&self, first: usize, conflict: Conflict, writes: bool, work: &Work) -> Race {
        let access = |number, writes| Access { work: work.works().description(number), writes };
        Race {
            block: self.block.clone(),
            offset: first + conflict.at,
            earlier: access(conflict.work, conflict.writes),
            later: access(work.number(), writes),
        }
    }
}

/// An earlier access that races with a later one.
struct Conflict {
    /// The byte, counted from the beginning of the page.
    at: usize,
    work: u32,
    writes: bool,
}

/// The bytes of a page, in groups.
struct Page {
    bytes: usize,
    /// The size of a group is 2 to this power, in bytes.
    shift: u32,
    /// By group; empty before the first access.
    cells: Vec<Cell>,
    /// The last change by a read and by a write without a race: neighbours mostly change alike.
    last: [Change; 2],
}

/// The accesses to a group of bytes: the last write, or 0, and the reads since then.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Cell {
    write: u32,
    readers: Readers,
}

/// The change of a cell by an access of a work.
#[derive(Clone, Copy, Default)]
struct Change {
    work: u32,
    from: Cell,
    to: Cell,
}

impl Page {
    fn new(bytes: usize) -> Page {
        Page { bytes, shift: PAGE_SHIFT, cells: Vec::new(), last: Default::default() }
    }

    fn access(&mut self, range: Range<usize>, writes: bool, work: &Work) -> Option<Conflict> {
        // The end of the block ends its last group, whatever its size.
        let end = if range.end == self.bytes { PAGE } else { range.end };
        let shift = (range.start | end | PAGE).trailing_zeros();
        if shift < self.shift || self.cells.is_empty() {
            self.divide(shift);
        }
        let last = &mut self.last[usize::from(writes)];
        let mut conflict = None;
        let first = range.start >> self.shift;
        let past = range.end.div_ceil(1 << self.shift);
        for (cell, at) in self.cells[first..past].iter_mut().zip(first..) {
            // The same access again changes nothing.
            if last.work == work.number() && (last.from == *cell || last.to == *cell) {
                *cell = last.to;
                continue;
            }
            let (to, other) = cell.after(writes, work);
            match other {
                None => *last = Change { work: work.number(), from: *cell, to },
                Some((other, wrote)) if conflict.is_none() => {
                    conflict = Some(Conflict { at: at << self.shift, work: other, writes: wrote });
                }
                Some(_) => {}
            }
            *cell = to;
        }
        conflict
    }

    /// Divides the groups into smaller ones.
    fn divide(&mut self, shift: u32) {
        let shift = shift.min(self.shift);
        let cell = |at: usize| self.cells.get(at << shift >> self.shift).copied().unwrap_or_default();
        self.cells = (0..self.bytes.div_ceil(1 << shift)).map(cell).collect();
        self.shift = shift;
    }
}

impl Cell {
    /// The cell after an access; and an earlier access that it races with, if there is one, and whether that one wrote.
    fn after(self, writes: bool, work: &Work) -> (Cell, Option<(u32, bool)>) {
        let works = work.works();
        let mut other = None;
        if self.write != 0 && !work.follows(self.write) {
            other = Some((self.write, true));
        } else if writes {
            let reader = works.members(&self.readers).iter().find(|&&reader| !work.follows(reader));
            other = reader.map(|&reader| (reader, false));
        }
        let after = if writes {
            Cell { write: work.number(), readers: Readers::default() }
        } else if self.write == work.number() {
            // A work that follows the write follows the read.
            self
        } else {
            Cell { readers: works.with_reader(self.readers, work), ..self }
        };
        (after, other)
    }
}
