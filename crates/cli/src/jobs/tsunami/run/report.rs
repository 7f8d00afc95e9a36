//! What is printed.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::jobs::common::traffic::Moved;
use crate::jobs::tsunami::model::uplift::Uplift;
use haloport::Communicator;
use haloport::device::{DeviceId, DeviceInfo};
use serde::Serialize;

use super::args::TsunamiArgs;
use super::job::Done;
use super::problem::Problem;
use super::tides::{ARRIVAL, Seen};
use crate::command::print;
use crate::command::text::{beside_exchanges, bytes, significant};
use crate::jobs::common::checks::{Check, write_checks};
use crate::jobs::common::progress::clock;

/// Exchanges of halos in each step.
const EXCHANGES_PER_STEP: usize = 2;

/// The results of a run: the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The file of the relief; null for the shipped one.
    bathymetry: Option<PathBuf>,
    refine: usize,
    /// Columns and rows of the grid.
    grid: [usize; 2],
    cells: usize,
    ranks: usize,
    /// Blocks from west to east and from south to north.
    blocks: [usize; 2],
    transport: &'static str,
    device: DeviceId,
    device_name: String,
    uplift: Uplift,
    /// What the edges of the grid are.
    outer_walls: &'static str,
    simulated_s: f64,
    steps: usize,
    mean_time_step_s: f64,
    /// All of the run; then of that the steps alone, without gathering, pictures and set-up.
    wall_s: f64,
    stepping_s: f64,
    cells_per_second: f64,
    /// Whether cells that need no halo were computed while halos travelled.
    overlap: bool,
    /// Parts of the ranks' stepping time: exchanges of halos, and the reduction for the time step; on the host, which does not
    /// wait for halos where a device does.
    exchange_share: f64,
    reduction_share: f64,
    exchanges: usize,
    /// Of all ranks together, for one exchange and in all.
    bytes_per_exchange: u64,
    bytes_moved: u64,
    moved: Moved,
    /// How they got to other ranks, and why so.
    path: String,
    volume_m3: f64,
    volume_drift: f64,
    min_depth_m: f64,
    max_speed_m_s: f64,
    max_wave_m: f64,
    /// Degrees east and north.
    max_wave_at: [f64; 2],
    gauges: Vec<Seen>,
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
        done: Done,
        in_process: bool,
        checks: Option<Vec<Check>>,
    ) -> Report {
        let stepping = done.stepping.as_secs_f64();
        let of_ranks = stepping * comm.size() as f64;
        let exchanges = EXCHANGES_PER_STEP * done.steps;
        let bytes_per_exchange = done.moved.bytes();
        let relief = &problem.relief;
        let [row, column] = done.max_wave_at;
        Report {
            bathymetry: args.bathymetry.clone(),
            refine: args.refine,
            grid: [relief.nx(), relief.ny()],
            cells: problem.cells(),
            ranks: comm.size(),
            blocks: [done.parts[1], done.parts[0]],
            transport: comm.info().name,
            device: device.id,
            device_name: device.name.clone(),
            uplift: problem.uplift,
            outer_walls: "closed: waves are reflected at the edges of the grid",
            simulated_s: problem.end,
            steps: done.steps,
            mean_time_step_s: problem.end / done.steps as f64,
            wall_s: done.wall.as_secs_f64(),
            stepping_s: stepping,
            cells_per_second: (problem.cells() * done.steps) as f64 / stepping,
            overlap: problem.overlap,
            exchange_share: done.spent.exchange.as_secs_f64() / of_ranks,
            reduction_share: done.spent.reduction.as_secs_f64() / of_ranks,
            exchanges,
            bytes_per_exchange,
            bytes_moved: bytes_per_exchange * exchanges as u64,
            moved: done.moved,
            path: done.moved.path(device, &comm.info()),
            volume_m3: done.volume,
            volume_drift: done.drift,
            min_depth_m: done.min_depth,
            max_speed_m_s: done.max_speed,
            max_wave_m: done.max_wave,
            max_wave_at: [relief.longitude[column], relief.latitude[row]],
            gauges: done.gauges,
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
        writeln!(out, "Tsunami on {place}, {} simulated\n", clock(self.simulated_s))?;
        let [nx, ny] = self.grid;
        let mut line = |name: &str, text: String| writeln!(out, "  {name:<14}{text}");
        line("grid", format!("{nx} × {ny} cells, refined {} times", self.refine))?;
        line(
            "ranks",
            format!(
                "{} ({}), {} × {} blocks, on {}, {}",
                self.ranks, self.transport, self.blocks[0], self.blocks[1], self.device, self.device_name
            ),
        )?;
        line("steps", format!("{} of {:.2} s on average", self.steps, self.mean_time_step_s))?;
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
            format!(
                "{}; {:.1} % of the time (and {:.1} % in the reduction for the time step)",
                beside_exchanges(self.overlap),
                100.0 * self.exchange_share,
                100.0 * self.reduction_share
            ),
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
        line(
            "uplift",
            format!(
                "{:.1} m of sea surface at {}",
                self.uplift.height,
                place_of(self.uplift.longitude, self.uplift.latitude)
            ),
        )?;
        line(
            "largest wave",
            format!("{:.2} m at {}", self.max_wave_m, place_of(self.max_wave_at[0], self.max_wave_at[1])),
        )?;
        line("water", format!("{:.4e} m³; relative change {:.1e}", self.volume_m3, self.volume_drift))?;
        line("outer walls", self.outer_walls.into())?;
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
fn place_of(longitude: f64, latitude: f64) -> String {
    let east = (longitude + 180.0).rem_euclid(360.0) - 180.0;
    let (ew, ns) = (if east < 0.0 { "W" } else { "E" }, if latitude < 0.0 { "S" } else { "N" });
    format!("{:.2}°{ns} {:.2}°{ew}", latitude.abs(), east.abs())
}
