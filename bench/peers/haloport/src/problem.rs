//! The problems of `peers.h`: their patterns, and how their fields lie in memory.

use haloport::FieldBuilder;
use haloport::cpu::CpuDevice;
use haloport::{BlockLayout, Communicator, Field, Grid, Halo, HaloCells, IndexSet, Pattern, Split};

/// What goes wrong is printed.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// A problem of `peers.h`.
pub(crate) trait Problem {
    /// The number of fields.
    fn fields(&self) -> usize;

    /// Collective: the pattern.
    ///
    /// # Safety
    /// What the problem points to is there.
    ///
    /// # Errors
    /// Where Haloport refuses it.
    unsafe fn pattern(&self, comm: &Communicator) -> Result<Pattern, Failure>;

    /// A field of the library's own, before it is made.
    fn builder(&self, pattern: &Pattern) -> FieldBuilder<f64, CpuDevice>;

    /// The strides that the interface wants, in values, from the first axis on.
    fn strides(&self) -> Vec<i64>;

    /// How a field lies in memory.
    ///
    /// # Errors
    /// Where it does not lie as the interface wants it.
    fn layout(&self, device: &CpuDevice, pattern: &Pattern) -> Result<BlockLayout, Failure> {
        let layout = self.builder(pattern).node_shared(false).build(device)?.layout(0)?.clone();
        let wanted = self.strides();
        if layout.strides() != wanted {
            return Err(format!("its fields have strides {:?}, not {wanted:?}", layout.strides()).into());
        }
        Ok(layout)
    }
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

    fn strides(&self) -> Vec<i64> {
        let [_, b, c] = self.local.map(|cells| i64::from(cells + 2 * self.halo));
        vec![b * c, c, 1]
    }
}

/// `struct peers_mesh`.
#[repr(C)]
pub(crate) struct Mesh {
    owned: i32,
    halo: i32,
    levels: i32,
    levels_slowest: i32,
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
            let order = if self.levels_slowest == 0 { [0, 1] } else { [1, 0] };
            builder = builder.levels(self.levels as usize).axis_order(order);
        }
        builder
    }

    fn strides(&self) -> Vec<i64> {
        match (self.levels, self.levels_slowest) {
            (1, _) => vec![1],
            (levels, 0) => vec![i64::from(levels), 1],
            _ => vec![1, i64::from(self.owned + self.halo)],
        }
    }
}
