//! `haloport mesh`: unstructured meshes, and how they are cut into parts.

pub(crate) mod choice;
mod info;
pub(crate) mod name;
mod partition;
mod source;

use clap::Subcommand;

use crate::command::failure::Failure;

/// What can be done with a mesh.
#[derive(Debug, Subcommand)]
pub(crate) enum MeshCommand {
    /// Count cells, edges and vertices, and measure them.
    Info(info::InfoArgs),
    /// Cut a mesh into parts, and say what each part holds.
    Partition(partition::PartitionArgs),
}

/// Does what is asked for.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &MeshCommand) -> Result<(), Failure> {
    match command {
        MeshCommand::Info(args) => info::run(args),
        MeshCommand::Partition(args) => partition::run(args),
    }
}
