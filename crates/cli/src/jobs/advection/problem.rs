//! The inputs, checked.

use haloport::AnyDevice;
use haloport_mesh::{Mesh, Partition, PartitionError};

use super::args::AdvectionArgs;
use crate::command::failure::Failure;
use crate::command::memory::{gib, room};
use crate::jobs::common::inputs::{Inputs, shared};
use crate::jobs::common::parts::by_curve;
use crate::mesh::choice::PartitionChoice;
use crate::mesh::name::MeshName;
use haloport_demos::advection::model::norms::areas;
use haloport_demos::advection::model::tracer::Tracer;
use haloport_demos::advection::model::wind::Wind;

/// Bytes of memory for each cell, about: the mesh, its parts on all ranks, and the arrays of kernels.
const BYTES_PER_CELL: u128 = 1500;

/// As [`BYTES_PER_CELL`], for each level of each cell: the fields of all ranks and whole fields on rank 0.
const BYTES_PER_LEVEL: u128 = 100;

/// The problem, the same on all ranks.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) case: Case,
    /// The partition that the arguments choose.
    choice: PartitionChoice,
    partition: Inputs<Partition>,
    /// Whether the terminal shows the progress.
    pub(super) show_progress: bool,
}

/// A tracer on a mesh.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: MeshName,
    pub(super) mesh: Mesh,
    /// Of each cell, steradians.
    pub(super) areas: Vec<f64>,
    pub(super) tracer: Tracer,
    pub(super) days: f64,
    pub(super) limited: bool,
    /// Whether cells that need no halo are computed while halos travel.
    pub(super) overlap: bool,
}

impl Problem {
    /// Makes the mesh.
    ///
    /// # Errors
    /// [`Failure::BadInput`] if the mesh cannot be made or is too large for the machine.
    pub(super) fn new(args: &AdvectionArgs, device: &AnyDevice) -> Result<Problem, Failure> {
        let cells = args.mesh.cells().unwrap_or(usize::MAX) as u128;
        let needed = cells.saturating_mul(BYTES_PER_CELL + BYTES_PER_LEVEL * args.levels as u128);
        if let Some(room) = room(device.info()).filter(|room| room.is_below(needed)) {
            return Err(Failure::BadInput(format!(
                "--mesh: expected a mesh that fits into the {room}, found {} with {} levels, which needs about {:.1} GiB",
                args.mesh,
                args.levels,
                gib(needed)
            )));
        }
        let wind = Wind::tilted(args.alpha.to_radians());
        let tracer = Tracer { shape: args.tracer, levels: args.levels, wind };
        Ok(Problem {
            case: Case::new(args.mesh, tracer, args.days, args.limited, !args.no_overlap)?,
            choice: args.partition.clone(),
            partition: Inputs::new(),
            show_progress: !args.json,
        })
    }

    /// The partition for the job's ranks, whose number is the same at each call.
    ///
    /// # Errors
    /// [`Failure::BadInput`].
    pub(super) fn partition(&self, ranks: usize) -> Result<&Partition, Failure> {
        shared(&self.partition, || self.make_partition(ranks))
    }

    fn make_partition(&self, ranks: usize) -> Result<Partition, String> {
        let mesh = &self.case.mesh;
        let made = match &self.choice {
            PartitionChoice::Curve => Partition::by_curve(mesh, ranks),
            PartitionChoice::File(path) => Partition::read(mesh, path, Some(ranks)),
            #[cfg(feature = "metis")]
            PartitionChoice::Metis => Partition::metis(mesh, ranks),
            #[cfg(not(feature = "metis"))]
            PartitionChoice::Metis => {
                return Err("--partition: this build has no METIS; build with `--features metis`, or choose `curve` or a \
                            file"
                    .into());
            }
        };
        made.map_err(|error| match error {
            PartitionError::MoreThanCells { .. } | PartitionError::Parts { .. } => {
                format!("--ranks: {error}")
            }
            _ => format!("--partition: {error}"),
        })
    }
}

impl Case {
    /// # Errors
    /// [`Failure::BadInput`] if the mesh cannot be made.
    pub(super) fn new(
        name: MeshName,
        tracer: Tracer,
        days: f64,
        limited: bool,
        overlap: bool,
    ) -> Result<Case, Failure> {
        let mesh = name.make().map_err(|error| Failure::BadInput(format!("--mesh: {error}")))?;
        Ok(Case { name, areas: areas(&mesh), mesh, tracer, days, limited, overlap })
    }

    /// See [`by_curve`].
    ///
    /// # Errors
    /// [`PartitionError`].
    pub(super) fn by_curve(&self, ranks: usize) -> Result<Partition, PartitionError> {
        by_curve(&self.mesh, ranks)
    }

    /// Cells dealt out to ranks in turns, so that each has neighbours of other ranks.
    ///
    /// # Errors
    /// [`PartitionError`].
    pub(super) fn dealt(&self, ranks: usize) -> Result<Partition, PartitionError> {
        Partition::with_empty_parts(
            &self.mesh,
            (0..self.mesh.cells()).map(|cell| cell % ranks).collect(),
            ranks,
        )
    }
}
