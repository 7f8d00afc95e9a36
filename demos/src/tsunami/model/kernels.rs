//! The scheme as kernels of a device.
//!
//! A block's arrays lie in the device's memory as described at [`Block`](crate::tsunami::model::block::Block),
//! without padding at the end of the last row. Index 0 of a plane is the owned column, index 1 the owned row, both
//! counted from the block's first; for a stage, from its region's first.
//!
//! Each kernel is a Rust function here and a source in the portable dialect in `kernels/`, which does the same
//! operations in the same order, without transcendental functions: all devices give the same bits.

use std::cell::RefCell;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use haloport::device::{HostKernel, IndexRange, KernelArgument, KernelSource, ParameterType};

use crate::common::kernel_arguments::Arguments;
use crate::tsunami::model::block::{
    BlockView, Input, MARGIN, Output, Reflection, State, StateMut, Walls, reflections,
};
use crate::tsunami::model::metric::MetricView;
use crate::tsunami::model::scheme::{Physics, Stage, Workspace, max_rate, stage_rows};
use crate::tsunami::model::survey::raise_largest;

use ParameterType::{F64, I64, Pointer};

/// [`Stage::Predict`] over a region of a block: see [`STAGE_PARAMETERS`].
pub const PREDICT: KernelSource = kernel("predict", STAGE_SOURCE, predict, STAGE_PARAMETERS);

/// [`Stage::Correct`] over a region of a block: see [`STAGE_PARAMETERS`].
pub const CORRECT: KernelSource = kernel("correct", STAGE_SOURCE, correct, STAGE_PARAMETERS);

/// Input `h`, `hu`, `hv`; output `h`, `hu`, `hv`; bed, metric (see [`MetricView::of`]); `nx`,
/// `ny`, pitch; the region's first column and row, and those past its last; drag, dry depth,
/// time step.
pub const STAGE_PARAMETERS: &[ParameterType] = &[
    Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, I64, I64, I64, I64, I64, I64,
    I64, F64, F64, F64,
];

/// The index of the time step in [`STAGE_PARAMETERS`].
pub const STAGE_TIME_STEP: usize = 17;

/// The largest rate (see [`max_rate`]) and the smallest depth of each row; one index for each
/// row. Parameters: `h`, `hu`, `hv`, bed, metric; `ny` rates and then `ny` depths to write;
/// `nx`, `ny`, pitch; dry depth.
pub const EXTREMES: KernelSource = kernel(
    "extremes",
    concat!(include_str!("kernels/water.c"), include_str!("kernels/extremes.c")),
    extremes,
    &[Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, I64, I64, I64, F64],
);

/// The margin behind the walls; one index for each of the `ny` rows and then for each of the
/// `nx` columns (see [`reflections`]). Parameters: `h`, `hu`, `hv`; `nx`, `ny`, pitch; walls
/// (see [`wall_bits`]).
pub const WALLS: KernelSource =
    kernel("walls", include_str!("kernels/walls.c"), walls, &[Pointer, Pointer, Pointer, I64, I64, I64, I64]);

/// Raises the largest wave height of a plane. Parameters: `h`, bed, largest; `nx`, `ny`, pitch.
pub const RAISE_LARGEST: KernelSource = kernel(
    "raise_largest",
    include_str!("kernels/raise_largest.c"),
    raise,
    &[Pointer, Pointer, Pointer, I64, I64, I64],
);

/// All kernels.
pub const ALL: [KernelSource; 5] = [PREDICT, CORRECT, EXTREMES, WALLS, RAISE_LARGEST];

const STAGE_SOURCE: &str = concat!(include_str!("kernels/water.c"), include_str!("kernels/stage.c"));

/// Walls as the bits 1 (west), 2 (east), 4 (south) and 8 (north).
pub fn wall_bits(walls: Walls) -> i64 {
    let sides = [walls.west, walls.east, walls.south, walls.north];
    sides.into_iter().enumerate().map(|(bit, closed)| i64::from(closed) << bit).sum()
}

const fn kernel(
    name: &'static str,
    portable: &'static str,
    host: HostKernel,
    parameters: &'static [ParameterType],
) -> KernelSource {
    KernelSource { name, portable: Some(portable), host, parameters }
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// # Safety
/// See [`HostKernel`].
unsafe fn predict(range: &IndexRange, arguments: &[KernelArgument]) {
    // SAFETY: the caller's promise.
    unsafe { stage(Stage::Predict, range, Arguments(arguments)) }
}

/// # Safety
/// See [`HostKernel`].
unsafe fn correct(range: &IndexRange, arguments: &[KernelArgument]) {
    // SAFETY: the caller's promise.
    unsafe { stage(Stage::Correct, range, Arguments(arguments)) }
}

/// # Safety
/// See [`HostKernel`], for arguments of [`STAGE_PARAMETERS`].
unsafe fn stage(stage: Stage, range: &IndexRange, arguments: Arguments<'_>) {
    let shape = Shape { nx: arguments.size(8), ny: arguments.size(9), pitch: arguments.size(10) };
    // SAFETY: the bed and the metric are arrays of this shape that no thread writes.
    let block = unsafe { shape.block(arguments.array(6), arguments.array(7)) };
    let input = Around { arrays: [0, 1, 2].map(|index| arguments.array(index).cast_const()) };
    let mut output = Plane { arrays: [3, 4, 5].map(|index| arguments.array(index)), pitch: shape.pitch };
    let physics = Physics { drag: arguments.number(15), dry: arguments.number(16), ..Physics::default() };
    let dt = arguments.number(STAGE_TIME_STEP);
    let (first_column, first_row) = (arguments.size(11), arguments.size(12));
    let columns = first_column + range.begin[0]..first_column + range.end[0];
    let rows = first_row + range.begin[1]..first_row + range.end[1];
    WORKSPACE.with_borrow_mut(|work| {
        stage_rows(block, &physics, stage, dt, rows, columns, &input, &mut output, work);
    });
}

/// # Safety
/// See [`HostKernel`], for arguments of [`EXTREMES`].
unsafe fn extremes(range: &IndexRange, arguments: &[KernelArgument]) {
    let arguments = Arguments(arguments);
    let shape = Shape { nx: arguments.size(6), ny: arguments.size(7), pitch: arguments.size(8) };
    // SAFETY: all are arrays of this shape that no thread writes during the launch.
    let (state, block) = unsafe {
        let state = State {
            h: shape.cells(arguments.array(0)),
            hu: shape.cells(arguments.array(1)),
            hv: shape.cells(arguments.array(2)),
        };
        (state, shape.block(arguments.array(3), arguments.array(4)))
    };
    let physics = Physics { dry: arguments.number(9), ..Physics::default() };
    for row in range.begin[0]..range.end[0] {
        let rate = max_rate(block, &physics, row, 0..shape.nx, state);
        let depths = &state.h[block.index(row, 0)..][..shape.nx];
        let lowest = depths.iter().copied().fold(f64::INFINITY, f64::min);
        // SAFETY: there are two values for each row, and each row is computed once.
        unsafe {
            arguments.array(5).add(row).write(rate);
            arguments.array(5).add(shape.ny + row).write(lowest);
        }
    }
}

/// # Safety
/// See [`HostKernel`], for arguments of [`WALLS`].
unsafe fn walls(range: &IndexRange, arguments: &[KernelArgument]) {
    let arguments = Arguments(arguments);
    let [h, hu, hv] = [arguments.array(0), arguments.array(1), arguments.array(2)];
    let (nx, ny, pitch) = (arguments.size(3), arguments.size(4), arguments.size(5));
    let closed = |bit: usize| arguments.size(6) >> bit & 1 == 1;
    let walls = Walls { west: closed(0), east: closed(1), south: closed(2), north: closed(3) };
    for line in range.begin[0]..range.end[0] {
        for Reflection { to, from, eastward } in reflections([nx, ny], pitch, walls, line) {
            let (hu_sign, hv_sign) = if eastward { (-1.0, 1.0) } else { (1.0, -1.0) };
            // SAFETY: both are cells of the arrays. Margin cells are each written for one line and read for none,
            // owned cells are only read.
            unsafe {
                *h.add(to) = *h.add(from);
                *hu.add(to) = hu_sign * *hu.add(from);
                *hv.add(to) = hv_sign * *hv.add(from);
            }
        }
    }
}

/// # Safety
/// See [`HostKernel`], for arguments of [`RAISE_LARGEST`].
unsafe fn raise(range: &IndexRange, arguments: &[KernelArgument]) {
    let arguments = Arguments(arguments);
    let (columns, pitch) = (range.end[0] - range.begin[0], arguments.size(5));
    for row in range.begin[1]..range.end[1] {
        let first = (row + MARGIN) * pitch + MARGIN + range.begin[0];
        // SAFETY: these are cells of the plane, in three arrays; no thread writes the first two, and each cell of the
        // third belongs to one range.
        unsafe {
            let h = from_raw_parts(arguments.array(0).add(first), columns);
            let bed = from_raw_parts(arguments.array(1).add(first), columns);
            let largest = from_raw_parts_mut(arguments.array(2).add(first), columns);
            raise_largest(h, bed, largest);
        }
    }
}

/// The layout of a block's arrays in memory.
#[derive(Clone, Copy)]
struct Shape {
    nx: usize,
    ny: usize,
    pitch: usize,
}

impl Shape {
    /// A whole array.
    ///
    /// # Safety
    /// `array` is an array of this shape that no thread writes as long as the slice lives.
    unsafe fn cells<'a>(self, array: *const f64) -> &'a [f64] {
        let cells = (self.ny + 2 * MARGIN - 1) * self.pitch + self.nx + 2 * MARGIN;
        // SAFETY: the caller's promise; the last row has no padding.
        unsafe { from_raw_parts(array, cells) }
    }

    /// The block with the given bed and metric.
    ///
    /// # Safety
    /// As for [`cells`](Shape::cells); `metric` has [`MetricView::VALUES`] values for each row, margin included.
    unsafe fn block<'a>(self, bed: *const f64, metric: *const f64) -> BlockView<'a> {
        let values = MetricView::VALUES * (self.ny + 2 * MARGIN);
        // SAFETY: the caller's promise.
        let (bed, metric) = unsafe { (self.cells(bed), from_raw_parts(metric, values)) };
        BlockView { pitch: self.pitch, bed, metric: MetricView::of(metric) }
    }
}

/// The input of a stage. Made only in [`stage`], for arrays in which no thread writes the cells of the launch's region
/// or the two cells around it while the launch runs, and asked only for these.
struct Around {
    arrays: [*const f64; 3],
}

impl Input for Around {
    fn elements(&self, elements: std::ops::Range<usize>) -> State<'_> {
        // SAFETY: these are elements of the arrays that no thread writes: the output is in other arrays, and an
        // exchange that is under way writes halos beyond.
        let [h, hu, hv] =
            self.arrays.map(|array| unsafe { from_raw_parts(array.add(elements.start), elements.len()) });
        State { h, hu, hv }
    }
}

/// The output of a stage. Made only in [`stage`], for arrays of which a launch's ranges are
/// disjoint and its own, and asked only for cells of the range.
struct Plane {
    arrays: [*mut f64; 3],
    pitch: usize,
}

impl Output for Plane {
    fn cells(&mut self, row: usize, columns: std::ops::Range<usize>) -> StateMut<'_> {
        let first = (row + MARGIN) * self.pitch + MARGIN + columns.start;
        // SAFETY: these are cells of the range that this call of the kernel computes, in arrays that it does not read
        // as input; no other thread accesses them during the launch.
        let [h, hu, hv] =
            self.arrays.map(|array| unsafe { from_raw_parts_mut(array.add(first), columns.len()) });
        StateMut { h, hu, hv }
    }
}
