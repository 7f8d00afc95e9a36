//! A run from the first day to the last, on one rank.

use std::path::Path;
use std::time::{Duration, Instant};

use haloport::device::Device;
use haloport::{Communicator, Reduction, run_ranks};
use haloport_mesh::Partition;

use super::problem::{Case, DAY};
use crate::command::failure::Failure;
use crate::jobs::common::progress::Progress;
use haloport_demos::advection::model::norms::{Level, Norms};
use haloport_demos::advection::model::solver::{Model, Solver};
use haloport_demos::advection::states::{Run, SavedTracer, TracerWriter};
use haloport_demos::common::numbers::{larger, smaller};
use haloport_demos::common::traffic::{Moved, total};

/// The field is measured after each of this many equal parts of a run.
const QUARTERS: usize = 4;

/// The effort of a run, on every rank.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    pub(super) steps: usize,
    /// Days.
    pub(super) time_step: f64,
    /// Summed over all ranks.
    pub(super) halo_cells: usize,
    /// The bytes that one exchange moves, summed over all ranks.
    pub(super) moved: Moved,
    /// Time of the steps alone.
    pub(super) stepping: Duration,
    /// In exchanges, summed over all ranks.
    pub(super) exchange: Duration,
    /// Of the tracer in the end.
    pub(super) hash: u64,
}

/// The measures of the whole field, on rank 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Of each level at first.
    mass: Vec<f64>,
    /// The largest relative change of the mass of any level, at any quarter.
    pub(super) drift: f64,
    /// The smallest and the largest value at any quarter.
    pub(super) extremes: [f64; 2],
    /// The largest errors of any level, and those of the first, in the end.
    pub(super) norms: Norms,
    pub(super) first_norms: Norms,
    /// The whole field in the end, levels fastest.
    pub(super) field: Vec<f64>,
}

/// The files of a run; the default has none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Files<'p> {
    pub(super) restart: Option<&'p SavedTracer>,
    /// The store, and the run that it names.
    pub(super) save: Option<(&'p Path, &'p Run)>,
    pub(super) writers: usize,
}

/// Collective: carries the tracer of `case` to its last day. On rank 0, `look` is passed the whole field at the start
/// and after each quarter, with the number of the quarter and the day.
///
/// # Errors
/// [`Failure::Run`], and errors of `look`.
pub(super) fn carry<D: Device>(
    comm: &Communicator,
    device: &D,
    case: &Case,
    partition: &Partition,
    files: &Files<'_>,
    progress: &Progress,
    mut look: impl FnMut(usize, f64, Vec<f64>) -> Result<(), Failure>,
) -> Result<Carried, Failure> {
    let model = model(case);
    let quarter = (case.days / model.longest_step() / QUARTERS as f64).ceil().max(1.0) as usize;
    let time_step = case.days / (QUARTERS * quarter) as f64;
    let mut solver = Solver::new(comm, device, &model, partition, time_step)?;
    let first = match files.restart {
        Some(saved) => {
            saved.restore(comm, &mut solver, files.writers)?;
            (saved.time / DAY / case.days * QUARTERS as f64).round() as usize
        }
        None => {
            solver.set_tracer(|cell, level| case.tracer.mean(&case.mesh, cell, level, 0.0))?;
            0
        }
    };
    let writer = files
        .save
        .map(|(folder, run)| TracerWriter::new(comm, &mut solver, &case.mesh, run, folder, files.writers));
    let mut writer = writer.transpose()?;
    let mut halo_cells = [solver.halo_cells() as u64];
    comm.all_reduce(&mut halo_cells, Reduction::Sum)?;
    let mut carried = Carried {
        steps: (QUARTERS - first) * quarter,
        time_step,
        halo_cells: halo_cells[0] as usize,
        moved: solver.moved()?,
        ..Carried::default()
    };
    for done in first..=QUARTERS {
        let day = case.days * done as f64 / QUARTERS as f64;
        writer.as_mut().map_or(Ok(()), |writer| writer.save(&mut solver, day * DAY))?;
        if let Some(whole) = solver.gather()? {
            look(done, day, whole)?;
        }
        if done == QUARTERS {
            break;
        }
        // So that no rank's steps include the time of `look`.
        comm.barrier()?;
        let began = Instant::now();
        for step in 1..=quarter {
            solver.step()?;
            progress.at((day + step as f64 * time_step) * DAY);
        }
        comm.barrier()?;
        carried.stepping += began.elapsed();
    }
    [carried.exchange] = total(comm, [solver.spent()])?;
    carried.hash = solver.hash()?;
    Ok(carried)
}

/// Collective: as [`carry`], with measures, which are empty on all ranks but 0.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn carry_and_measure<D: Device>(
    comm: &Communicator,
    device: &D,
    case: &Case,
    partition: &Partition,
    files: &Files<'_>,
    progress: &Progress,
    mut look: impl FnMut(usize, f64, &[f64]),
) -> Result<(Carried, Measured), Failure> {
    let mut measured = Measured { extremes: [f64::INFINITY, f64::NEG_INFINITY], ..Measured::default() };
    let carried = carry(comm, device, case, partition, files, progress, |quarter, day, field| {
        look(quarter, day, &field);
        measured.note(case, quarter, field);
        Ok(())
    })?;
    Ok((carried, measured))
}

/// The field in the end, computed on threads, one for each part of `partition`.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn in_process<D: Device>(
    device: &D,
    case: &Case,
    partition: &Partition,
) -> Result<Vec<f64>, Failure> {
    let quiet = Progress::hidden();
    let fields = run_ranks(partition.parts(), |comm| {
        let mut last = None;
        carry(&comm, device, case, partition, &Files::default(), &quiet, |_, _, field| {
            last = Some(field);
            Ok(())
        })?;
        Ok(last)
    })?;
    fields.into_iter().next().flatten().ok_or_else(|| Failure::Run("rank 0 has no field".into()))
}

/// Collective: the whole field after `steps` of the longest steps, on rank 0.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn some_steps<D: Device>(
    comm: &Communicator,
    device: &D,
    case: &Case,
    partition: &Partition,
    steps: usize,
) -> Result<Option<Vec<f64>>, Failure> {
    let model = model(case);
    let mut solver = Solver::new(comm, device, &model, partition, model.longest_step())?;
    solver.set_tracer(|cell, level| case.tracer.mean(&case.mesh, cell, level, 0.0))?;
    for _ in 0..steps {
        solver.step()?;
    }
    Ok(solver.gather()?)
}

fn model(case: &Case) -> Model<'_> {
    Model {
        mesh: &case.mesh,
        wind: case.tracer.wind,
        levels: case.tracer.levels,
        limited: case.limited,
        overlap: case.overlap,
    }
}

impl Measured {
    fn note(&mut self, case: &Case, quarter: usize, field: Vec<f64>) {
        let levels = case.tracer.levels;
        let of = |level: usize| Level { field: &field, levels, level };
        let mass: Vec<f64> = (0..levels).map(|level| of(level).mass(&case.areas)).collect();
        if self.mass.is_empty() {
            self.mass.clone_from(&mass);
        }
        for (now, first) in mass.iter().zip(&self.mass) {
            self.drift = larger(self.drift, ((now - first) / first).abs());
        }
        self.extremes[0] = field.iter().copied().fold(self.extremes[0], smaller);
        self.extremes[1] = field.iter().copied().fold(self.extremes[1], larger);
        if quarter == QUARTERS {
            let exact = case.tracer.means(&case.mesh, case.days);
            let exact = |level| Level { field: &exact, levels, level };
            let norms: Vec<Norms> =
                (0..levels).map(|level| of(level).norms(&exact(level), &case.areas)).collect();
            self.first_norms = norms.first().copied().unwrap_or_default();
            self.norms = norms.into_iter().fold(Norms::default(), Norms::max);
            self.field = field;
        }
    }

    /// The mass of all levels at the start.
    pub(super) fn mass(&self) -> f64 {
        self.mass.iter().sum()
    }
}
