//! The speed of a run and what its exchanges moved.

use std::io;
use std::time::Duration;

use haloport::Communicator;
use haloport::device::{DeviceId, DeviceInfo};
use serde::Serialize;

use crate::command::text::{beside_exchanges, bytes, significant};
use haloport_demos::common::traffic::Moved;

/// Exchanges of halos in each step.
const EXCHANGES_PER_STEP: usize = 2;

/// The speed of a run: fields of the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Performance {
    pub(crate) ranks: usize,
    pub(crate) transport: &'static str,
    pub(crate) device: DeviceId,
    pub(crate) device_name: String,
    pub(crate) steps: usize,
    /// Seconds of the whole run.
    pub(crate) wall_s: f64,
    /// Seconds of the steps alone, without set-up, gathering and pictures.
    stepping_s: f64,
    /// Levels of cells, if there are levels.
    cells_per_second: f64,
    /// Whether cells that need no halo were computed while halos travelled.
    overlap: bool,
    /// The share of the ranks' stepping time that the host spent in exchanges. On a device, the host does not wait for
    /// halos.
    exchange_share: f64,
    exchanges: usize,
    /// Bytes of one exchange, of all ranks together.
    bytes_per_exchange: u64,
    /// Bytes of all exchanges, of all ranks together.
    bytes_moved: u64,
    moved: Moved,
    /// The path of halos to other ranks, and the reason.
    path: String,
}

/// The measurements of a run.
pub(crate) struct Effort {
    /// Values that one step computes.
    pub(crate) cells: usize,
    pub(crate) steps: usize,
    pub(crate) wall: Duration,
    /// Of the steps alone.
    pub(crate) stepping: Duration,
    /// In exchanges, summed over all ranks.
    pub(crate) exchange: Duration,
    /// By one exchange.
    pub(crate) moved: Moved,
    pub(crate) overlap: bool,
}

impl Performance {
    pub(crate) fn new(comm: &Communicator, device: &DeviceInfo, effort: &Effort) -> Performance {
        let &Effort { cells, steps, wall, stepping, exchange, moved, overlap } = effort;
        let stepping_s = stepping.as_secs_f64();
        let exchanges = EXCHANGES_PER_STEP * steps;
        Performance {
            ranks: comm.size(),
            transport: comm.info().name,
            device: device.id,
            device_name: device.name.clone(),
            steps,
            wall_s: wall.as_secs_f64(),
            stepping_s,
            cells_per_second: (cells * steps) as f64 / stepping_s,
            overlap,
            exchange_share: exchange.as_secs_f64() / (stepping_s * comm.size() as f64),
            exchanges,
            bytes_per_exchange: moved.bytes(),
            bytes_moved: moved.bytes() * exchanges as u64,
            moved,
            path: moved.path(device, &comm.info()),
        }
    }

    /// Writes the lines of the report through `line`, which takes a name and a text. `rest` follows the exchanges'
    /// share.
    ///
    /// # Errors
    /// Errors of `line`.
    pub(crate) fn write(
        &self,
        mut line: impl FnMut(&str, String) -> io::Result<()>,
        rest: &str,
    ) -> io::Result<()> {
        let speed = significant(self.cells_per_second / 1e6);
        let (stepping, wall) = (self.stepping_s, self.wall_s);
        line(
            "speed",
            format!("{speed} million cells per second; {stepping:.1} s for the steps, {wall:.1} s in all"),
        )?;
        let share = 100.0 * self.exchange_share;
        line("exchange", format!("{}; {share:.1} % of the time{rest}", beside_exchanges(self.overlap)))?;
        line("halos by", self.path.clone())?;
        let (each, all) = (bytes(self.bytes_per_exchange), bytes(self.bytes_moved));
        line("bytes moved", format!("{each} per exchange, {all} in {} exchanges", self.exchanges))
    }
}
