//! What is printed.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::jobs::advection::model::norms::Norms;
use crate::jobs::advection::model::wind::PERIOD;
use crate::jobs::common::traffic::Moved;
use haloport::Communicator;
use haloport::device::{DeviceId, DeviceInfo};
use haloport_mesh::Partition;
use serde::Serialize;

use super::args::AdvectionArgs;
use super::carry::{Carried, DAY, Measured};
use super::order::{self, Rung};
use super::problem::{Case, Problem};
use crate::command::print;
use crate::command::text::{beside_exchanges, bytes, significant};
use crate::jobs::common::checks::{Check, write_checks};

/// Exchanges of halos in each step.
const EXCHANGES_PER_STEP: usize = 2;

/// The results of a run: the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    mesh: String,
    cells: usize,
    levels: usize,
    tracer: String,
    limited: bool,
    alpha_degrees: f64,
    ranks: usize,
    partition: String,
    /// Owned cells of the smallest and of the largest part.
    cells_of_ranks: [usize; 2],
    /// Of all ranks.
    halo_cells: usize,
    transport: &'static str,
    device: DeviceId,
    device_name: String,
    simulated_days: f64,
    steps: usize,
    time_step_s: f64,
    /// All of the run; then of that the steps alone, without gathering, the picture, other meshes and set-up.
    pub(super) wall_s: f64,
    stepping_s: f64,
    /// Levels of cells.
    cells_per_second: f64,
    /// Whether cells that need no halo were computed while halos travelled.
    overlap: bool,
    /// Part of the ranks' stepping time that they spent in exchanges; on the host, which does not
    /// wait for halos where a device does.
    exchange_share: f64,
    exchanges: usize,
    /// Of all ranks together, for one exchange and in all.
    bytes_per_exchange: u64,
    bytes_moved: u64,
    moved: Moved,
    /// How they got to other ranks, and why so.
    path: String,
    /// Of all levels, in units of the tracer times steradians.
    mass: f64,
    mass_drift: f64,
    smallest: f64,
    largest: f64,
    /// The largest of any level.
    norms: Norms,
    /// Errors of the first level over two refinements, and after how many days.
    ladder_days: f64,
    pub(super) ladder: Vec<Rung>,
    pub(super) picture: PathBuf,
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
        let stepping = carried.stepping.as_secs_f64();
        let exchanges = EXCHANGES_PER_STEP * carried.steps;
        Report {
            mesh: case.name.to_string(),
            cells,
            levels,
            tracer: case.tracer.shape.to_string(),
            limited: case.limited,
            alpha_degrees: args.alpha,
            ranks: comm.size(),
            partition: args.partition.to_string(),
            cells_of_ranks: [sizes().min().unwrap_or(0), sizes().max().unwrap_or(0)],
            halo_cells: carried.halo_cells,
            transport: comm.info().name,
            device: device.id,
            device_name: device.name.clone(),
            simulated_days: case.days,
            steps: carried.steps,
            time_step_s: carried.time_step * DAY,
            wall_s: 0.0,
            stepping_s: stepping,
            cells_per_second: (cells * levels * carried.steps) as f64 / stepping,
            overlap: case.overlap,
            exchange_share: carried.exchange.as_secs_f64() / (stepping * comm.size() as f64),
            exchanges,
            bytes_per_exchange: carried.moved.bytes(),
            bytes_moved: carried.moved.bytes() * exchanges as u64,
            moved: carried.moved,
            path: carried.moved.path(device, &comm.info()),
            mass: measured.mass(),
            mass_drift: measured.drift,
            smallest: measured.extremes[0],
            largest: measured.extremes[1],
            norms: measured.norms,
            ladder_days: order::days(case),
            ladder: Vec::new(),
            picture: PathBuf::new(),
            checks: None,
            in_process: false,
        }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let round = self.simulated_days / PERIOD;
        writeln!(out, "Advection on {}: {} days, {round:.2} times round\n", self.mesh, self.simulated_days)?;
        let mut line = |name: &str, text: String| writeln!(out, "  {name:<14}{text}");
        let levels = if self.levels == 1 { "1 level".into() } else { format!("{} levels", self.levels) };
        line("mesh", format!("{} cells, {levels}", self.cells))?;
        let [fewest, most] = self.cells_of_ranks;
        line(
            "ranks",
            format!("{} ({}), on {}, {}", self.ranks, self.transport, self.device, self.device_name),
        )?;
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
        line("steps", format!("{} of {:.0} s", self.steps, self.time_step_s))?;
        line(
            "speed",
            format!(
                "{} million cells per second; {:.1} s for the steps, {:.1} s in all",
                significant(self.cells_per_second / 1e6),
                self.stepping_s,
                self.wall_s
            ),
        )?;
        line(
            "exchange",
            format!("{}; {:.1} % of the time", beside_exchanges(self.overlap), 100.0 * self.exchange_share),
        )?;
        line("halos by", self.path.clone())?;
        line(
            "bytes moved",
            format!(
                "{} per exchange, {} in {} exchanges",
                bytes(self.bytes_per_exchange),
                bytes(self.bytes_moved),
                self.exchanges
            ),
        )?;
        line("mass", format!("{:.6}; relative change {:.1e}", self.mass, self.mass_drift))?;
        line("values", format!("{:.4} to {:.4}", self.smallest, self.largest))?;
        let Norms { l1, l2, linf } = self.norms;
        line("error", format!("l1 {l1:.2e}, l2 {l2:.2e}, linf {linf:.2e}"))?;
        line("picture", self.picture.display().to_string())?;
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

/// What the picture says below its title.
pub(super) fn note(args: &AdvectionArgs, case: &Case, ranks: usize, measured: &Measured) -> String {
    let ranks = if ranks == 1 { "1 rank".into() } else { format!("{ranks} ranks") };
    let drift = match measured.drift {
        0.0 => "0".to_string(),
        drift => format!("{drift:.0e}"),
    };
    format!(
        "{}: {} cells on {ranks}; wind tilted by {}°; error in l2 {:.1e}, relative change of mass {drift}",
        case.name,
        case.mesh.cells(),
        args.alpha,
        measured.first_norms.l2
    )
}
