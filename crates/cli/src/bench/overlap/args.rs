//! The command line.

use clap::Args;

use super::network::Network;
use crate::bench::block::MemoryArgs;
use crate::bench::exchange::Extents;
use crate::command::device::DeviceArgs;
use crate::command::launch::RankArgs;
use crate::command::values::at_least;

const EXAMPLES: &str = "\
Examples:
  haloport bench overlap --local 128,128,128 --work 2000 --ranks 2
  haloport bench overlap --network 10,50 --ranks 2
  scripts/two-nodes --rate 1gbit 2 target/release/haloport bench overlap --fields 4";

/// Arguments of `haloport bench overlap`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OverlapArgs {
    /// Cells that each rank owns along each of 1 to 4 axes, all periodic; ranks are neighbours along the first
    #[arg(long, value_name = "N,N,N", default_value = "64,64,64", value_parser = Extents::parse)]
    pub(super) local: Extents,
    /// Halo width in cells, on every side
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = at_least::<usize, 1>, allow_negative_numbers = true)]
    pub(super) halo: usize,
    /// Number of fields in one exchange
    #[arg(long, value_name = "F", default_value_t = 1, value_parser = at_least::<usize, 1>, allow_negative_numbers = true)]
    pub(super) fields: usize,
    /// Work between the start of an exchange and its end, in microseconds: arithmetic in a core's own cache, with --network as long as the
    /// clock says
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 2000, value_parser = at_least::<u64, 1>, allow_negative_numbers = true)]
    pub(super) work: u64,
    /// Simulate a network of this rate and latency between ranks that are threads; a message takes no time of a core
    #[arg(long, value_name = "GBIT/S,MICROSECONDS", allow_negative_numbers = true)]
    pub(super) network: Option<Network>,
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
