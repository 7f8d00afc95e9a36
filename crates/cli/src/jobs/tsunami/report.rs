//! The printed results.

use std::io::{self, Write};
use std::path::PathBuf;

use haloport::Communicator;
use haloport::device::DeviceInfo;
use serde::Serialize;

use super::args::TsunamiArgs;
use super::job::Results;
use super::problem::Problem;
use super::tides::{ARRIVAL, GaugeSummary};
use crate::command::print;
use crate::command::text::hexadecimal;
use crate::jobs::common::checks::{Check, write_checks};
use crate::jobs::common::performance::{Effort, Performance};
use crate::jobs::common::progress::clock;
use haloport_demos::tsunami::model::uplift::Uplift;

/// The results of a run: the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The file of the relief; null for the shipped one.
    bathymetry: Option<PathBuf>,
    refine: usize,
    /// Columns and rows of the grid.
    grid: [usize; 2],
    cells: usize,
    #[serde(flatten)]
    performance: Performance,
    /// Blocks from west to east and from south to north.
    blocks: [usize; 2],
    uplift: Uplift,
    /// The behaviour of the grid's edges.
    outer_walls: &'static str,
    /// The time at which the run began; 0 without `--restart`.
    started_s: f64,
    simulated_s: f64,
    mean_time_step_s: f64,
    /// The share of the ranks' stepping time that the host spent in the reduction for the time step.
    reduction_share: f64,
    volume_m3: f64,
    volume_drift: f64,
    min_depth_m: f64,
    max_speed_m_s: f64,
    max_wave_m: f64,
    /// Degrees east and north.
    max_wave_at: [f64; 2],
    /// Of the fields in the end, 16 hexadecimal digits.
    hash: String,
    gauges: Vec<GaugeSummary>,
    /// The saved states; null without `--save`.
    saved: Option<PathBuf>,
    out: PathBuf,
    pictures: Vec<PathBuf>,
    record: PathBuf,
    /// Null without `--verify`.
    pub(super) checks: Option<Vec<Check>>,
    /// Whether all ranks are threads of this process.
    #[serde(skip)]
    pub(super) in_process: bool,
}

impl Report {
    pub(super) fn new(
        args: &TsunamiArgs,
        problem: &Problem,
        device: &DeviceInfo,
        comm: &Communicator,
        done: Results,
        in_process: bool,
        checks: Option<Vec<Check>>,
    ) -> Report {
        let of_ranks = done.stepping.as_secs_f64() * comm.size() as f64;
        let effort = Effort {
            cells: problem.cells(),
            steps: done.steps,
            wall: done.wall,
            stepping: done.stepping,
            exchange: done.spent.exchange,
            moved: done.moved,
            overlap: problem.overlap,
        };
        let relief = &problem.relief;
        let [row, column] = done.max_wave_at;
        Report {
            bathymetry: args.bathymetry.clone(),
            refine: args.refine,
            grid: [relief.nx(), relief.ny()],
            cells: problem.cells(),
            performance: Performance::new(comm, device, &effort),
            blocks: [done.parts[1], done.parts[0]],
            uplift: problem.uplift,
            outer_walls: "closed: waves are reflected at the edges of the grid",
            started_s: problem.start(),
            simulated_s: problem.end,
            mean_time_step_s: (problem.end - problem.start()) / done.steps as f64,
            reduction_share: done.spent.reduction.as_secs_f64() / of_ranks,
            volume_m3: done.volume,
            volume_drift: done.drift,
            min_depth_m: done.min_depth,
            max_speed_m_s: done.max_speed,
            max_wave_m: done.max_wave,
            max_wave_at: [relief.longitude[column], relief.latitude[row]],
            hash: hexadecimal(done.hash),
            gauges: done.gauges,
            saved: args.files.save.clone(),
            out: args.out.clone(),
            pictures: done.pictures,
            record: done.record,
            checks,
            in_process,
        }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let place = self.bathymetry.as_ref().map_or_else(
            || "the Salish Sea and southern Vancouver Island".to_owned(),
            |path| path.display().to_string(),
        );
        let from =
            if self.started_s > 0.0 { format!(" from {} on", clock(self.started_s)) } else { String::new() };
        writeln!(out, "Tsunami on {place}, {} simulated{from}\n", clock(self.simulated_s))?;
        let [nx, ny] = self.grid;
        let mut line = |name: &str, text: String| writeln!(out, "  {name:<14}{text}");
        line("grid", format!("{nx} × {ny} cells, refined {} times", self.refine))?;
        let Performance { ranks, transport, device, device_name, steps, .. } = &self.performance;
        let [across, up] = self.blocks;
        line("ranks", format!("{ranks} ({transport}), {across} × {up} blocks, on {device}, {device_name}"))?;
        line("steps", format!("{steps} of {:.2} s on average", self.mean_time_step_s))?;
        let reduction = 100.0 * self.reduction_share;
        self.performance
            .write(&mut line, &format!(" (and {reduction:.1} % in the reduction for the time step)"))?;
        line(
            "uplift",
            format!(
                "{:.1} m of sea surface at {}",
                self.uplift.height,
                position(self.uplift.longitude, self.uplift.latitude)
            ),
        )?;
        line(
            "largest wave",
            format!("{:.2} m at {}", self.max_wave_m, position(self.max_wave_at[0], self.max_wave_at[1])),
        )?;
        line("water", format!("{:.4e} m³; relative change {:.1e}", self.volume_m3, self.volume_drift))?;
        line("outer walls", self.outer_walls.into())?;
        line("hash", self.hash.clone())?;
        self.write_gauges(out)?;
        writeln!(out)?;
        let mut line = |name: &str, text: String| writeln!(out, "  {name:<14}{text}");
        if let [first, .., last, largest] = &self.pictures[..] {
            let last = last.file_name().unwrap_or_default().display();
            let count = self.pictures.len() - 1;
            line("sea surface", format!("{} to {last} ({count} pictures)", first.display()))?;
            line("largest wave", largest.display().to_string())?;
        }
        line("tide gauges", self.record.display().to_string())?;
        if let Some(saved) = &self.saved {
            line("fields", saved.display().to_string())?;
        }
        self.checks.as_deref().map_or(Ok(()), |checks| write_checks(out, checks))
    }
}

impl Report {
    fn write_gauges(&self, out: &mut impl Write) -> io::Result<()> {
        if self.gauges.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n  {:<18}{:>8}{:>12}{:>10}{:>10}", "tide gauge", "depth", "arrival", "crest", "at")?;
        for gauge in &self.gauges {
            write!(out, "  {:<18}{:>6.0} m", gauge.name, gauge.depth_m)?;
            match (gauge.arrival_min, gauge.crest_m, gauge.crest_min) {
                (Some(arrival), Some(crest), Some(at)) => {
                    writeln!(out, "{arrival:>8.0} min{crest:>8.2} m{at:>6.0} min")?;
                }
                _ => writeln!(out, "{:>12}{:>10}{:>10}", "-", "-", "-")?,
            }
        }
        writeln!(out, "  A wave has arrived when the level has changed by {:.0} cm.", 100.0 * ARRIVAL)
    }
}

/// Degrees with their hemispheres.
fn position(longitude: f64, latitude: f64) -> String {
    let east = (longitude + 180.0).rem_euclid(360.0) - 180.0;
    let (ew, ns) = (if east < 0.0 { "W" } else { "E" }, if latitude < 0.0 { "S" } else { "N" });
    format!("{:.2}°{ns} {:.2}°{ew}", latitude.abs(), east.abs())
}
