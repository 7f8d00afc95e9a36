//! Fields that go from parts along the first axis to parts along the second.

use std::ffi::c_int;

use haloport::cpu::CpuDevice;
use haloport::exchange::SourceTarget;
use haloport::field::FieldBuilder;
use haloport::{BindOptions, Exchange, Field, Grid, Halo, Pattern, Split};

use crate::Contestant;
use crate::problem::{Failure, lies_as};

/// `struct peers_transpose`.
#[repr(C)]
pub(crate) struct Transpose {
    cells: [i32; 3],
    fields: i32,
}

/// Parts along the first axis and along the second.
type Pairs = Vec<SourceTarget<Field<f64, CpuDevice>, Field<f64, CpuDevice>>>;

/// A redistribution, and where its fields begin: first the sources.
pub(crate) struct Transposed {
    exchange: Exchange<Pairs>,
    begins: Vec<*mut f64>,
}

impl Transposed {
    /// Collective: binds the fields of a problem, in memory that other processes can reach if `node_shared`.
    ///
    /// # Safety
    /// `comm` is a valid handle.
    ///
    /// # Errors
    /// Where Haloport refuses.
    pub(crate) unsafe fn new(
        comm: c_int,
        problem: &Transpose,
        node_shared: bool,
        options: BindOptions,
    ) -> Result<Transposed, Failure> {
        // SAFETY: the caller's promise.
        let comm = unsafe { haloport::mpi::from_fortran(comm)? };
        let grid = Grid::new(problem.cells.map(|cells| cells as usize))?;
        let pattern = |axis: usize| -> Result<Pattern, Failure> {
            let mut parts = [1; 3];
            parts[axis] = comm.size();
            let mine =
                Split::even(&grid, parts)?.part(comm.rank()).ok_or("there are more ranks than rows")?;
            Ok(Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(0))?)
        };
        let (rows, columns) = (pattern(0)?, pattern(1)?);
        let to_columns = rows.redistribute(&columns)?;
        let device = CpuDevice::with_threads(1)?; // every rank has a core of its own
        let field = |builder: FieldBuilder<f64, CpuDevice>| -> Result<Field<f64, CpuDevice>, Failure> {
            let field = builder.node_shared(node_shared).build(&device)?;
            let layout = field.layout(0)?;
            let [b, c] = [1, 2].map(|axis| layout.allocated().extent(axis) as i64);
            lies_as(layout, |cell| (cell[0] * b + cell[1]) * c + cell[2])?;
            Ok(field)
        };
        let mut pairs = Pairs::new();
        for _ in 0..problem.fields {
            let source = field(Field::builder(&rows).source_of(&to_columns))?;
            pairs.push(SourceTarget { source, target: field(Field::builder(&columns))? });
        }
        let mut begins = Vec::new();
        for field in pairs.iter().map(|pair| &pair.source).chain(pairs.iter().map(|pair| &pair.target)) {
            begins.push(field.pointer(0)?.as_ptr().cast());
        }
        let exchange = to_columns.bind_with(pairs, options)?;
        Ok(Transposed { exchange, begins })
    }
}

impl Contestant for Transposed {
    fn run(&mut self, batch: c_int) -> Result<(), Failure> {
        Ok((0..batch).try_for_each(|_| self.exchange.run_blocking())?)
    }

    fn field(&self, number: usize) -> *mut f64 {
        self.begins.get(number).copied().unwrap_or(std::ptr::null_mut())
    }

    fn path(&self) -> String {
        self.exchange.traffic().path()
    }
}
