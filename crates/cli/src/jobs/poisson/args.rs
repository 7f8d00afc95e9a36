//! The command line.

use clap::Args;

use crate::command::launch::RankArgs;
use crate::command::values::at_least;
use crate::mesh::name::MeshName;

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
    #[arg(long, value_name = "L", default_value_t = 4, value_parser = at_least::<u32, 1>, allow_negative_numbers = true)]
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
