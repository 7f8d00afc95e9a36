//! The command line.

use std::path::PathBuf;

use clap::Args;
use haloport::DeviceSpec;

use crate::launch::RankArgs;
use crate::trace::TraceArgs;

/// The longest run, in simulated hours.
const MOST_HOURS: f64 = 1000.0;

/// Arguments of `haloport run tsunami`.
#[derive(Debug, Args)]
pub(crate) struct TsunamiArgs {
    /// Relief to run on: a .npz file with `topo` (rows by columns, metres), `longitude` and `latitude` (degrees)
    /// [default: southern Vancouver Island and the Salish Sea]
    #[arg(long, value_name = "F.npz")]
    pub(super) bathymetry: Option<PathBuf>,
    /// Cells that each cell of the relief is cut into, along each axis
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = at_least_1, allow_negative_numbers = true)]
    pub(super) refine: usize,
    #[command(flatten)]
    pub(super) ranks: RankArgs,
    /// The device: auto, cpu, cpu:threads=4, or, in builds with those features, cuda, cuda:1, sycl, sycl:gpu:0
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(super) device: DeviceSpec,
    /// Hours to simulate
    #[arg(long, value_name = "H", default_value_t = 2.0, value_parser = hours, allow_negative_numbers = true)]
    pub(super) hours: f64,
    /// Start each exchange and finish it at once. Without this, cells that need no halo are computed in between, with the
    /// same results
    #[arg(long)]
    pub(super) no_overlap: bool,
    /// Folder for pictures and tide gauges
    #[arg(long, value_name = "DIR", default_value = "out/tsunami")]
    pub(super) out: PathBuf,
    /// Check the results as well, on a device other than the host also against the CPU backend, and end with 1 if a
    /// check fails
    #[arg(long)]
    pub(super) verify: bool,
    #[command(flatten)]
    pub(super) trace: TraceArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

fn at_least_1(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&number| number >= 1)
        .ok_or_else(|| format!("expected a whole number from 1; found `{text}`"))
}

fn hours(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|&hours| hours > 0.0 && hours <= MOST_HOURS)
        .ok_or_else(|| format!("expected hours above 0 and at most {MOST_HOURS}; found `{text}`"))
}
