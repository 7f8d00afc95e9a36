//! The command line.

use clap::{Args, ValueEnum};

use super::loggp::LogGp;
use crate::bench::exchange::Extents;
use crate::command::launch::rank_count;
use crate::command::values::at_least;

const EXAMPLES: &str = "\
Examples:
  haloport bench scaling --ranks 64,512 --local 16,16,16
  haloport bench scaling --node 64 --json";

/// Arguments of `haloport bench scaling`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ScalingArgs {
    /// Numbers of ranks to simulate
    #[arg(long, value_name = "N,N", default_value = "16,64,256,1024,4096,16384", value_delimiter = ',',
          value_parser = rank_count)]
    pub(super) ranks: Vec<usize>,
    /// Cells of the grid that each rank owns along each of 1 to 4 axes, all periodic
    #[arg(long, value_name = "N,N,N", default_value = "32,32,32", value_parser = Extents::parse)]
    pub(super) local: Extents,
    /// Halo width of the grid in cells, on every side
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = at_least::<u32, 1>, allow_negative_numbers = true)]
    pub(super) halo: u32,
    /// Cells of the mesh that each rank owns, about
    #[arg(long, value_name = "C", default_value_t = 80, value_parser = at_least::<u32, 20>, allow_negative_numbers = true)]
    pub(super) cells: u32,
    /// Method by which the mesh is cut into parts
    #[arg(long, default_value = "curve")]
    pub(super) partition: PartitionMethod,
    /// Levels of each cell of the mesh
    #[arg(long, value_name = "L", default_value_t = 80, value_parser = at_least::<u32, 1>, allow_negative_numbers = true)]
    pub(super) levels: u32,
    /// Ranks on one node, which share memory
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = at_least::<u32, 1>, allow_negative_numbers = true)]
    pub(super) node: u32,
    /// The network: latency, overhead and gap in ns, and gap for each byte in ns
    #[arg(long, value_name = "L,o,g,G", default_value = "3700,200,5,0.04", value_parser = LogGp::parse)]
    pub(super) loggp: LogGp,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// The method by which a mesh is cut into parts.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum PartitionMethod {
    /// Along Hilbert's space-filling curve.
    Curve,
    /// By METIS, in builds with that feature.
    Metis,
}
