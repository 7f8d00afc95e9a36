//! The scheme as kernels of a device.
//!
//! Fields have the levels of a cell side by side. Index 0 of a plane is the level, index 1 the position of a cell in
//! the list of cells to compute (see [`tables`](super::tables)).
//!
//! Each kernel is a Rust function here and a source in the portable dialect in `kernels/`, which does the same
//! operations in the same order, without transcendental functions: all devices give the same bits.

use std::ops::Range;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use haloport::device::{HostKernel, IndexRange, KernelArgument, KernelSource, ParameterType};

use super::scheme::{FlowTerms, GradientTerms, Stage, advance, gradient};
use super::stencil::EDGES;
use crate::common::kernel_arguments::Arguments;

use ParameterType::{I64, Pointer};

/// Gradients. Parameters: the tracer; the gradient to write, along x and along y; the cells to compute, their
/// neighbours, three for each (both 32-bit local indices), and four terms for each neighbour (see [`GradientTerms`]);
/// the number of cells to compute; levels; 1 with the limiter, else 0.
pub const GRADIENT: KernelSource = kernel(
    "gradient",
    include_str!("kernels/gradient.c"),
    gradients,
    &[Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, I64, I64, I64],
);

/// [`Stage::Predict`]: see [`STAGE_PARAMETERS`].
pub const PREDICT: KernelSource = kernel("predict", STAGE_SOURCE, predict, STAGE_PARAMETERS);

/// [`Stage::Correct`]: see [`STAGE_PARAMETERS`].
pub const CORRECT: KernelSource = kernel("correct", STAGE_SOURCE, correct, STAGE_PARAMETERS);

/// The tracer and its gradient along x and y; the output; the cells to compute, their upwind cells, three for each,
/// three terms for each of these, and the scale of each cell (see [`FlowTerms`]); the number of cells to compute;
/// levels.
pub const STAGE_PARAMETERS: &[ParameterType] =
    &[Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, I64, I64];

/// All kernels.
pub const ALL: [KernelSource; 3] = [GRADIENT, PREDICT, CORRECT];

const STAGE_SOURCE: &str = include_str!("kernels/stage.c");

const fn kernel(
    name: &'static str,
    portable: &'static str,
    host: HostKernel,
    parameters: &'static [ParameterType],
) -> KernelSource {
    KernelSource { name, portable: Some(portable), host, parameters }
}

/// # Safety
/// See [`HostKernel`], for arguments of [`GRADIENT`].
unsafe fn gradients(range: &IndexRange, arguments: &[KernelArgument]) {
    let arguments = Arguments(arguments);
    let rows = Rows { levels: arguments.size(7), computed: range.begin[0]..range.end[0] };
    let limited = arguments.size(8) != 0;
    let [tracer, x, y] = [0, 1, 2].map(|index| arguments.array(index));
    for at in range.begin[1]..range.end[1] {
        // SAFETY: the lists have entries for every index of the launch and name cells of the fields. No thread writes
        // the rows of the tracer that are read, and the row of the gradient belongs to this index alone.
        unsafe {
            let cell = *arguments.integers(3).add(at) as usize;
            let terms = GradientTerms {
                cells: &*arguments.integers(4).cast::<[i32; EDGES]>().add(at),
                terms: &*arguments.array(5).cast::<[[f64; 4]; EDGES]>().add(at),
            };
            let out = [rows.of_mut(x, cell), rows.of_mut(y, cell)];
            gradient(terms, limited, rows.of(tracer, cell), |other| rows.of(tracer, other), out);
        }
    }
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
    let rows = Rows { levels: arguments.size(9), computed: range.begin[0]..range.end[0] };
    let [tracer, x, y, output] = [0, 1, 2, 3].map(|index| arguments.array(index));
    for at in range.begin[1]..range.end[1] {
        // SAFETY: as in `gradients`; the output is another field than the input.
        unsafe {
            let cell = *arguments.integers(4).add(at) as usize;
            let terms = FlowTerms {
                upwind: &*arguments.integers(5).cast::<[i32; EDGES]>().add(at),
                terms: &*arguments.array(6).cast::<[[f64; 3]; EDGES]>().add(at),
                scale: *arguments.array(7).add(at),
            };
            let upwind = |cell: usize| [rows.of(tracer, cell), rows.of(x, cell), rows.of(y, cell)];
            advance(stage, terms, rows.of(tracer, cell), upwind, rows.of_mut(output, cell));
        }
    }
}

/// The part of each row of a field that a call of a kernel computes.
struct Rows {
    levels: usize,
    computed: Range<usize>,
}

impl Rows {
    /// # Safety
    /// `field` has the row of `cell`, which no thread writes as long as the slice lives.
    unsafe fn of<'f>(&self, field: *const f64, cell: usize) -> &'f [f64] {
        // SAFETY: the caller's promise.
        unsafe { from_raw_parts(field.add(cell * self.levels + self.computed.start), self.computed.len()) }
    }

    /// # Safety
    /// As for [`of`](Rows::of), and no other thread reads the row either.
    unsafe fn of_mut<'f>(&self, field: *mut f64, cell: usize) -> &'f mut [f64] {
        // SAFETY: the caller's promise.
        unsafe {
            from_raw_parts_mut(field.add(cell * self.levels + self.computed.start), self.computed.len())
        }
    }
}
