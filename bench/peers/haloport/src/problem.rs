//! The problems of `peers.h`: their patterns, and how their fields lie in memory.

use haloport::cpu::CpuDevice;
use haloport::field::{BlockLayout, FieldBuilder};
use haloport::{Communicator, Field, Grid, Halo, HaloCells, IndexSet, Pattern, Split};

/// An error, which is printed.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// A problem of `peers.h`.
pub(crate) trait Problem {
    /// The number of fields.
    fn fields(&self) -> usize;

    /// Collective: the pattern.
    ///
    /// # Safety
    /// The pointers of the problem are valid.
    ///
    /// # Errors
    /// If Haloport refuses the problem.
    unsafe fn pattern(&self, comm: &Communicator) -> Result<Pattern, Failure>;

    /// A field of the library's own, before it is made.
    fn builder(&self, pattern: &Pattern) -> FieldBuilder<f64, CpuDevice>;

    /// Where the interface wants a cell, in values from the first one. The cells count from that one.
    fn place(&self, cell: &[i64]) -> i64;

    /// How a field lies in memory.
    ///
    /// # Errors
    /// If the field does not lie as the interface requires.
    fn layout(&self, device: &CpuDevice, pattern: &Pattern) -> Result<BlockLayout, Failure> {
        let layout = self.builder(pattern).node_shared(false).build(device)?.layout(0)?.clone();
        lies_as(&layout, |cell| self.place(cell))?;
        Ok(layout)
    }
}

/// Checks that each cell of a block lies where `place` says, in values from the first one; its cells count from that one.
///
/// # Errors
/// If one does not.
pub(crate) fn lies_as(layout: &BlockLayout, place: impl Fn(&[i64]) -> i64) -> Result<(), Failure> {
    let cells = layout.allocated();
    let (mut cell, mut from_first) = (cells.lower().to_vec(), vec![0; cells.axes()]);
    for number in 0..cells.cells() as i64 {
        let mut rest = number;
        for axis in (0..cells.axes()).rev() {
            let extent = cells.extent(axis) as i64;
            (from_first[axis], rest) = (rest % extent, rest / extent);
            cell[axis] = cells.lower()[axis] + from_first[axis];
        }
        let (found, wanted) = (layout.offset(&cell, 0), place(&from_first) as isize);
        if found != Some(wanted) {
            return Err(format!("its fields have cell {cell:?} at {found:?}, not at {wanted}").into());
        }
    }
    Ok(())
}

/// `struct peers_case`.
#[repr(C)]
pub(crate) struct Boxes {
    local: [i32; 3],
    halo: i32,
    fields: i32,
    split: i32,
}

impl Problem for Boxes {
    fn fields(&self) -> usize {
        self.fields as usize
    }

    unsafe fn pattern(&self, comm: &Communicator) -> Result<Pattern, Failure> {
        let mut parts = [1; 3];
        parts[self.split as usize] = comm.size();
        let extents: Vec<usize> = (0..3).map(|axis| self.local[axis] as usize * parts[axis]).collect();
        let grid = Grid::new(extents)?.periodic([true; 3])?;
        let mine = Split::even(&grid, parts)?.part(comm.rank()).ok_or("there are more ranks than blocks")?;
        Ok(Pattern::structured(comm, &grid, &[mine], &Halo::uniform(self.halo as usize))?)
    }

    fn builder(&self, pattern: &Pattern) -> FieldBuilder<f64, CpuDevice> {
        Field::builder(pattern)
    }

    fn place(&self, cell: &[i64]) -> i64 {
        let [_, b, c] = self.local.map(|cells| i64::from(cells + 2 * self.halo));
        cell.iter().zip([b * c, c, 1]).map(|(place, stride)| place * stride).sum()
    }
}

/// `struct peers_mesh`.
#[repr(C)]
pub(crate) struct Mesh {
    owned: i32,
    halo: i32,
    levels: i32,
    nproma: i32,
    fields: i32,
    sends: i32,
    ids: *const i64,
    send: *const i32,
    source: *const i32,
}

impl Problem for Mesh {
    fn fields(&self) -> usize {
        self.fields as usize
    }

    unsafe fn pattern(&self, comm: &Communicator) -> Result<Pattern, Failure> {
        // SAFETY: the caller's promise.
        let ids = unsafe { std::slice::from_raw_parts(self.ids, (self.owned + self.halo) as usize) };
        let (owned, halo) = ids.split_at(self.owned as usize);
        Ok(Pattern::unstructured(comm, &[IndexSet::new(owned, halo)], &HaloCells::All)?)
    }

    fn builder(&self, pattern: &Pattern) -> FieldBuilder<f64, CpuDevice> {
        let mut builder = Field::builder(pattern);
        if self.levels > 1 {
            builder = builder.levels(self.levels as usize);
            builder = match self.nproma {
                1 => builder.axis_order([0, 1]),
                all if all == self.owned + self.halo => builder.axis_order([1, 0]),
                cells => builder.blocked(cells as usize),
            };
        }
        builder
    }

    fn place(&self, cell: &[i64]) -> i64 {
        let (levels, nproma) = (i64::from(self.levels), i64::from(self.nproma));
        let (cell, level) = (cell[0], cell.get(1).copied().unwrap_or(0));
        (cell / nproma * levels + level) * nproma + cell % nproma
    }
}
