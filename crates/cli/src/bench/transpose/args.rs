//! The command line.

use clap::Args;

use crate::bench::block::MemoryArgs;
use crate::bench::exchange::Extents;
use crate::command::device::DeviceArgs;
use crate::command::launch::RankArgs;
use crate::command::values::at_least;

const EXAMPLES: &str = "\
Examples:
  haloport bench transpose --cells 256,256,256 --ranks 2
  haloport bench transpose --fields 4 --path messages --json";

/// Arguments of `haloport bench transpose`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TransposeArgs {
    /// Cells of the whole grid along each of 2 to 4 axes: the first and the second are cut into equal parts for the ranks
    #[arg(long, value_name = "N,N,N", default_value = "256,256,256", value_parser = Extents::parse)]
    pub(super) cells: Extents,
    /// Number of fields in one transpose
    #[arg(long, value_name = "F", default_value_t = 1, value_parser = at_least::<usize, 1>, allow_negative_numbers = true)]
    pub(super) fields: usize,
    #[command(flatten)]
    pub(super) ranks: RankArgs,
    /// Number of samples of each contestant
    #[arg(long, value_name = "S", default_value_t = 50, value_parser = at_least::<usize, 1>, allow_negative_numbers = true)]
    pub(super) samples: usize,
    #[command(flatten)]
    pub(super) memory: MemoryArgs,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}
