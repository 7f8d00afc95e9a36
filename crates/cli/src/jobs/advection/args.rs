//! The command line.

use std::path::PathBuf;

use clap::Args;

use crate::command::device::DeviceArgs;
use crate::command::launch::RankArgs;
use crate::command::values::degrees;
use crate::jobs::common::files::FileArgs;
use crate::mesh::choice::PartitionChoice;
use crate::mesh::name::MeshName;
use crate::trace::TraceArgs;
use haloport_demos::advection::model::tracer::Shape;

/// The longest run, in days.
const MOST_DAYS: f64 = 10_000.0;

/// The most levels.
const MOST_LEVELS: usize = 10_000;

const EXAMPLES: &str = "\
Examples:
  haloport run advection --mesh icon:R2B5 --ranks 8
  haloport run advection --tracer bell --limited --out here
  haloport run advection --days 1 --verify --json";

/// Arguments of `haloport run advection`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AdvectionArgs {
    /// The mesh: icon:RnBk, ICON's grid of that name, or icosahedral:n, an icosahedron with its edges cut into n parts
    #[arg(long, value_name = "MESH", default_value = "icon:R2B4")]
    pub(super) mesh: MeshName,
    #[command(flatten)]
    pub(super) ranks: RankArgs,
    /// Partition of the cells: curve (a space-filling curve), metis (in builds with that feature), or a file with the
    /// number of a rank on each line
    #[arg(long, value_name = "HOW", default_value = "curve")]
    pub(super) partition: PartitionChoice,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// Days to simulate; the wind goes round the sphere in 12
    #[arg(long, value_name = "D", default_value_t = 12.0, value_parser = days, allow_negative_numbers = true)]
    pub(super) days: f64,
    /// Tilt of the wind's axis, degrees
    #[arg(long, value_name = "DEGREES", default_value_t = 45.0, value_parser = degrees, allow_negative_numbers = true)]
    pub(super) alpha: f64,
    /// The hill of tracer: gaussian (smooth) or bell (the cosine bell, which has a kink in its slope)
    #[arg(long, value_name = "HILL", default_value_t)]
    pub(super) tracer: Shape,
    /// Levels above each cell, each with a hill at another place
    #[arg(long, value_name = "L", default_value_t = 1, value_parser = levels, allow_negative_numbers = true)]
    pub(super) levels: usize,
    /// Limit the slopes, so that no value becomes negative, at the price of accuracy
    #[arg(long)]
    pub(super) limited: bool,
    /// Compute nothing while halos travel. The results are the same
    #[arg(long)]
    pub(super) no_overlap: bool,
    /// Folder for the picture
    #[arg(long, value_name = "DIR", default_value = "out/advection")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(super) files: FileArgs,
    /// Also check the results (on a device other than the host, also against the CPU backend), and exit with 1 if a check
    /// fails
    #[arg(long)]
    pub(super) verify: bool,
    #[command(flatten)]
    pub(super) trace: TraceArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

fn days(text: &str) -> Result<f64, String> {
    let days = text.parse().ok().filter(|&days| days > 0.0 && days <= MOST_DAYS);
    days.ok_or_else(|| format!("expected days above 0 and at most {MOST_DAYS}; found `{text}`"))
}

fn levels(text: &str) -> Result<usize, String> {
    let levels = text.parse().ok().filter(|levels| (1..=MOST_LEVELS).contains(levels));
    levels.ok_or_else(|| format!("expected a whole number from 1 to {MOST_LEVELS}; found `{text}`"))
}
