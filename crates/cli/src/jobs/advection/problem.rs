//! The inputs, checked.

use std::path::{Path, PathBuf};

use haloport::AnyDevice;
use haloport_mesh::{Mesh, Partition, PartitionError};

use super::args::AdvectionArgs;
use crate::command::failure::Failure;
use crate::command::memory::{gib, room};
use crate::jobs::common::files::FileArgs;
use crate::jobs::common::inputs::{Inputs, about_file, shared};
use crate::jobs::common::parts::by_curve;
use crate::mesh::choice::PartitionChoice;
use crate::mesh::name::MeshName;
use haloport_demos::advection::model::norms::areas;
use haloport_demos::advection::model::tracer::Tracer;
use haloport_demos::advection::model::wind::Wind;
use haloport_demos::advection::states::{Run, SavedTracer};

/// Simulated seconds in a day.
pub(super) const DAY: f64 = 86_400.0;

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
    /// The tracer with which the run begins in place of the hills.
    pub(super) restart: Option<SavedTracer>,
    /// The files in which the tracer is saved, and the run that they name.
    pub(super) files: FileArgs,
    pub(super) run: Run,
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
    /// [`Failure::BadInput`] if the mesh cannot be made or is too large for the machine, or if the tracer cannot be saved or
    /// restored there.
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
        let run = Run {
            mesh: args.mesh.to_string(),
            tracer: args.tracer.to_string(),
            alpha: args.alpha,
            days: args.days,
            limited: args.limited,
        };
        args.files.check_new()?;
        let case = Case::new(args.mesh, tracer, args.days, args.limited, !args.no_overlap)?;
        let saved = |path: &PathBuf| saved(path, case.mesh.cells(), args.levels, &run);
        Ok(Problem {
            restart: args.files.restart.as_ref().map(saved).transpose()?,
            case,
            files: args.files.clone(),
            run,
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

/// The tracer to go on from, earlier than the end.
fn saved(path: &Path, cells: usize, levels: usize, run: &Run) -> Result<SavedTracer, Failure> {
    let saved = SavedTracer::open(path, cells, levels, run)
        .map_err(|error| Failure::BadInput(format!("--restart: {}", about_file(path, &error))))?;
    if saved.time < run.days * DAY {
        return Ok(saved);
    }
    Err(Failure::BadInput(format!(
        "--restart: expected a run that ended before its last day, found {}, which is complete after {} days",
        path.display(),
        run.days
    )))
}
