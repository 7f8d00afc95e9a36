//! One stage of the time step: the shallow-water equations on a longitude-latitude grid.
//!
//! The depth `h` and the momenta `hu`, `hv` of a cell with area `A` change by
//!
//! ```text
//! A dh/dt  = - [L F]
//! A dhu/dt = - [L (Fu - g h*^2 / 2)] - g h A d(eta)/dx + A (f + u tan(phi) / R) hv - drag
//! A dhv/dt = - [L (Fv - g h*^2 / 2)] - g h A d(eta)/dy - A (f + u tan(phi) / R) hu - drag
//! ```
//!
//! where `[L ..]` sums over the faces of length `L`, outwards, `F` is the flux of
//! [`face_flux`](crate::tsunami::model::face::face_flux) and `h*` the depth it reconstructs
//! on the cell's own side. This is the second-order hydrostatic reconstruction of Audusse et al.
//! (2004) with its pressure and bed terms put together:
//! `g/2 (h+^2 - h-^2) + g/2 (h+ + h-)(z+ - z-)` is `g/2 (h+ + h-)(eta+ - eta-)`. The pressure on faces of unequal length, which on a sphere
//! has to cancel against a metric term, is so never formed, and a lake at rest keeps exactly still,
//! shores and islands included.
//!
//! Time is advanced by Heun's method, the strong-stability-preserving Runge-Kutta method of
//! second order (Shu and Osher 1988): [`Stage::Predict`], then [`Stage::Correct`]. Each is
//! one step of Euler's method with the quadratic bottom drag taken implicitly. One step from
//! `q` with a second set of arrays `q1`, on every rank:
//!
//! ```text
//! dt = time_step(largest max_rate(q) of all ranks)
//! fill_walls(q);  exchange margins of q;  stage_rows(Predict, input q,  output q1)
//! fill_walls(q1); exchange margins of q1; stage_rows(Correct, input q1, output q)
//! raise_largest(q)
//! ```
//!
//! Cells at least two from a border with a neighbour may be computed while the margins travel, in any split into rows
//! and columns (see [`regions`](crate::tsunami::model::regions)); the values in the margin's corners do not
//! matter.
//!
//! Depths stay positive without clipping while the [Courant number](Physics::courant) is at
//! most 1, because the faces of a cell then carry off less than it holds (Audusse et al.
//! 2004, section 3.3); so the volume of water changes by rounding alone. That holds for the
//! speeds at the faces in both stages. The time step is chosen from those at the cell centres
//! before the first, so the default keeps a fifth in hand; watch
//! [`Survey::min_depth`](crate::tsunami::model::survey::Survey::min_depth).

mod physics;
mod rows;

use std::ops::Range;

use crate::tsunami::model::block::{BlockView, Input, MARGIN, Output};
use crate::tsunami::model::face::{Flux, GRAVITY, limited, max};
pub use physics::{DRAINABLE_DEPTH, Physics, PhysicsError, max_rate};
pub use rows::CHUNK;
use rows::{FACES, Fluxes, Row, part, y_fluxes};

/// The two halves of a time step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From the state `q`, write `q1 = q + dt L(q)`. The old output is not read.
    Predict,
    /// From the state `q1`, write `q = (q + q1 + dt L(q1)) / 2`: the output holds `q` and is updated in place; each
    /// cell reads only its own old value.
    Correct,
}

/// Scratch memory of [`stage_rows`], reused between calls; one for each thread.
///
/// A few rows, whatever the size of the block. Every call begins with four rows more than it writes, so threads are
/// best given 16 or more rows at a time.
#[derive(Debug, Default)]
pub struct Workspace {
    rows: [Row; 2 * MARGIN + 1],
    south: Vec<Fluxes<CHUNK>>,
}

/// Advances the owned cells `rows` x `columns` (counted from the block's first) by one stage
/// of a step of `dt` seconds.
///
/// `input` is the state at the beginning of the stage, whole arrays. Each cell reads two cells north, south, east and
/// west of it; the values in the corners between do not matter. No other cells are read, and only the given cells of
/// `output` are written, so threads can compute ranges of cells, and do so while margins beyond travel.
///
/// The result of a cell does not depend, to the last bit, on the ranges or the block.
#[allow(clippy::too_many_arguments, reason = "a kernel: each is one plain input")]
pub fn stage_rows(
    block: BlockView<'_>,
    physics: &Physics,
    stage: Stage,
    dt: f64,
    rows: Range<usize>,
    columns: Range<usize>,
    input: &impl Input,
    output: &mut impl Output,
    work: &mut Workspace,
) {
    let chunks = columns.len().div_ceil(CHUNK);
    work.south.resize(chunks, Fluxes::NONE);
    for (row, ahead) in work.rows[1..].iter_mut().zip(rows.start..) {
        row.load(block, physics, input, ahead, &columns);
    }
    for chunk in 0..chunks {
        let [_, lines @ ..] = &work.rows;
        work.south[chunk] = y_fluxes(lines.each_ref(), chunk);
    }
    for row in rows.clone() {
        work.rows.rotate_left(1);
        work.rows[2 * MARGIN].load(block, physics, input, row + 2 * MARGIN, &columns);
        let step = RowStep::new(block, physics, dt, row);
        for chunk in 0..chunks {
            let new = step.chunk(&work.rows, &mut work.south[chunk], chunk);
            let first = columns.start + chunk * CHUNK;
            let cells = output.cells(row, first..columns.end.min(first + CHUNK));
            store(stage, &new.h, cells.h);
            store(stage, &new.hu, cells.hu);
            store(stage, &new.hv, cells.hv);
        }
    }
}

/// New values of a chunk.
struct Updated {
    h: [f64; CHUNK],
    hu: [f64; CHUNK],
    hv: [f64; CHUNK],
}

/// The constants of a row.
struct RowStep {
    dt: f64,
    drag: f64,
    dry: f64,
    side: f64,
    south: f64,
    north: f64,
    per_height: f64,
    coriolis: f64,
    turning: f64,
}

impl Updated {
    const DRY: Self = Self { h: [0.0; CHUNK], hu: [0.0; CHUNK], hv: [0.0; CHUNK] };
}

impl RowStep {
    fn new(block: BlockView<'_>, physics: &Physics, dt: f64, row: usize) -> Self {
        let (metric, line) = (block.metric, row + MARGIN);
        Self {
            dt,
            drag: physics.drag,
            dry: physics.dry,
            side: metric.side[line],
            south: metric.south[line],
            north: metric.north[line],
            per_height: metric.per_height[line],
            coriolis: metric.coriolis[line],
            turning: metric.turning[line],
        }
    }

    /// One Euler step of a chunk of the middle row. `south` holds the fluxes through its
    /// south faces and receives those through its north faces.
    fn chunk(&self, rows: &[Row; 5], south: &mut Fluxes<CHUNK>, chunk: usize) -> Updated {
        if !rows.iter().any(|row| row.wet[chunk]) {
            *south = Fluxes::NONE;
            return Updated::DRY;
        }
        let [_, lines @ ..] = rows;
        let [below, middle, above, _] = lines;
        let from = chunk * CHUNK;
        let north = y_fluxes(lines.each_ref(), chunk);
        let x = Fluxes::<FACES>::between([0, 1, 2, 3].map(|shift| middle.across(from + shift)));
        let own = from + MARGIN;
        let of_cells = |row| part::<CHUNK>(row, own);
        let (h, hu, hv) = (of_cells(&middle.h), of_cells(&middle.hu), of_cells(&middle.hv));
        let (u, v) = (of_cells(&middle.u), of_cells(&middle.v));
        let (eta_south, eta_north) = (of_cells(&below.eta), of_cells(&above.eta));
        let eta = part::<FACES>(&middle.eta, own - 1);
        let mut new = Updated::DRY;
        for i in 0..CHUNK {
            let cell = OwnCell {
                h: h[i],
                hu: hu[i],
                hv: hv[i],
                u: u[i],
                v: v[i],
                slope_x: limited(eta[i + 1] - eta[i], eta[i + 2] - eta[i + 1]),
                slope_y: limited(eta[i + 1] - eta_south[i], eta_north[i] - eta[i + 1]),
            };
            let sides = [x.at(i), x.at(i + 1), south.at(i), north.at(i)];
            (new.h[i], new.hu[i], new.hv[i]) = self.euler(cell, sides);
        }
        *south = north;
        new
    }

    /// One Euler step of a cell with the fluxes through its west, east, south and north face.
    #[inline(always)]
    fn euler(&self, cell: OwnCell, [west, east, south, north]: [Flux; 4]) -> (f64, f64, f64) {
        let dt = self.dt;
        let mass = self.side * (east.mass - west.mass) + (self.north * north.mass - self.south * south.mass);
        let eastward = self.side * (east.lower - west.higher)
            + (self.north * north.along - self.south * south.along)
            + GRAVITY * cell.h * (self.side * cell.slope_x);
        let northward = self.side * (east.along - west.along)
            + (self.north * north.lower - self.south * south.higher)
            + GRAVITY * cell.h * (self.per_height * cell.slope_y);
        let turn = self.coriolis + cell.u * self.turning;
        let h = cell.h - dt * mass;
        let hu = cell.hu + dt * (turn * cell.hv - eastward);
        let hv = cell.hv - dt * (turn * cell.hu + northward);
        let remaining = self.remaining(h, (cell.u * cell.u + cell.v * cell.v).sqrt());
        (h, hu * remaining, hv * remaining)
    }

    /// The fraction of its momentum that water of depth `h` (metres) keeps over bottom drag at `speed` (m/s), taken
    /// implicitly, and over damping if it is nearly dry: `h p / (1 + dt c speed p)` with `p` of `per_depth`, as a
    /// single quotient.
    #[inline(always)]
    fn remaining(&self, h: f64, speed: f64) -> f64 {
        let square = h * h;
        let resistance = 2.0 * self.dt * self.drag * speed * h;
        2.0 * square / (square + max(square, self.dry * self.dry) + resistance)
    }
}

/// A cell at the beginning of a stage.
struct OwnCell {
    h: f64,
    hu: f64,
    hv: f64,
    u: f64,
    v: f64,
    /// Limited difference of the surface from the west to the east face, metres.
    slope_x: f64,
    /// Limited difference of the surface from the south to the north face, metres.
    slope_y: f64,
}

fn store(stage: Stage, new: &[f64; CHUNK], output: &mut [f64]) {
    match stage {
        Stage::Predict => output.copy_from_slice(&new[..output.len()]),
        Stage::Correct => {
            for (old, new) in output.iter_mut().zip(new) {
                *old = 0.5 * (*old + new);
            }
        }
    }
}
