//! The contestant that most programs write by hand: pack the listed cells, send one persistent message to each
//! neighbour, unpack.

use haloport::device::Device;
use haloport::{Field, Pattern};

use super::args::UnstructuredArgs;
use super::values::{check, private_fields};
use crate::bench::boundary::BoundaryWrites;
use crate::bench::contestant::Contestant;
use crate::bench::persistent::Persistent;
use crate::command::failure::Failure;

/// Hand-packed persistent messages, straight on MPI: one for each neighbour, with all fields.
pub(super) struct ByHand<'a, D: Device> {
    pattern: Pattern,
    args: &'a UnstructuredArgs,
    fields: Vec<Field<f64, D>>,
    pack: Vec<Listed>,
    unpack: Vec<Listed>,
    messages: Persistent<f64>,
    step: BoundaryWrites<f64>,
}

/// The cells of one field in one message.
struct Listed {
    cells: Vec<u32>,
    field: *mut f64,
    message: *mut f64,
    levels: usize,
    /// Strides from cell to cell and from level to level in the field, in values.
    cell_stride: usize,
    level_stride: usize,
}

impl<'a, D: Device> ByHand<'a, D> {
    /// Collective: makes the messages.
    ///
    /// # Errors
    /// [`Failure::Run`] if MPI fails, or the pattern has several domains.
    pub(super) fn new(device: &D, pattern: &Pattern, args: &'a UnstructuredArgs) -> Result<Self, Failure> {
        let mut fields = private_fields(device, pattern, args)?;
        let step = BoundaryWrites::of(&mut fields, pattern)?;
        let mut made = ByHand {
            pattern: pattern.clone(),
            args,
            fields,
            pack: Vec::new(),
            unpack: Vec::new(),
            messages: Persistent::new()?,
            step,
        };
        for (send, messages) in [(false, pattern.receives()), (true, pattern.sends())] {
            for (&peer, pieces) in messages {
                let [piece] = &pieces[..] else {
                    return Err(Failure::Run("this benchmark has one domain on each rank".into()));
                };
                let cells = if send { &piece.source } else { &piece.target };
                let cells = cells.as_list().map(|list| list.to_vec()).unwrap_or_default();
                made.message(peer, &cells, send)?;
            }
        }
        Ok(made)
    }

    fn message(&mut self, peer: usize, cells: &[u32], send: bool) -> Result<(), Failure> {
        let levels = self.args.levels as usize;
        let length = cells.len() * levels;
        let begin = self.messages.add(peer, 0, length * self.fields.len(), send)?;
        for (number, field) in self.fields.iter().enumerate() {
            let (cell_stride, level_stride) = self.args.strides(self.pattern.index_sets()[0].len());
            let lists = if send { &mut self.pack } else { &mut self.unpack };
            lists.push(Listed {
                cells: cells.to_vec(),
                field: field.pointer(0)?.as_ptr().cast(),
                message: begin.wrapping_add(number * length),
                levels,
                cell_stride,
                level_stride,
            });
        }
        Ok(())
    }
}

impl Listed {
    /// Copies the cells to the message, or from it: whole columns if a cell's levels lie side by side, otherwise level
    /// by level.
    ///
    /// # Safety
    /// The cells are those of the field, the message has room for them, and no other thread accesses either meanwhile.
    unsafe fn run(&self, pack: bool) {
        let mut message = self.message;
        let copy = |field: *mut f64, message: *mut f64, count: usize| {
            let (source, target) = if pack { (field, message) } else { (message, field) };
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(source, target, count) };
        };
        if self.level_stride == 1 {
            for &cell in &self.cells {
                copy(self.field.wrapping_add(cell as usize * self.cell_stride), message, self.levels);
                message = message.wrapping_add(self.levels);
            }
            return;
        }
        for level in 0..self.levels {
            let field = self.field.wrapping_add(level * self.level_stride);
            for &cell in &self.cells {
                copy(field.wrapping_add(cell as usize), message, 1);
                message = message.wrapping_add(1);
            }
        }
    }
}

impl<D: Device> Contestant for ByHand<'_, D> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            // SAFETY: the lists are those of the pattern for these fields; packing accesses only the buffers of sends.
            unsafe {
                self.messages.run(
                    || self.pack.iter().for_each(|listed| listed.run(true)),
                    || {},
                    || self.unpack.iter().for_each(|listed| listed.run(false)),
                )?;
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Failure> {
        self.step.write(&mut self.fields)
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        check(&self.fields, &self.pattern, self.args, "packed_persistent")
    }
}
