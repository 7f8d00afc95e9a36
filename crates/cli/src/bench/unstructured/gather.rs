//! The lower bound: one gather pass over the same lists, between fields of one process.

use haloport::device::Device;
use haloport::{Field, Pattern};

use super::args::UnstructuredArgs;
use super::values::private_fields;
use crate::bench::boundary::{BoundaryWrites, places_of};
use crate::bench::contestant::Contestant;
use crate::command::failure::Failure;

/// Copies cells into the halo from their position in a neighbour's field; an equal field stands in for the neighbour's.
pub(super) struct Gather<D: Device> {
    /// Source and target cell, in the order of the lists.
    cells: Vec<(u32, u32)>,
    sources: Vec<Field<f64, D>>,
    targets: Vec<Field<f64, D>>,
    levels: usize,
    /// Strides from cell to cell and from level to level, in values.
    cell_stride: usize,
    level_stride: usize,
    step: BoundaryWrites<f64>,
}

impl<D: Device> Gather<D> {
    /// Makes the fields; `None` if a neighbour has more cells than this rank, or there are several domains or blocks.
    ///
    /// # Errors
    /// [`Failure::Run`] if there is no memory.
    pub(super) fn new(
        device: &D,
        pattern: &Pattern,
        args: &UnstructuredArgs,
    ) -> Result<Option<Self>, Failure> {
        let ([set], None) = (pattern.index_sets(), args.nproma) else { return Ok(None) };
        let all = set.len();
        let mut cells = Vec::new();
        for piece in pattern.receives().values().flatten() {
            let (Some(from), Some(to)) = (piece.source.as_list(), piece.target.as_list()) else {
                return Ok(None);
            };
            cells.extend(from.iter().copied().zip(to.iter().copied()));
        }
        if cells.iter().any(|(from, _)| *from as usize >= all) {
            return Ok(None);
        }
        let levels = args.levels as usize;
        let (cell_stride, level_stride) = args.strides(all);
        let fields = || private_fields(device, pattern, args);
        let (mut sources, targets) = (fields()?, fields()?);
        let step = writes(&mut sources, &cells)?;
        Ok(Some(Gather { cells, sources, targets, levels, cell_stride, level_stride, step }))
    }

    fn pass(&self) -> Result<(), Failure> {
        for (source, target) in self.sources.iter().zip(&self.targets) {
            let source = source.pointer(0)?.as_ptr().cast::<f64>();
            let target = target.pointer(0)?.as_ptr().cast::<f64>();
            let copy = |from: usize, to: usize, count: usize| {
                // SAFETY: the cells and levels are those of the fields, which no other thread accesses; both are host
                // memory.
                unsafe { std::ptr::copy_nonoverlapping(source.add(from), target.add(to), count) };
            };
            if self.level_stride == 1 {
                for &(from, to) in &self.cells {
                    copy(from as usize * self.cell_stride, to as usize * self.cell_stride, self.levels);
                }
                continue;
            }
            for level in (0..self.levels).map(|level| level * self.level_stride) {
                for &(from, to) in &self.cells {
                    copy(level + from as usize, level + to as usize, 1);
                }
            }
        }
        Ok(())
    }
}

impl<D: Device> Contestant for Gather<D> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        (0..batch).try_for_each(|_| self.pass())
    }

    fn write(&mut self) -> Result<(), Failure> {
        self.step.write(&mut self.sources)
    }
}

/// Rewrites the cells that the pass reads.
fn writes<D: Device>(
    sources: &mut [Field<f64, D>],
    cells: &[(u32, u32)],
) -> Result<BoundaryWrites<f64>, Failure> {
    let mut places = Vec::new();
    if let Some(field) = sources.first() {
        let layout = field.layout(0)?;
        cells.iter().for_each(|(from, _)| places_of(*from, layout, &mut places));
    }
    BoundaryWrites::at(sources, places)
}
