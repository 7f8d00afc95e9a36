//! The stencils of a rank's cells, in the order in which they are computed.
//!
//! A rank advances the cells that it owns. It needs the gradients of those cells and of their upwind neighbours in the
//! halo, and so the tracer two steps beyond its own cells: halo levels 1 and 2 over edges, with one exchange for each
//! stage. The gradients of halo cells are computed by each rank that needs them, which is less work than an exchange.

use haloport::Pattern;
use haloport::pattern::CellRegions;
use haloport_mesh::{LocalMesh, Mesh};

use super::stencil::{EDGES, Flow, flows, neighbours};
use super::wind::Wind;

/// Levels of halo cells, by the number of edges to cross.
pub const HALO_LEVELS: usize = 2;

/// The cells computed while halos travel, and those afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// Gradients that need no halo.
    pub inner_gradients: GradientTable,
    /// Owned cells whose flows need no other gradients.
    pub inner_flows: FlowTable,
    /// The other gradients.
    pub outer_gradients: GradientTable,
    /// The other owned cells.
    pub outer_flows: FlowTable,
}

/// Cells whose gradient is computed; see [`GradientTerms`](super::scheme::GradientTerms). Indices are local.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GradientTable {
    /// The cells.
    pub cells: Vec<i32>,
    /// The neighbours of each.
    pub neighbours: Vec<[i32; EDGES]>,
    /// Weights and offsets of each.
    pub terms: Vec<[[f64; 4]; EDGES]>,
}

/// Cells that are advanced; see [`FlowTerms`](super::scheme::FlowTerms). Indices are local.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowTable {
    /// The cells.
    pub cells: Vec<i32>,
    /// The upwind cells of the edges of each.
    pub upwind: Vec<[i32; EDGES]>,
    /// Fluxes and offsets of each.
    pub terms: Vec<[[f64; 3]; EDGES]>,
    /// Time step divided by area, of each.
    pub scale: Vec<f64>,
}

impl Tables {
    /// The tables for the cells of `local`, a part of `mesh` with [`HALO_LEVELS`] levels over edges, and time steps of
    /// `time_step` days. Cells that need no halo, by `pattern`, are computed while halos travel; without it, all are
    /// computed afterwards.
    pub fn new(
        mesh: &Mesh,
        local: &LocalMesh,
        wind: &Wind,
        time_step: f64,
        pattern: Option<&Pattern>,
    ) -> Tables {
        let cells = local.cells();
        let flows: Vec<[Flow; EDGES]> =
            (0..cells.owned()).map(|cell| flows(mesh, wind, cells.global(cell))).collect();
        // An upwind cell is this one or next to it, so it is in the part.
        let upwind = |cell: usize| flows[cell].map(|flow| cells.local(flow.upwind).unwrap_or(cell));
        // A neighbour outside of the part is not an owned cell.
        let beyond = cells.len();
        let around = |cell: usize| {
            let across = local.cell_neighbours(cell).iter();
            across.map(move |other| other.unwrap_or(beyond)).chain([cell])
        };
        let marked = |regions: Option<CellRegions>| {
            let mut marks = vec![false; cells.len()];
            regions.iter().flat_map(|it| &it.interior).for_each(|&cell| marks[cell as usize] = true);
            marks
        };
        let inner_gradients = marked(pattern.and_then(|pattern| pattern.cell_regions(0, around)));
        let inner_flows =
            marked(pattern.and_then(|pattern| {
                pattern.cell_regions(0, |cell| upwind(cell).into_iter().flat_map(around))
            }));

        let mut made = Tables {
            inner_gradients: GradientTable::default(),
            inner_flows: FlowTable::default(),
            outer_gradients: GradientTable::default(),
            outer_flows: FlowTable::default(),
        };
        let mut needed = vec![false; cells.len()];
        for (cell, flows) in flows.iter().enumerate() {
            let upwind = upwind(cell);
            upwind.into_iter().for_each(|cell| needed[cell] = true);
            let table = if inner_flows[cell] { &mut made.inner_flows } else { &mut made.outer_flows };
            table.cells.push(cell as i32);
            table.upwind.push(upwind.map(|cell| cell as i32));
            table.terms.push(flows.map(|flow| [flow.flux, flow.offset[0], flow.offset[1]]));
            table.scale.push(time_step / mesh.cell_area(cells.global(cell)));
        }
        for cell in (0..cells.len()).filter(|&cell| needed[cell]) {
            let neighbours = neighbours(mesh, cells.global(cell));
            let table =
                if inner_gradients[cell] { &mut made.inner_gradients } else { &mut made.outer_gradients };
            table.cells.push(cell as i32);
            // The neighbours of a cell of level 1 are at level 2 at most.
            table.neighbours.push(neighbours.map(|other| cells.local(other.cell).unwrap_or(cell) as i32));
            let terms = neighbours.map(|it| [it.weights[0], it.weights[1], it.offset[0], it.offset[1]]);
            table.terms.push(terms);
        }
        made
    }
}
