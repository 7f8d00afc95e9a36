//! The command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::bench::block::MemoryArgs;
use crate::bench::boundary::BoundaryArgs;
use crate::command::device::DeviceArgs;
use crate::command::launch::RankArgs;
use crate::command::values::at_least;

const EXAMPLES: &str = "\
Examples:
  haloport bench unstructured --levels 1 --ranks 2
  haloport bench unstructured --domains domains.npz --order slowest
  haloport bench unstructured --nproma 32";

/// Arguments of `haloport bench unstructured`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UnstructuredArgs {
    /// The domains: a .npz file with the arrays `owned_R` and `halo_R` of global ids for each rank R [default: an
    /// icosahedral mesh of 2 × 20,250 cells, for 2 ranks]
    #[arg(long, value_name = "FILE")]
    pub(super) domains: Option<PathBuf>,
    /// Levels of each cell; 1 for fields without levels
    #[arg(long, value_name = "L", default_value_t = 80, value_parser = at_least::<u32, 1>, allow_negative_numbers = true)]
    pub(super) levels: u32,
    /// Order of the levels in memory
    #[arg(long, default_value = "fastest")]
    pub(super) order: Order,
    /// Lay the cells out in blocks of N, each with its levels, and measure the order `slowest` beside it
    #[arg(long, value_name = "N", conflicts_with = "order", value_parser = at_least::<u32, 1>, allow_negative_numbers = true)]
    pub(super) nproma: Option<u32>,
    /// Number of fields in one exchange
    #[arg(long, value_name = "F", default_value_t = 1, value_parser = at_least::<u32, 1>, allow_negative_numbers = true)]
    pub(super) fields: u32,
    #[command(flatten)]
    pub(super) boundary: BoundaryArgs,
    #[command(flatten)]
    pub(super) memory: MemoryArgs,
    #[command(flatten)]
    pub(super) ranks: RankArgs,
    /// Number of samples of each contestant
    #[arg(long, value_name = "S", default_value_t = 200, value_parser = at_least::<u32, 1>, allow_negative_numbers = true)]
    pub(super) samples: u32,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

impl UnstructuredArgs {
    /// The strides from cell to cell and from level to level, in values, of a field with `cells` cells.
    pub(super) fn strides(&self, cells: usize) -> (usize, usize) {
        if self.order == Order::Fastest { (self.levels as usize, 1) } else { (1, cells) }
    }
}

/// The order of the levels in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    /// The levels of a cell side by side.
    Fastest,
    /// Each level as a block of its own.
    Slowest,
}
