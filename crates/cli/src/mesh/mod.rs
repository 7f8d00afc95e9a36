//! `haloport mesh`: unstructured meshes and their partitions.

pub(crate) mod choice;
mod info;
pub(crate) mod name;
mod partition;
mod source;

use clap::Subcommand;

use crate::command::failure::Failure;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum MeshCommand {
    /// Count cells, edges and vertices, and measure them.
    Info(info::InfoArgs),
    /// Cut a mesh into parts, and list the cells of each part.
    Partition(partition::PartitionArgs),
}

/// Runs a subcommand.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &MeshCommand) -> Result<(), Failure> {
    match command {
        MeshCommand::Info(args) => info::run(args),
        MeshCommand::Partition(args) => partition::run(args),
    }
}
