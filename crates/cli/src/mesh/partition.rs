//! `haloport mesh partition`: parts, their halos and their neighbours.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use haloport_mesh::partition::read_parts;
use haloport_mesh::{LocalMesh, Mesh, Neighbourhood, Partition, PartitionError};
use serde::Serialize;

use super::choice::PartitionChoice;
use super::source::MeshSource;
use crate::command::endings::named;
use crate::command::failure::Failure;
use crate::command::output;
use crate::command::print::{self, Report as _};
use crate::command::text::counted;
use crate::command::values::at_least;

const EXAMPLES: &str = "\
Examples:
  haloport mesh partition icon:R2B4 --parts 8 --halo 2
  haloport mesh partition plate.msh --parts 4 --out parts
  haloport mesh partition plate.msh --partition parts --neighbours vertices";

/// Arguments of `haloport mesh partition`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PartitionArgs {
    /// A file of Gmsh (MSH 4.1, ASCII), `icosahedral:N` (N divisions) or `icon:RnBk` (ICON's grids)
    mesh: MeshSource,
    /// Number of parts; not needed if a file gives them
    #[arg(long, value_name = "N", value_parser = at_least::<usize, 1>, allow_negative_numbers = true)]
    parts: Option<usize>,
    /// Which part gets which cells: curve (a space-filling curve), metis (in builds with that feature), or a file with
    /// the number of a part, from 0, on each line
    #[arg(long, value_name = "HOW", default_value = "curve")]
    partition: PartitionChoice,
    /// Allow parts that a file leaves empty
    #[arg(long)]
    allow_empty: bool,
    /// Halo width in levels of cells around the owned ones
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = at_least::<usize, 0>, allow_negative_numbers = true)]
    halo: usize,
    /// Which cells are one level apart: those with a common edge, or a common vertex
    #[arg(long, default_value = "edges")]
    neighbours: Adjacency,
    /// Write the part of each cell to this file
    #[arg(long, value_name = "FILE", value_parser = named("txt"))]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Adjacency {
    Edges,
    Vertices,
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    mesh: String,
    partition: String,
    cells: usize,
    /// Levels of cells.
    halo: usize,
    neighbours: Adjacency,
    /// Edges between cells of different parts.
    edge_cut: usize,
    min_owned: usize,
    max_owned: usize,
    max_halo: usize,
    parts: Vec<PartReport>,
}

#[derive(Debug, Serialize)]
struct PartReport {
    part: usize,
    /// Cells.
    owned: usize,
    /// Halo cells.
    halo: usize,
    /// Parts that own halo cells of this one.
    neighbours: Vec<usize>,
}

/// Cuts the mesh, and prints the cells of each part.
///
/// # Errors
/// [`Failure::BadInput`] if the inputs hold no mesh or no partition of it; [`Failure::Run`] if results cannot be
/// written.
pub(crate) fn run(args: &PartitionArgs) -> Result<(), Failure> {
    let mesh = args.mesh.load()?;
    let partition = args.partition(&mesh)?;
    if let Some(path) = &args.out {
        output::write(path, partition.to_text().as_bytes())
            .map_err(|error| Failure::Run(format!("--out: cannot write {}: {error}", path.display())))?;
    }
    Report::new(args, &mesh, &partition).print(args.json)
}

impl PartitionArgs {
    fn partition(&self, mesh: &Mesh) -> Result<Partition, Failure> {
        let wanted = || {
            let method = &self.partition;
            self.parts
                .ok_or_else(|| Failure::BadInput(format!("--partition {method} needs a number of --parts")))
        };
        let bad_parts = |error: PartitionError| Failure::BadInput(format!("--parts: {error}"));
        match &self.partition {
            PartitionChoice::Curve => Partition::by_curve(mesh, wanted()?).map_err(bad_parts),
            PartitionChoice::Metis => metis(mesh, wanted()?),
            PartitionChoice::File(path) => {
                if !path.is_file() {
                    let found = path.display();
                    return Err(Failure::BadInput(format!(
                        "--partition: expected curve, metis or a file of parts; there is no file `{found}`"
                    )));
                }
                let read = if self.allow_empty {
                    self.with_empty_parts(mesh, path)
                } else {
                    Partition::read(mesh, path, self.parts)
                };
                read.map_err(|error| {
                    Failure::BadInput(format!("--partition {path}: {error}", path = path.display()))
                })
            }
        }
    }

    fn with_empty_parts(&self, mesh: &Mesh, path: &std::path::Path) -> Result<Partition, PartitionError> {
        let part_of_cell = read_parts(path)?;
        let highest = part_of_cell.iter().max().map_or(0, |&part| part);
        let parts = self.parts.unwrap_or(highest.saturating_add(1));
        Partition::with_empty_parts(mesh, part_of_cell, parts)
    }
}

#[cfg(feature = "metis")]
fn metis(mesh: &Mesh, parts: usize) -> Result<Partition, Failure> {
    Partition::metis(mesh, parts).map_err(|error| match error {
        PartitionError::Metis(_) => Failure::Run(error.to_string()),
        _ => Failure::BadInput(format!("--parts: {error}")),
    })
}

#[cfg(not(feature = "metis"))]
fn metis(_: &Mesh, _: usize) -> Result<Partition, Failure> {
    let built = "this `haloport` was built without METIS; build it with `--features metis`, or choose --partition curve";
    Err(Failure::BadInput(format!("--partition: {built}")))
}

impl Report {
    fn new(args: &PartitionArgs, mesh: &Mesh, partition: &Partition) -> Report {
        let neighbourhood = match args.neighbours {
            Adjacency::Edges => Neighbourhood::Edges,
            Adjacency::Vertices => Neighbourhood::Vertices,
        };
        let report = |part| {
            let local = LocalMesh::new(mesh, partition, part, args.halo, neighbourhood);
            let (owned, halo) = (local.cells().owned(), local.cells().halo().len());
            PartReport { part, owned, halo, neighbours: local.neighbours() }
        };
        let parts: Vec<PartReport> = (0..partition.parts()).map(report).collect();
        let owned = || parts.iter().map(|part| part.owned);
        Report {
            mesh: args.mesh.to_string(),
            partition: args.partition.to_string(),
            cells: mesh.cells(),
            halo: args.halo,
            neighbours: args.neighbours,
            edge_cut: partition.edge_cut(mesh),
            min_owned: owned().min().unwrap_or(0),
            max_owned: owned().max().unwrap_or(0),
            max_halo: parts.iter().map(|part| part.halo).max().unwrap_or(0),
            parts,
        }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let steps = match self.neighbours {
            Adjacency::Edges => "edges",
            Adjacency::Vertices => "vertices",
        };
        writeln!(
            out,
            "{}: {} cells, {} parts by {}",
            self.mesh,
            self.cells,
            self.parts.len(),
            self.partition
        )?;
        writeln!(out, "owned cells {} to {}, edge cut {}", self.min_owned, self.max_owned, self.edge_cut)?;
        writeln!(
            out,
            "halo of {} over common {steps}, at most {} cells\n",
            counted(self.halo, "level"),
            self.max_halo
        )?;
        writeln!(out, "{:>8} {:>10} {:>10}  neighbours", "part", "owned", "halo")?;
        for PartReport { part, owned, halo, neighbours } in &self.parts {
            let listed: Vec<String> = neighbours.iter().map(usize::to_string).collect();
            writeln!(out, "{part:>8} {owned:>10} {halo:>10}  {}", listed.join(" "))?;
        }
        Ok(())
    }
}
