//! The command line.

use clap::Args;

use crate::command::launch::RankArgs;
use crate::mesh::name::MeshName;

/// The highest degree; no mesh is fine enough for it.
const MOST_DEGREE: u32 = 1000;

const EXAMPLES: &str = "\
Examples:
  haloport run poisson --ranks 4
  haloport run poisson --mesh icosahedral:24 --degree 6 --verify --json";

/// Arguments of `haloport run poisson`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PoissonArgs {
    /// The finest mesh: icon:RnBk, ICON's grid of that name, or icosahedral:n, an icosahedron with its edges cut into n parts
    #[arg(long, value_name = "MESH", default_value = "icon:R2B3")]
    pub(super) mesh: MeshName,
    /// Degree of the spherical harmonic that is the exact solution
    #[arg(long, value_name = "L", default_value_t = 4, value_parser = degree, allow_negative_numbers = true)]
    pub(super) degree: u32,
    #[command(flatten)]
    pub(super) ranks: RankArgs,
    /// Also check the results, and exit with 1 if a check fails
    #[arg(long)]
    pub(super) verify: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

fn degree(text: &str) -> Result<u32, String> {
    let degree = text.parse().ok().filter(|degree| (1..=MOST_DEGREE).contains(degree));
    degree.ok_or_else(|| format!("expected a whole number from 1 to {MOST_DEGREE}; found `{text}`"))
}
