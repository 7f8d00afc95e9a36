//! The command line.

use std::fmt;
use std::path::PathBuf;

use clap::Args;

use crate::command::device::DeviceArgs;
use crate::command::launch::RankArgs;
use crate::command::values::{at_least, degrees};
use crate::jobs::common::files::FileArgs;
use crate::trace::TraceArgs;
use haloport_demos::tsunami::model::uplift::Uplift;

/// The longest run, in simulated hours.
const MOST_HOURS: f64 = 1000.0;

/// The highest uplift, metres.
const MOST_HEIGHT: f64 = 1000.0;

/// The longest and widest uplift, kilometres.
const MOST_KILOMETRES: f64 = 10_000.0;

/// The defaults of the uplift's options.
const UPLIFT: Uplift = Uplift::SHIPPED;

const EXAMPLES: &str = "\
Examples:
  haloport run tsunami --hours 1 --out here
  haloport run tsunami --uplift-at -125.4,48.37 --uplift-height 4
  haloport run tsunami --bathymetry aegean.npz --uplift-at 25.4,36.5
  haloport run tsunami --hours 1 --save an-hour.zarr
  haloport run tsunami --hours 3 --restart an-hour.zarr
  haloport run tsunami --ranks 4 --verify --json";

/// Arguments of `haloport run tsunami`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TsunamiArgs {
    /// Relief to run on: a .npz file with `topo` (rows by columns, metres), `longitude` and `latitude` (degrees)
    /// [default: southern Vancouver Island and the Salish Sea]
    #[arg(long, value_name = "F.npz")]
    pub(super) bathymetry: Option<PathBuf>,
    /// Cells along each axis into which a cell of the relief is cut
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = at_least::<usize, 1>, allow_negative_numbers = true)]
    pub(super) refine: usize,
    #[command(flatten)]
    pub(super) uplift: UpliftArgs,
    #[command(flatten)]
    pub(super) ranks: RankArgs,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// Hours to simulate
    #[arg(long, value_name = "H", default_value_t = 2.0, value_parser = hours, allow_negative_numbers = true)]
    pub(super) hours: f64,
    /// Compute nothing while halos travel. The results are the same
    #[arg(long)]
    pub(super) no_overlap: bool,
    /// Folder for pictures and tide gauges
    #[arg(long, value_name = "DIR", default_value = "out/tsunami")]
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

/// The hump of the sea surface that starts the wave.
#[derive(Debug, Args)]
pub(super) struct UpliftArgs {
    /// Top of the uplift of the sea surface that starts the wave: degrees east and north
    #[arg(long = "uplift-at", value_name = "LON,LAT", default_value_t = Pair([UPLIFT.longitude, UPLIFT.latitude]),
          value_parser = position, allow_hyphen_values = true, conflicts_with = "restart")]
    at: Pair,
    /// Height of the uplift, metres; negative for a trough
    #[arg(long = "uplift-height", value_name = "M", default_value_t = UPLIFT.height, value_parser = height,
          allow_negative_numbers = true, conflicts_with = "restart")]
    height: f64,
    /// Length and width of the uplift, kilometres: from its top to 0.61 of its height
    #[arg(long = "uplift-size", value_name = "L,W", default_value_t = Pair([UPLIFT.length / 1e3, UPLIFT.width / 1e3]),
          value_parser = size, allow_hyphen_values = true, conflicts_with = "restart")]
    size: Pair,
    /// Direction of the uplift's length, degrees clockwise from north
    #[arg(long = "uplift-strike", value_name = "DEGREES", default_value_t = UPLIFT.strike, value_parser = degrees,
          allow_negative_numbers = true, conflicts_with = "restart")]
    strike: f64,
}

impl UpliftArgs {
    pub(super) fn uplift(&self) -> Uplift {
        let (Pair([longitude, latitude]), Pair([length, width])) = (self.at, self.size);
        let (height, strike) = (self.height, self.strike);
        Uplift { longitude, latitude, height, length: 1e3 * length, width: 1e3 * width, strike }
    }
}

/// Two numbers separated by a comma.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair([f64; 2]);

impl Pair {
    fn parse(text: &str) -> Option<Pair> {
        let (first, second) = text.split_once(',')?;
        let [first, second] = [first, second].map(|number| number.trim().parse().ok());
        Some(Pair([first?, second?]))
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.0[0], self.0[1])
    }
}

fn position(text: &str) -> Result<Pair, String> {
    let position = Pair::parse(text).filter(|Pair([east, north])| east.abs() <= 360.0 && north.abs() <= 90.0);
    position.ok_or_else(|| {
        format!("expected degrees east from -360 to 360 and north from -90 to 90, such as -125.4,48.37; found `{text}`")
    })
}

fn size(text: &str) -> Result<Pair, String> {
    let size =
        Pair::parse(text).filter(|Pair(size)| size.iter().all(|km| (0.1..=MOST_KILOMETRES).contains(km)));
    size.ok_or_else(|| {
        format!(
            "expected two lengths from 0.1 to {MOST_KILOMETRES} kilometres, such as 26,12; found `{text}`"
        )
    })
}

fn height(text: &str) -> Result<f64, String> {
    let height = text.parse().ok().filter(|height: &f64| height.abs() <= MOST_HEIGHT);
    height.ok_or_else(|| format!("expected metres from -{MOST_HEIGHT} to {MOST_HEIGHT}; found `{text}`"))
}

fn hours(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|&hours| hours > 0.0 && hours <= MOST_HOURS)
        .ok_or_else(|| format!("expected hours above 0 and at most {MOST_HOURS}; found `{text}`"))
}
