//! The gradient of a cell and one stage of its time step.
//!
//! A second-order finite-volume scheme. The tracer is linear in each cell: its mean at the centre and the gradient of
//! [`neighbours`](super::stencil::neighbours). The flux through an edge takes the upwind cell's value at the middle of
//! the edge (B. van Leer, "Towards the ultimate conservative difference scheme V", J. Comput. Phys. 32 (1979); on
//! triangles: T. J. Barth and D. C. Jespersen, "The design and application of upwind schemes on unstructured meshes",
//! AIAA 89-0366 (1989)). Time is advanced by Heun's method, the strong-stability-preserving Runge-Kutta method of
//! second order (C.-W. Shu and S. Osher, J. Comput. Phys. 77 (1988)):
//!
//! ```text
//! A dq/dt = L(q) = - [flux through the edges, outwards]
//! predict:  q1 = q + dt L(q) / A
//! correct:  q  = (q + q1 + dt L(q1) / A) / 2
//! ```
//!
//! Both sides of an edge compute its flux from the same numbers by the same operations, so mass changes by rounding
//! alone.
//!
//! A row holds the levels of one cell. Every level is computed alike, whatever their number.

use std::array;

use super::stencil::EDGES;

/// The largest fraction of its tracer that a cell may lose within a step, in each stage.
pub const COURANT: f64 = 0.5;

/// As [`COURANT`], with the limiter: then no edge carries off more than its third, and no value becomes negative (up
/// to rounding).
pub const LIMITED_COURANT: f64 = 1.0 / 3.0;

/// Levels that are computed together.
const LANES: usize = 8;

/// The two halves of a time step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Writes q1. The old output is not read.
    Predict,
    /// From q1, writes q: the output holds the old q and is updated in place.
    Correct,
}

/// The slope of the tracer in a cell: for each neighbour its index and the weights along both axes and the offset of
/// the edge to it (see [`Neighbour`](super::stencil::Neighbour)).
#[derive(Clone, Copy, Debug)]
pub struct GradientTerms<'t> {
    /// Local indices of the neighbours.
    pub cells: &'t [i32; EDGES],
    /// Weights along x and y, and the offset.
    pub terms: &'t [[f64; 4]; EDGES],
}

/// The flows through a cell's edges (see [`Flow`](super::stencil::Flow)).
#[derive(Clone, Copy, Debug)]
pub struct FlowTerms<'t> {
    /// Local indices of the upwind cells.
    pub upwind: &'t [i32; EDGES],
    /// Flux and offset.
    pub terms: &'t [[f64; 3]; EDGES],
    /// The time step divided by the area of the cell.
    pub scale: f64,
}

/// Writes the gradient of a cell along x and y.
///
/// `own` is the row of the cell, and `row` gives that of any other; all rows are equally long. With `limited`, the
/// gradient is made so small that the tracer at the middles of the edges lies between the smallest and the largest of
/// the cell and its neighbours (Barth and Jespersen 1989).
pub fn gradient<'q>(
    terms: GradientTerms<'_>,
    limited: bool,
    own: &[f64],
    row: impl Fn(usize) -> &'q [f64],
    out: [&mut [f64]; 2],
) {
    let [x, y] = out;
    let rows = terms.cells.map(|cell| row(cell as usize));
    in_lanes(own.len(), |level, many| {
        let (x, y) = (&mut x[level..], &mut y[level..]);
        if many {
            gradient_lanes::<LANES>(level, terms, limited, own, rows, x, y);
        } else {
            gradient_lanes::<1>(level, terms, limited, own, rows, x, y);
        }
    });
}

/// Advances the row of a cell by one stage. `rows` gives the tracer and both parts of the gradient of any cell.
pub fn advance<'q>(
    stage: Stage,
    terms: FlowTerms<'_>,
    own: &[f64],
    rows: impl Fn(usize) -> [&'q [f64]; 3],
    out: &mut [f64],
) {
    let rows = terms.upwind.map(|cell| rows(cell as usize));
    in_lanes(own.len(), |level, many| {
        if many {
            advance_lanes::<LANES>(stage, level, terms, own, rows, &mut out[level..]);
        } else {
            advance_lanes::<1>(stage, level, terms, own, rows, &mut out[level..]);
        }
    });
}

/// Calls `compute` with the first level of each batch, and whether the batch has [`LANES`] levels or one.
fn in_lanes(levels: usize, mut compute: impl FnMut(usize, bool)) {
    let whole = levels - levels % LANES;
    (0..whole).step_by(LANES).for_each(|level| compute(level, true));
    (whole..levels).for_each(|level| compute(level, false));
}

#[inline(always)]
fn gradient_lanes<const N: usize>(
    level: usize,
    terms: GradientTerms<'_>,
    limited: bool,
    own: &[f64],
    rows: [&[f64]; EDGES],
    x: &mut [f64],
    y: &mut [f64],
) {
    let own = lanes::<N>(own, level);
    let (mut slope, mut low, mut high) = ([[0.0; N]; 2], own, own);
    for (row, &[weight_x, weight_y, ..]) in rows.into_iter().zip(terms.terms) {
        let there = lanes::<N>(row, level);
        for lane in 0..N {
            let difference = there[lane] - own[lane];
            slope[0][lane] += weight_x * difference;
            slope[1][lane] += weight_y * difference;
            low[lane] = low[lane].min(there[lane]);
            high[lane] = high[lane].max(there[lane]);
        }
    }
    if limited {
        for lane in 0..N {
            let mut part = 1.0_f64;
            for &[.., offset_x, offset_y] in terms.terms {
                let step = slope[0][lane] * offset_x + slope[1][lane] * offset_y;
                let room = if step > 0.0 { high[lane] - own[lane] } else { low[lane] - own[lane] };
                if step != 0.0 {
                    part = part.min(room / step);
                }
            }
            slope[0][lane] *= part;
            slope[1][lane] *= part;
        }
    }
    x[..N].copy_from_slice(&slope[0]);
    y[..N].copy_from_slice(&slope[1]);
}

#[inline(always)]
fn advance_lanes<const N: usize>(
    stage: Stage,
    level: usize,
    terms: FlowTerms<'_>,
    own: &[f64],
    rows: [[&[f64]; 3]; EDGES],
    out: &mut [f64],
) {
    let mut outflow = [0.0; N];
    for (row, &[flux, offset_x, offset_y]) in rows.into_iter().zip(terms.terms) {
        let [mean, slope_x, slope_y] = row.map(|row| lanes::<N>(row, level));
        for lane in 0..N {
            let there = mean[lane] + slope_x[lane] * offset_x + slope_y[lane] * offset_y;
            outflow[lane] += flux * there;
        }
    }
    let own = lanes::<N>(own, level);
    for lane in 0..N {
        let advanced = own[lane] - terms.scale * outflow[lane];
        out[lane] = match stage {
            Stage::Predict => advanced,
            Stage::Correct => 0.5 * (out[lane] + advanced),
        };
    }
}

#[inline(always)]
fn lanes<const N: usize>(row: &[f64], level: usize) -> [f64; N] {
    let row = &row[level..level + N];
    array::from_fn(|lane| row[lane])
}
