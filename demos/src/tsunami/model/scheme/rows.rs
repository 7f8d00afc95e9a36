//! Rows of cells, loaded in chunks, and the fluxes between them.

use std::ops::Range;

use super::physics::Physics;
use crate::tsunami::model::block::{BlockView, Input, MARGIN, State};
use crate::tsunami::model::face::{Cell, Flux, face_flux, per_depth};

/// Columns that are computed together: a narrower range takes as long as this many. If all of them and their
/// surroundings are dry, nothing is computed.
pub const CHUNK: usize = 32;

/// Faces from west to east of a chunk, one more than its cells, made up to whole vectors.
pub(super) const FACES: usize = CHUNK + 4;

/// Cells of a row after its whole chunks: those that the faces of the last chunk read, up to three cells beyond the
/// last face.
const BEYOND: usize = FACES + 4 - CHUNK;

/// A row of cells with what the fluxes need, from two columns west of the range to two
/// columns east, made up with dry cells to whole chunks.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) h: Vec<f64>,
    pub(super) eta: Vec<f64>,
    pub(super) u: Vec<f64>,
    pub(super) v: Vec<f64>,
    pub(super) hu: Vec<f64>,
    pub(super) hv: Vec<f64>,
    /// Whether a chunk, with two columns either side, holds any water.
    pub(super) wet: Vec<bool>,
}

/// Fluxes through `N` faces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fluxes<const N: usize> {
    mass: [f64; N],
    lower: [f64; N],
    higher: [f64; N],
    along: [f64; N],
}

/// One of the four cells of each of `N` faces.
pub(super) struct Cells<'a, const N: usize> {
    h: &'a [f64; N],
    eta: &'a [f64; N],
    normal: &'a [f64; N],
    along: &'a [f64; N],
}

impl Row {
    /// Loads the row at `line` of the arrays (margin rows counted).
    pub(super) fn load(
        &mut self,
        block: BlockView<'_>,
        physics: &Physics,
        input: &impl Input,
        line: usize,
        columns: &Range<usize>,
    ) {
        let chunks = columns.len().div_ceil(CHUNK);
        let width = chunks * CHUNK + BEYOND;
        let cells = columns.len() + 2 * MARGIN;
        let first = line * block.pitch + columns.start;
        let source = first..first + cells;
        let bed = &block.bed[source.clone()];
        let State { h, hu, hv } = input.elements(source);
        for (row, values) in [(&mut self.h, h), (&mut self.hu, hu), (&mut self.hv, hv), (&mut self.eta, bed)]
        {
            row.clear();
            row.extend_from_slice(values);
            row.resize(width, 0.0);
        }
        self.u.resize(width, 0.0);
        self.v.resize(width, 0.0);
        let (h, eta) = (&self.h[..width], &mut self.eta[..width]);
        let (u, v) = (&mut self.u[..width], &mut self.v[..width]);
        let (hu, hv) = (&self.hu[..width], &self.hv[..width]);
        for i in 0..width {
            let per_depth = per_depth(h[i], physics.dry);
            eta[i] += h[i];
            u[i] = hu[i] * per_depth;
            v[i] = hv[i] * per_depth;
        }
        self.wet.clear();
        self.wet.extend((0..chunks).map(|chunk| {
            let from = chunk * CHUNK;
            h[from..from + CHUNK + 2 * MARGIN].iter().any(|&h| h > 0.0)
        }));
    }

    /// `N` cells from `at`, seen from faces across the row.
    pub(super) fn across<const N: usize>(&self, at: usize) -> Cells<'_, N> {
        Cells {
            h: part(&self.h, at),
            eta: part(&self.eta, at),
            normal: part(&self.u, at),
            along: part(&self.v, at),
        }
    }

    /// `N` cells from `at`, seen from faces along the row.
    fn beside<const N: usize>(&self, at: usize) -> Cells<'_, N> {
        Cells {
            h: part(&self.h, at),
            eta: part(&self.eta, at),
            normal: part(&self.v, at),
            along: part(&self.u, at),
        }
    }
}

impl<const N: usize> Fluxes<N> {
    /// No flux, as between dry cells.
    pub(super) const NONE: Self = Self { mass: [0.0; N], lower: [0.0; N], higher: [0.0; N], along: [0.0; N] };

    pub(super) fn between(cells: [Cells<'_, N>; 4]) -> Self {
        let mut fluxes = Self::NONE;
        for i in 0..N {
            let flux = face_flux(cells.each_ref().map(|cells| cells.at(i)));
            fluxes.mass[i] = flux.mass;
            fluxes.lower[i] = flux.lower;
            fluxes.higher[i] = flux.higher;
            fluxes.along[i] = flux.along;
        }
        fluxes
    }

    #[inline(always)]
    pub(super) fn at(&self, i: usize) -> Flux {
        Flux { mass: self.mass[i], lower: self.lower[i], higher: self.higher[i], along: self.along[i] }
    }
}

impl<const N: usize> Cells<'_, N> {
    #[inline(always)]
    fn at(&self, i: usize) -> Cell {
        Cell { h: self.h[i], eta: self.eta[i], normal: self.normal[i], along: self.along[i] }
    }
}

/// Fluxes through the faces between the second and the third of four rows.
pub(super) fn y_fluxes(rows: [&Row; 4], chunk: usize) -> Fluxes<CHUNK> {
    if !rows.iter().any(|row| row.wet[chunk]) {
        return Fluxes::NONE;
    }
    Fluxes::between(rows.map(|row| row.beside(chunk * CHUNK + MARGIN)))
}

/// `N` elements from `at`. Rows are long enough by construction.
#[inline(always)]
pub(super) fn part<const N: usize>(row: &[f64], at: usize) -> &[f64; N] {
    let (part, _) = row[at..].split_first_chunk().expect("rows are made up to whole chunks");
    part
}
