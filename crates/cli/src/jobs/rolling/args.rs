//! The command line.

use std::path::PathBuf;

use clap::Args;

use crate::command::launch::RankArgs;
use haloport_demos::rolling::model::window::Window;

const EXAMPLES: &str = "\
Examples:
  haloport run rolling --window 30d --ranks 4
  haloport run rolling --table own.csv --time hour --value level --window 24";

/// Arguments of `haloport run rolling`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RollingArgs {
    /// Table to run on: CSV with a header, sorted by time; `#` begins a comment [default: shares and indices, 1990 to
    /// 2022]
    #[arg(long, value_name = "F.csv")]
    pub(super) table: Option<PathBuf>,
    /// Column of times: dates such as 2020-01-31, or numbers [default: the first]
    #[arg(long, value_name = "COLUMN")]
    pub(super) time: Option<String>,
    /// Columns of values, separated by commas; empty cells are missing values [default: all others]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub(super) value: Vec<String>,
    /// Length of the window, which ends with each row: with a unit (w, d, h, min, s) for dates, without one for numbers
    #[arg(long, value_name = "LENGTH", default_value = "365d", allow_hyphen_values = true)]
    pub(super) window: Window,
    #[command(flatten)]
    pub(super) ranks: RankArgs,
    /// Folder for the means and a picture
    #[arg(long, value_name = "DIR", default_value = "out/rolling")]
    pub(super) out: PathBuf,
    /// Also check the results, and exit with 1 if a check fails
    #[arg(long)]
    pub(super) verify: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}
