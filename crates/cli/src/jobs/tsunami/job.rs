//! The run on one rank.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use haloport::Communicator;
use haloport::device::Device;

use super::problem::Problem;
use super::tides::{GaugeSummary, Tides};
use crate::command::failure::Failure;
use crate::jobs::common::checks::Check;
use crate::jobs::common::folder::Folder;
use crate::jobs::common::progress::Progress;
use haloport_demos::common::numbers::larger;
use haloport_demos::common::traffic::{Moved, total};
use haloport_demos::tsunami::model::solver::{Solver, Spent, Whole};
use haloport_demos::tsunami::model::survey::Survey;
use haloport_demos::tsunami::model::uplift::initial_state;
use haloport_demos::tsunami::picture::{largest_wave, surface};
use haloport_demos::tsunami::states::StateWriter;

/// Simulated seconds between pictures of the sea surface.
const PICTURE_EVERY: f64 = 600.0;

/// The results of the run; on ranks other than 0, some are empty.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) steps: usize,
    /// Blocks from south to north and from west to east.
    pub(super) parts: [usize; 2],
    /// The bytes that one exchange moves, summed over all ranks.
    pub(super) moved: Moved,
    /// Time of the steps alone, and of the whole run.
    pub(super) stepping: Duration,
    pub(super) wall: Duration,
    /// Sums over all ranks.
    pub(super) spent: Spent,
    /// Smallest depth at any step, metres.
    pub(super) min_depth: f64,
    /// Of the fields in the end.
    pub(super) hash: u64,
    pub(super) pictures: Vec<PathBuf>,
    pub(super) record: PathBuf,
    pub(super) gauges: Vec<GaugeSummary>,
    /// Cubic metres at the start.
    pub(super) volume: f64,
    /// The largest relative change of the volume at any picture.
    pub(super) drift: f64,
    /// At any picture, m/s.
    pub(super) max_speed: f64,
    /// At any step, metres; and its row and column.
    pub(super) max_wave: f64,
    pub(super) max_wave_at: [usize; 2],
}

impl Results {
    /// The checks of the run itself.
    pub(super) fn checks(&self) -> Vec<Check> {
        vec![
            Check::below(
                "volume",
                "water volume is conserved: largest relative change",
                self.drift,
                1e-12,
                "",
            ),
            Check::at_least("depth", "no depth is negative: smallest depth", self.min_depth, 0.0, "m"),
        ]
    }
}

/// Runs the model to the end, with pictures and tide gauges.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn run<D: Device>(
    comm: &Communicator,
    device: &D,
    problem: &Problem,
    folder: &Folder,
) -> Result<Results, Failure> {
    let began = Instant::now();
    let mut solver = Solver::new(comm, device, &problem.relief, &problem.physics, problem.overlap)?;
    match &problem.restart {
        Some(saved) => saved.restore(comm, &mut solver, &problem.relief, problem.files.writers)?,
        None => solver.set_state(&initial_state(solver.block(), &problem.relief, &problem.uplift))?,
    }
    let writer = problem.files.save.as_ref().map(|folder| {
        StateWriter::new(comm, &mut solver, &problem.relief, &problem.uplift, folder, problem.files.writers)
    });
    let mut writer = writer.transpose()?;
    let progress = Progress::simulated(problem.end, "tsunami", problem.show_progress && comm.rank() == 0);
    let mut tides = Tides::new(&problem.gauges, solver.block());
    let mut done = Results { parts: solver.parts(), moved: solver.moved()?, ..Results::default() };
    let mut time = problem.start();
    let mut last = None;
    loop {
        writer.as_mut().map_or(Ok(()), |writer| writer.save(&mut solver, time))?;
        if let Some(whole) = solver.gather()? {
            done.look(problem, &whole);
            let picture = surface(&problem.relief, &problem.gauges, &whole.h, time);
            done.pictures.push(folder.write(&surface_name(time), &picture?.png()?)?);
            last = Some(whole);
        }
        // So that no rank's steps include the drawing.
        comm.barrier()?;
        if time >= problem.end {
            break;
        }
        let next = next_picture(time).min(problem.end);
        let began = Instant::now();
        while time < next {
            tides.sample(&solver, time)?;
            let dt = solver.step(next - time)?;
            time = if dt >= next - time { next } else { time + dt };
            done.steps += 1;
            progress.at(time);
        }
        done.stepping += began.elapsed();
    }
    tides.sample(&solver, time)?;
    done.min_depth = solver.min_depth()?;
    done.hash = solver.hash()?;
    let Spent { exchange, reduction } = solver.spent();
    let [exchange, reduction] = total(comm, [exchange, reduction])?;
    done.spent = Spent { exchange, reduction };
    let record = tides.gather(comm, problem.gauges.len())?;
    if let (Some(whole), Some(record)) = (last, record) {
        let picture = largest_wave(&problem.relief, &problem.gauges, &whole.largest, time);
        done.pictures.push(folder.write("largest.png", &picture?.png()?)?);
        done.record = folder.write("gauges.csv", &record.csv(problem)?)?;
        done.gauges = record.seen(&problem.gauges);
    }
    done.wall = began.elapsed();
    Ok(done)
}

impl Results {
    /// Measures the whole state.
    fn look(&mut self, problem: &Problem, whole: &Whole) {
        let survey = Survey::new(&problem.area, &problem.physics, whole.state());
        if self.pictures.is_empty() {
            self.volume = survey.volume;
        }
        let drift = (survey.volume - self.volume).abs() / self.volume;
        self.drift = larger(self.drift, drift);
        self.max_speed = larger(self.max_speed, survey.max_speed);
        for (cell, &height) in whole.largest.iter().enumerate() {
            if height > self.max_wave {
                self.max_wave = height;
                self.max_wave_at = [cell / problem.relief.nx(), cell % problem.relief.nx()];
            }
        }
    }
}

/// The time of the first picture after `time`.
fn next_picture(time: f64) -> f64 {
    ((time / PICTURE_EVERY).floor() + 1.0) * PICTURE_EVERY
}

/// Pictures are named by their minutes; only the last picture's time may be between minutes.
fn surface_name(time: f64) -> String {
    if time % PICTURE_EVERY == 0.0 {
        format!("surface-{:03.0}.png", time / 60.0)
    } else {
        "surface-end.png".to_owned()
    }
}
