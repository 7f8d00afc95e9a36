//! The printed results.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use haloport::Communicator;
use haloport::device::DeviceInfo;
use haloport_mesh::Partition;
use serde::Serialize;

use super::args::AdvectionArgs;
use super::carry::{Carried, Measured};
use super::order::{self, Rung};
use super::problem::{Case, DAY, Problem};
use crate::command::print;
use crate::command::text::{counted, hexadecimal};
use crate::jobs::common::checks::{Check, write_checks};
use crate::jobs::common::performance::{Effort, Performance};
use haloport_demos::advection::model::norms::Norms;
use haloport_demos::advection::model::wind::PERIOD;

/// The results of a run: the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    mesh: String,
    cells: usize,
    levels: usize,
    tracer: String,
    limited: bool,
    alpha_degrees: f64,
    #[serde(flatten)]
    pub(super) performance: Performance,
    partition: String,
    /// Owned cells of the smallest and of the largest part.
    cells_of_ranks: [usize; 2],
    /// Of all ranks.
    halo_cells: usize,
    /// The day at which the run began; 0 without `--restart`.
    started_days: f64,
    simulated_days: f64,
    time_step_s: f64,
    /// Of all levels, in units of the tracer times steradians.
    mass: f64,
    mass_drift: f64,
    smallest: f64,
    largest: f64,
    /// The largest of any level.
    norms: Norms,
    /// Of the tracer in the end, 16 hexadecimal digits.
    hash: String,
    /// Errors of the first level over two refinements, after this many days.
    ladder_days: f64,
    pub(super) ladder: Vec<Rung>,
    pub(super) picture: PathBuf,
    /// The saved tracer; null without `--save`.
    saved: Option<PathBuf>,
    /// Null without `--verify`.
    pub(super) checks: Option<Vec<Check>>,
    /// Whether all ranks are threads of this process.
    #[serde(skip)]
    pub(super) in_process: bool,
}

impl Report {
    pub(super) fn new(
        args: &AdvectionArgs,
        problem: &Problem,
        partition: &Partition,
        device: &DeviceInfo,
        comm: &Communicator,
        carried: &Carried,
        measured: &Measured,
    ) -> Report {
        let case = &problem.case;
        let (cells, levels) = (case.mesh.cells(), case.tracer.levels);
        let sizes = || (0..partition.parts()).map(|part| partition.cells_of(part).len());
        let effort = Effort {
            cells: cells * levels,
            steps: carried.steps,
            wall: Duration::ZERO,
            stepping: carried.stepping,
            exchange: carried.exchange,
            moved: carried.moved,
            overlap: case.overlap,
        };
        Report {
            mesh: case.name.to_string(),
            cells,
            levels,
            tracer: case.tracer.shape.to_string(),
            limited: case.limited,
            alpha_degrees: args.alpha,
            performance: Performance::new(comm, device, &effort),
            partition: args.partition.to_string(),
            cells_of_ranks: [sizes().min().unwrap_or(0), sizes().max().unwrap_or(0)],
            halo_cells: carried.halo_cells,
            started_days: problem.restart.as_ref().map_or(0.0, |saved| saved.time / DAY),
            simulated_days: case.days,
            time_step_s: carried.time_step * DAY,
            mass: measured.mass(),
            mass_drift: measured.drift,
            smallest: measured.extremes[0],
            largest: measured.extremes[1],
            norms: measured.norms,
            hash: hexadecimal(carried.hash),
            ladder_days: order::days(case),
            ladder: Vec::new(),
            picture: PathBuf::new(),
            saved: args.files.save.clone(),
            checks: None,
            in_process: false,
        }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let round = self.simulated_days / PERIOD;
        let (mesh, days) = (&self.mesh, self.simulated_days);
        let from = match self.started_days {
            0.0 => String::new(),
            day => format!(", from day {day} on"),
        };
        writeln!(out, "Advection on {mesh}: {days} days, {round:.2} times round{from}\n")?;
        let mut line = |name: &str, text: String| writeln!(out, "  {name:<14}{text}");
        line("mesh", format!("{} cells, {}", self.cells, counted(self.levels, "level")))?;
        let [fewest, most] = self.cells_of_ranks;
        let Performance { ranks, transport, device, device_name, steps, .. } = &self.performance;
        line("ranks", format!("{ranks} ({transport}), on {device}, {device_name}"))?;
        line(
            "partition",
            format!(
                "{}: {fewest} to {most} cells each, {} halo cells in all",
                self.partition, self.halo_cells
            ),
        )?;
        let limited = if self.limited { ", slopes limited" } else { "" };
        line(
            "tracer",
            format!("{}{limited}; the wind's axis tilted by {}°", self.tracer, self.alpha_degrees),
        )?;
        line("steps", format!("{steps} of {:.0} s", self.time_step_s))?;
        self.performance.write(&mut line, "")?;
        line("mass", format!("{:.6}; relative change {:.1e}", self.mass, self.mass_drift))?;
        line("values", format!("{:.4} to {:.4}", self.smallest, self.largest))?;
        let Norms { l1, l2, linf } = self.norms;
        line("error", format!("l1 {l1:.2e}, l2 {l2:.2e}, linf {linf:.2e}"))?;
        line("hash", self.hash.clone())?;
        line("picture", self.picture.display().to_string())?;
        if let Some(saved) = &self.saved {
            line("fields", saved.display().to_string())?;
        }
        self.write_ladder(out)?;
        self.checks.as_deref().map_or(Ok(()), |checks| write_checks(out, checks))
    }
}

impl Report {
    fn write_ladder(&self, out: &mut impl Write) -> io::Result<()> {
        let after = format!("after {} days", self.ladder_days);
        writeln!(out, "\n  {after:<18}{:>9}{:>11}{:>11}{:>11}   order", "cells", "l1", "l2", "linf")?;
        for Rung { mesh, cells, norms: Norms { l1, l2, linf }, order } in &self.ladder {
            write!(out, "  {mesh:<18}{cells:>9}{l1:>11.2e}{l2:>11.2e}{linf:>11.2e}")?;
            match order {
                Some(Norms { l1, l2, linf }) => writeln!(out, "   {l1:.2}, {l2:.2}, {linf:.2}")?,
                None => writeln!(out)?,
            }
        }
        Ok(())
    }
}

/// The note below the title of the picture.
pub(super) fn note(args: &AdvectionArgs, case: &Case, ranks: usize, measured: &Measured) -> String {
    let drift = match measured.drift {
        0.0 => "0".to_string(),
        drift => format!("{drift:.0e}"),
    };
    format!(
        "{}: {} cells on {}; wind tilted by {}°; error in l2 {:.1e}, relative change of mass {drift}",
        case.name,
        case.mesh.cells(),
        counted(ranks, "rank"),
        args.alpha,
        measured.first_norms.l2
    )
}
