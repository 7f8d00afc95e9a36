//! The steps that are recorded: a stencil on a periodic grid of integers, computed by kernels.

use haloport_core::device::{
    Device, IndexRange, KernelArgument, KernelSource, LaunchConfig, ParameterType, Pointer,
};
use haloport_core::{
    BindOptions, BlockLayout, Communicator, Exchange, Field, Grid, Halo, IndexBox, Pattern, Pending,
    Schedule, Split, Step,
};

use crate::{Failure, ensure};

/// Cells along each axis of the whole grid.
const EXTENTS: [usize; 2] = [24, 20];

/// The kernels, for compilers without a device.
pub(crate) const KERNELS: [KernelSource; 2] = [MIX, ADVANCE];

const PARAMETERS: &[ParameterType] = &[
    ParameterType::Pointer,
    ParameterType::Pointer,
    ParameterType::I64,
    ParameterType::I64,
    ParameterType::I64,
    ParameterType::I64,
];

/// Computes the next values of a box of cells from those and their neighbours, by the formula of [`mixed`].
const MIX: KernelSource = KernelSource {
    name: "mix_cells",
    portable: Some(
        "KERNEL void mix_cells(\n\
               \x20   GLOBAL const long *now, GLOBAL long *next, long first, long row, long rows, long columns\n\
               ) {\n\
               \x20   long i = GLOBAL_INDEX(0), j = GLOBAL_INDEX(1);\n\
               \x20   if (i >= columns || j >= rows) return;\n\
               \x20   long c = first + j * row + i;\n\
               \x20   long around = now[c - 1] + 3 * now[c + 1] + 7 * now[c - row] + 11 * now[c + row];\n\
               \x20   next[c] = (5 * now[c] + around) % 1000003;\n\
               }\n",
    ),
    host: |range, arguments| {
        let mix = |now: *mut i64, next: *mut i64, c: isize, row: isize| {
            // SAFETY: the launch promised these cells and the ones around them, and this one to this call alone.
            unsafe {
                let at = |c: isize| *now.offset(c);
                *next.offset(c) = mixed(at(c), [at(c - 1), at(c + 1), at(c - row), at(c + row)]);
            }
        };
        each_cell(range, arguments, mix);
    },
    parameters: PARAMETERS,
};

/// Copies the next values of a box of cells over the present ones.
const ADVANCE: KernelSource = KernelSource {
    name: "advance_cells",
    portable: Some(
        "KERNEL void advance_cells(\n\
               \x20   GLOBAL long *now, GLOBAL const long *next, long first, long row, long rows, long columns\n\
               ) {\n\
               \x20   long i = GLOBAL_INDEX(0), j = GLOBAL_INDEX(1);\n\
               \x20   if (i < columns && j < rows) now[first + j * row + i] = next[first + j * row + i];\n\
               }\n",
    ),
    host: |range, arguments| {
        // SAFETY: the launch promised these cells, and this one to this call alone.
        each_cell(range, arguments, |now, next, c, _| unsafe { *now.offset(c) = *next.offset(c) });
    },
    parameters: PARAMETERS,
};

/// Calls `cell` with both fields, the cell and the length of a row.
fn each_cell(
    range: &IndexRange,
    arguments: &[KernelArgument],
    cell: impl Fn(*mut i64, *mut i64, isize, isize),
) {
    let [
        KernelArgument::Pointer(now),
        KernelArgument::Pointer(next),
        KernelArgument::I64(first),
        KernelArgument::I64(row),
        KernelArgument::I64(rows),
        KernelArgument::I64(columns),
    ] = arguments
    else {
        return;
    };
    for j in range.begin[1]..range.end[1].min(*rows as usize) {
        for i in range.begin[0]..range.end[0].min(*columns as usize) {
            let c = *first + j as i64 * row + i as i64;
            cell(now.as_ptr().cast(), next.as_ptr().cast(), c as isize, *row as isize);
        }
    }
}

fn mixed(cell: i64, [left, right, below, above]: [i64; 4]) -> i64 {
    (5 * cell + left + 3 * right + 7 * below + 11 * above) % 1_000_003
}

/// An exchange, and the launches beside it, into one stream.
pub(super) struct Solver<D: Device> {
    pub(super) exchange: Exchange<Field<i64, D>>,
    launches: Launches<D>,
    /// The next values.
    _next: Field<i64, D>,
}

struct Launches<D: Device> {
    device: D,
    stream: D::Stream,
    interior: Vec<D::Launch>,
    /// With the launch that copies the next values over the present ones.
    boundary: Vec<D::Launch>,
}

impl<D: Device> Solver<D> {
    /// Collective. The launches go into `stream`.
    pub(super) fn new(
        comm: &Communicator,
        device: &D,
        options: fn() -> BindOptions,
        stream: &D::Stream,
    ) -> Result<Solver<D>, Failure> {
        let grid = Grid::new(EXTENTS)?.periodic([true, true])?;
        let domain = Split::balanced(&grid, comm.size())?.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::uniform(1))?;
        let (mut now, next) = (Field::new(device, &pattern)?, Field::new(device, &pattern)?);
        begin(&mut now)?;
        let ends = [now.pointer(0)?, next.pointer(0)?];
        let regions = pattern.regions(0).ok_or("this rank has no domain")?;
        let [mix, advance] = [device.compile(&MIX)?, device.compile(&ADVANCE)?];
        let layout = now.layout(0)?.clone();
        let bind = |kernel: &D::Kernel, cells: &IndexBox| bind(device, kernel, ends, &layout, cells);
        let interior = regions.interior.iter().map(|cells| bind(&mix, cells));
        let outside = regions.boundary.iter().map(|cells| bind(&mix, cells));
        let launches = Launches {
            device: device.clone(),
            stream: stream.clone(),
            interior: interior.collect::<Result<_, _>>()?,
            boundary: outside.chain([bind(&advance, &domain)]).collect::<Result<_, _>>()?,
        };
        let exchange = pattern.bind_with(now, options())?;
        Ok(Solver { exchange, launches, _next: next })
    }

    /// One step, in order with the stream of the launches.
    pub(super) fn overlap_on<'s>(&mut self, order: impl Into<Schedule<'s>>) -> Result<(), Failure> {
        let Solver { exchange, launches, .. } = self;
        let interior = |_: &mut Pending<'_, _>, launches: &mut Launches<D>| launches.run(&launches.interior);
        Ok(exchange.overlap_on(order, launches, interior, |_, launches| launches.run(&launches.boundary))?)
    }

    /// A step to be replayed.
    pub(super) fn record<'s>(
        &'s mut self,
        order: impl Into<Schedule<'s>>,
    ) -> Result<Step<'s, Field<i64, D>>, Failure> {
        let Solver { exchange, launches, .. } = self;
        let launches: &'s Launches<D> = launches;
        // SAFETY: the functions only put the same launches into the stream of the schedule each time. Launches and
        // fields live as long as the exchange, which the solver owns, and the stream alone orders what they read and
        // write.
        unsafe {
            Ok(exchange.record(
                order,
                launches,
                |_, launches| launches.run(&launches.interior),
                |_, launches| launches.run(&launches.boundary),
            )?)
        }
    }

    /// Verifies that the owned cells have the values after `steps` steps. The stream must be empty.
    pub(super) fn verify(&self, steps: usize) -> Result<(), Failure> {
        verify(self.exchange.fields(), steps)
    }
}

impl<D: Device> Launches<D> {
    fn run(&self, launches: &[D::Launch]) -> Result<(), Failure> {
        for launch in launches {
            // SAFETY: the fields live as long as the solver, which every test keeps until its stream is empty; the
            // launches and the exchange of a solver are in one stream, or ordered with it.
            unsafe { self.device.launch(launch, &self.stream)? };
        }
        Ok(())
    }
}

/// Verifies that the owned cells have the values after `steps` steps.
pub(super) fn verify<D: Device>(field: &Field<i64, D>, steps: usize) -> Result<(), Failure> {
    let (found, expected) = (field.to_vec(0)?, grid_after(steps));
    for (cell, at) in cells(field.layout(0)?) {
        let wanted = expected[offset(cell)];
        ensure!(found[at] == wanted, "after {steps} steps, {cell:?} holds {}, expected {wanted}", found[at]);
    }
    Ok(())
}

/// Fills the owned cells with the initial values, and the halo with -1.
fn begin<D: Device>(field: &mut Field<i64, D>) -> Result<(), Failure> {
    let grid = grid_after(0);
    let mut values = vec![-1; field.to_vec(0)?.len()];
    cells(field.layout(0)?).into_iter().for_each(|(cell, at)| values[at] = grid[offset(cell)]);
    Ok(field.copy_from(0, &values)?)
}

/// The owned cells, and the offset of each in the block.
fn cells(layout: &BlockLayout) -> Vec<([i64; 2], usize)> {
    let owned = layout.owned();
    let rows = owned.lower()[0]..owned.upper()[0];
    let cells = rows.flat_map(|i| (owned.lower()[1]..owned.upper()[1]).map(move |j| [i, j]));
    cells.filter_map(|cell| Some((cell, layout.offset(&cell, 0)? as usize))).collect()
}

/// The whole grid after `steps` steps.
fn grid_after(steps: usize) -> Vec<i64> {
    let all = || (0..EXTENTS[0] as i64).flat_map(|i| (0..EXTENTS[1] as i64).map(move |j| [i, j]));
    let first: Vec<i64> = all().map(|[i, j]| (31 * i + 17 * j * j) % 1000).collect();
    (0..steps).fold(first, |now, _| {
        let at = |i, j| now[offset([i, j])];
        all()
            .map(|[i, j]| mixed(at(i, j), [at(i, j - 1), at(i, j + 1), at(i - 1, j), at(i + 1, j)]))
            .collect()
    })
}

/// The offset of a cell in the whole grid, which is periodic.
fn offset([i, j]: [i64; 2]) -> usize {
    let [rows, columns] = EXTENTS.map(|extent| extent as i64);
    (i.rem_euclid(rows) * columns + j.rem_euclid(columns)) as usize
}

/// A launch over a box of cells of both fields, which have the same layout.
fn bind<D: Device>(
    device: &D,
    kernel: &D::Kernel,
    [now, next]: [Pointer; 2],
    layout: &BlockLayout,
    cells: &IndexBox,
) -> Result<D::Launch, Failure> {
    let first = layout.offset(cells.lower(), 0).ok_or("a box outside of the field")?;
    let [rows, columns] = [0, 1].map(|axis| cells.extent(axis));
    ensure!(layout.strides()[1] == 1, "the fields of the test have the last axis fastest");
    let arguments = [
        KernelArgument::Pointer(now),
        KernelArgument::Pointer(next),
        KernelArgument::I64(first as i64),
        KernelArgument::I64(layout.strides()[0]),
        KernelArgument::I64(rows as i64),
        KernelArgument::I64(columns as i64),
    ];
    Ok(device.bind(kernel, LaunchConfig::plane(columns, rows), &arguments)?)
}
