//! What is printed.

use std::io::{self, Write};

use haloport::device::{DeviceId, DeviceInfo};
use haloport::exchange::Choice;
use haloport::{DataPath, Pattern};
use serde::Serialize;

use super::args::{Order, UnstructuredArgs};
use crate::bench::block::FieldMemory;
use crate::bench::contestant::Samples;
use crate::bench::results::{Contestant, contestants, write_table};
use crate::command::print;
use crate::command::text::counted;

/// The results of one run: the object that `--json` prints. Times are microseconds.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    median_us: Option<f64>,
    gather_pass_us: Option<f64>,
    packed_persistent_us: Option<f64>,
    raw_send_us: Option<f64>,
    setup_us: Option<f64>,
    sort_ids_us: Option<f64>,
    ten_all_to_all_us: Option<f64>,
    /// Making the pattern, over sorting the ids and ten small all-to-all rounds.
    setup_ratio: Option<f64>,
    /// Cells that rank 0 owns.
    owned: usize,
    /// Cells of its halo.
    halo: u128,
    /// Bytes of them that one exchange fills.
    bytes: u128,
    path: String,
    ranks: usize,
    transport: &'static str,
    device: DeviceId,
    device_name: String,
    levels: u32,
    order: Order,
    fields: u32,
    memory: FieldMemory,
    asked_path: DataPath,
    /// Why it is taken.
    choice: Choice,
    samples: u32,
    /// Every cell was checked before the measurement.
    verified: bool,
    contestants: Vec<Contestant>,
    setup: Vec<Contestant>,
}

impl Report {
    pub(super) fn new(
        args: &UnstructuredArgs,
        pattern: &Pattern,
        device: &DeviceInfo,
        path: String,
        choice: Choice,
        exchange: &[Samples],
        setup: &[Samples],
    ) -> Report {
        let halo = pattern.halo_cells();
        let bytes = halo * (args.fields as usize * args.levels as usize * size_of::<f64>()) as u128;
        let (exchange, setup) = (contestants(exchange, bytes), contestants(setup, 0));
        let median = |of: &[Contestant], name: &str| {
            of.iter().find(|one| one.name == name).and_then(|one| one.times).map(|times| times.median_us)
        };
        let (setup_us, sort_ids_us, ten_all_to_all_us) =
            (median(&setup, "pattern"), median(&setup, "sort_ids"), median(&setup, "ten_all_to_all"));
        Report {
            median_us: median(&exchange, "haloport"),
            gather_pass_us: median(&exchange, "gather_pass"),
            packed_persistent_us: median(&exchange, "packed_persistent"),
            raw_send_us: median(&exchange, "raw_send"),
            setup_us,
            sort_ids_us,
            ten_all_to_all_us,
            setup_ratio: setup_us
                .zip(sort_ids_us.zip(ten_all_to_all_us))
                .map(|(setup, (sort, rounds))| setup / (sort + rounds)),
            owned: pattern.index_sets().iter().flat_map(|set| set.owned()).filter(|owned| **owned).count(),
            halo,
            bytes,
            path,
            ranks: pattern.comm().size(),
            transport: pattern.comm().info().name,
            device: device.id,
            device_name: device.name.clone(),
            levels: args.levels,
            order: args.order,
            fields: args.fields,
            memory: args.memory.memory,
            asked_path: args.memory.path,
            choice,
            samples: args.samples,
            verified: true,
            contestants: exchange,
            setup,
        }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let ranks = counted(self.ranks, "rank");
        writeln!(out, "{ranks} ({}) on {}, {}", self.transport, self.device, self.device_name)?;
        let levels = match (self.levels, self.order) {
            (1, _) => "no levels".into(),
            (levels, Order::Fastest) => format!("{levels} levels, side by side"),
            (levels, Order::Slowest) => format!("{levels} levels, each a block of its own"),
        };
        let plural = if self.fields == 1 { "" } else { "s" };
        writeln!(
            out,
            "rank 0 owns {} cells and has {} in its halo; {levels}, {} field{plural} of f64",
            self.owned, self.halo, self.fields
        )?;
        writeln!(out, "{} bytes of halo, by {}; every cell checked", self.bytes, self.path)?;
        writeln!(out, "path and order: {}", self.choice)?;
        writeln!(
            out,
            "{} of each, in turns; times per exchange in µs\n",
            counted(self.samples as usize, "sample")
        )?;
        write_table(out, &self.contestants)?;
        writeln!(out, "\nmaking the pattern, in µs\n")?;
        write_table(out, &self.setup)?;
        if let Some(ratio) = self.setup_ratio {
            writeln!(out, "\npattern ÷ (sort_ids + ten_all_to_all): {ratio:.2}")?;
        }
        Ok(())
    }
}
