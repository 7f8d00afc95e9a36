//! The inputs, checked.

use std::path::Path;

use haloport::AnyDevice;

use super::args::TsunamiArgs;
use crate::command::failure::Failure;
use crate::command::memory::{gib, room};
use crate::jobs::common::files::FileArgs;
use crate::jobs::common::inputs::about_file;
use haloport_demos::tsunami::model::decomposition::decompose;
use haloport_demos::tsunami::model::gauges::{LocatedGauge, default_gauges, locate};
use haloport_demos::tsunami::model::relief::Relief;
use haloport_demos::tsunami::model::scheme::Physics;
use haloport_demos::tsunami::model::uplift::Uplift;
use haloport_demos::tsunami::model::{SHIPPED, metric::Metric};
use haloport_demos::tsunami::states::SavedState;

/// Bytes of memory for each cell, about: the relief, the fields of all ranks with their other arrays, and the whole
/// fields on rank 0.
const BYTES_PER_CELL: u128 = 200;

/// Bytes more for each cell if states are saved or restored, about.
const BYTES_PER_SAVED_CELL: u128 = 100;

/// The problem, the same on all ranks.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) relief: Relief,
    /// The area of a cell of each row, square metres.
    pub(super) area: Vec<f64>,
    pub(super) physics: Physics,
    pub(super) uplift: Uplift,
    pub(super) gauges: Vec<LocatedGauge>,
    /// The state with which the run begins in place of the uplift.
    pub(super) restart: Option<SavedState>,
    /// The end of the run, seconds.
    pub(super) end: f64,
    /// The files in which states are saved.
    pub(super) files: FileArgs,
    /// Whether cells that need no halo are computed while halos travel.
    pub(super) overlap: bool,
    /// Whether the terminal shows the progress.
    pub(super) show_progress: bool,
}

impl Problem {
    /// Reads and refines the relief.
    ///
    /// # Errors
    /// [`Failure::BadInput`] if the file holds no relief, the refinement is too large for the machine, or states cannot be saved
    /// or restored there.
    pub(super) fn new(args: &TsunamiArgs, device: &AnyDevice) -> Result<Problem, Failure> {
        let coarse = match &args.bathymetry {
            Some(path) => Relief::from_path(path)
                .map_err(|error| Failure::BadInput(format!("--bathymetry: {}", about_file(path, &error))))?,
            None => Relief::from_bytes(SHIPPED).map_err(|error| Failure::BadInput(error.to_string()))?,
        };
        let cells = (args.refine as u128).saturating_mul(args.refine as u128);
        let bytes = BYTES_PER_CELL + if args.files.any() { BYTES_PER_SAVED_CELL } else { 0 };
        let needed = cells.saturating_mul(coarse.elevation.len() as u128).saturating_mul(bytes);
        if let Some(room) = room(device.info()).filter(|room| room.is_below(needed)) {
            return Err(Failure::BadInput(format!(
                "--refine: expected a refinement that fits into the {room}, found {}, which needs about {:.1} GiB",
                args.refine,
                gib(needed)
            )));
        }
        let relief =
            coarse.refine(args.refine).map_err(|error| Failure::BadInput(format!("--refine: {error}")))?;
        let restart = args.files.restart.as_ref().map(|path| saved(path, &relief, args.hours)).transpose()?;
        let uplift = match &restart {
            Some(saved) => saved.uplift,
            None => {
                let uplift = args.uplift.uplift().on_map(&relief);
                uplift.map_err(|error| Failure::BadInput(format!("--uplift-at: {error}")))?
            }
        };
        args.files.check_new()?;
        let mut gauges = Vec::new();
        for located in locate(&relief, &default_gauges()) {
            match located {
                Ok(gauge) => gauges.push(gauge),
                Err(error) => tracing::debug!(%error, "a gauge is left out"),
            }
        }
        Ok(Problem {
            area: Metric::new(&relief, 0..relief.ny(), 0).area,
            physics: Physics::default(),
            uplift,
            gauges,
            restart,
            end: args.hours * 3600.0,
            files: args.files.clone(),
            overlap: !args.no_overlap,
            show_progress: !args.json,
            relief,
        })
    }

    /// Checks that each of `ranks` ranks gets a block that is thick enough.
    ///
    /// # Errors
    /// [`Failure::BadInput`] if they do not.
    pub(super) fn check_ranks(&self, ranks: usize) -> Result<(), Failure> {
        decompose(self.relief.nx(), self.relief.ny(), ranks)
            .map(|_| ())
            .map_err(|error| Failure::BadInput(format!("--ranks: {error}")))
    }

    /// The time at which the run begins, seconds.
    pub(super) fn start(&self) -> f64 {
        self.restart.as_ref().map_or(0.0, |saved| saved.time)
    }

    /// The number of cells.
    pub(super) fn cells(&self) -> usize {
        self.relief.elevation.len()
    }
}

/// The state to go on from, earlier than the end.
fn saved(path: &Path, relief: &Relief, hours: f64) -> Result<SavedState, Failure> {
    let saved = SavedState::open(path, relief)
        .map_err(|error| Failure::BadInput(format!("--restart: {}", about_file(path, &error))))?;
    let saved_hours = saved.time / 3600.0;
    if saved_hours < hours {
        return Ok(saved);
    }
    Err(Failure::BadInput(format!(
        "--hours: expected more than the {saved_hours:.3} hours after which {} ends, found {hours}",
        path.display()
    )))
}
