//! `haloport mesh info`: counts and sizes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use haloport_mesh::{Mesh, Surface};
use serde::Serialize;

use super::source::MeshSource;
use crate::command::failure::Failure;
use crate::command::print::{self, Report as _};

const EXAMPLES: &str = "\
Examples:
  haloport mesh info icon:R2B4
  haloport mesh info plate.msh --json";

/// Arguments of `haloport mesh info`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InfoArgs {
    /// A file of Gmsh (MSH 4.1, ASCII), `icosahedral:N` (N divisions) or `icon:RnBk` (ICON's grids)
    mesh: MeshSource,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The object that `--json` prints. Lengths are in the units of the file, and angles on the unit sphere.
#[derive(Debug, Serialize)]
struct Report {
    mesh: String,
    surface: &'static str,
    cells: usize,
    edges: usize,
    vertices: usize,
    /// The numbers of cells by their number of vertices.
    cells_by_vertices: BTreeMap<usize, usize>,
    euler_characteristic: i64,
    boundary_edges: usize,
    area: f64,
    cell_area: Spread,
    edge_length: Spread,
}

#[derive(Debug, Serialize)]
struct Spread {
    min: f64,
    max: f64,
}

/// Prints counts and sizes.
///
/// # Errors
/// [`Failure::BadInput`] if the file holds no mesh; [`Failure::Run`] if stdout cannot be written.
pub(crate) fn run(args: &InfoArgs) -> Result<(), Failure> {
    Report::new(&args.mesh, &args.mesh.load()?).print(args.json)
}

impl Report {
    fn new(source: &MeshSource, mesh: &Mesh) -> Report {
        let mut cells_by_vertices = BTreeMap::new();
        for cell in 0..mesh.cells() {
            *cells_by_vertices.entry(mesh.cell_vertices(cell).len()).or_insert(0) += 1;
        }
        let areas = || (0..mesh.cells()).map(|cell| mesh.cell_area(cell));
        Report {
            mesh: source.to_string(),
            surface: match mesh.surface() {
                Surface::UnitSphere => "unit sphere",
                Surface::Flat => "flat cells",
            },
            cells: mesh.cells(),
            edges: mesh.edges(),
            vertices: mesh.vertices(),
            cells_by_vertices,
            euler_characteristic: mesh.euler_characteristic(),
            boundary_edges: mesh.boundary_edges(),
            area: areas().sum(),
            cell_area: Spread::of(areas()),
            edge_length: Spread::of((0..mesh.edges()).map(|edge| mesh.edge_length(edge))),
        }
    }
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let widen =
            |spread: Spread, value: f64| Spread { min: spread.min.min(value), max: spread.max.max(value) };
        values.fold(Spread { min: f64::INFINITY, max: f64::NEG_INFINITY }, widen)
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let kinds = self.cells_by_vertices.iter().map(|(vertices, cells)| {
            let kind = match vertices {
                3 => "triangles".to_string(),
                4 => "quadrangles".to_string(),
                more => format!("polygons of {more} vertices"),
            };
            format!("{cells} {kind}")
        });
        let Report { area, cell_area, edge_length, .. } = self;
        writeln!(out, "{}: {}", self.mesh, self.surface)?;
        writeln!(
            out,
            "  cells                 {:>12}  ({})",
            self.cells,
            kinds.collect::<Vec<_>>().join(", ")
        )?;
        writeln!(out, "  edges                 {:>12}", self.edges)?;
        writeln!(out, "  vertices              {:>12}", self.vertices)?;
        writeln!(out, "  Euler characteristic  {:>12}", self.euler_characteristic)?;
        writeln!(out, "  boundary edges        {:>12}", self.boundary_edges)?;
        writeln!(out, "  area                  {area:>12.6}")?;
        writeln!(out, "  cell area             {:>12.4e}  to {:.4e}", cell_area.min, cell_area.max)?;
        writeln!(out, "  edge length           {:>12.4e}  to {:.4e}", edge_length.min, edge_length.max)
    }
}
