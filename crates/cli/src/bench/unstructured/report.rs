//! The printed results.

use std::io::{self, Write};

use haloport::Pattern;
use haloport::device::DeviceInfo;
use haloport::exchange::Choice;
use serde::Serialize;

use super::args::{Order, UnstructuredArgs};
use crate::bench::boundary::Boundary;
use crate::bench::contestant::Samples;
use crate::bench::results::{Contestant, Setting, contestants, write_table};
use crate::command::print;
use crate::command::text::counted;

/// The results of one run: the object that `--json` prints. Times are microseconds.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    median_us: Option<f64>,
    levels_slowest_us: Option<f64>,
    gather_pass_us: Option<f64>,
    packed_persistent_us: Option<f64>,
    raw_send_us: Option<f64>,
    setup_us: Option<f64>,
    sort_ids_us: Option<f64>,
    ten_all_to_all_us: Option<f64>,
    /// The time to make the pattern, over that of sorting the ids and ten small all-to-all rounds.
    setup_ratio: Option<f64>,
    /// Cells that rank 0 owns.
    owned: usize,
    /// Cells of its halo.
    halo: u128,
    /// Bytes of the halo that one exchange fills.
    bytes: u128,
    #[serde(flatten)]
    setting: Setting,
    levels: u32,
    order: Order,
    nproma: Option<u32>,
    fields: u32,
    contestants: Vec<Contestant>,
    setup: Vec<Contestant>,
}

impl Report {
    pub(super) fn new(
        args: &UnstructuredArgs,
        pattern: &Pattern,
        device: &DeviceInfo,
        (path, choice): (String, Choice),
        (boundary, handover_ns): (Boundary, Option<[f64; 2]>),
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
            levels_slowest_us: median(&exchange, "levels_slowest"),
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
            setting: Setting::new(pattern, device, &args.memory, path, choice, args.samples as usize)
                .in_state(boundary, handover_ns),
            levels: args.levels,
            order: args.order,
            nproma: args.nproma,
            fields: args.fields,
            contestants: exchange,
            setup,
        }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.setting.write_ranks(out)?;
        let levels = match (self.levels, self.order) {
            (levels, _) if let Some(cells) = self.nproma => {
                format!("{levels} levels, in blocks of {cells} cells")
            }
            (1, _) => "no levels".into(),
            (levels, Order::Fastest) => format!("{levels} levels, side by side"),
            (levels, Order::Slowest) => format!("{levels} levels, each a block of its own"),
        };
        let fields = counted(self.fields as usize, "field");
        writeln!(
            out,
            "rank 0 owns {} cells and has {} in its halo; {levels}, {fields} of f64",
            self.owned, self.halo
        )?;
        self.setting.write_path(out, &format!("{} bytes of halo", self.bytes), "every cell checked")?;
        self.setting.write_state(out, "owned cells near the halo", "gather_pass")?;
        self.setting.write_samples(out)?;
        write_table(out, &self.contestants)?;
        writeln!(out, "\nmaking the pattern, in µs\n")?;
        write_table(out, &self.setup)?;
        if let Some(ratio) = self.setup_ratio {
            writeln!(out, "\npattern ÷ (sort_ids + ten_all_to_all): {ratio:.2}")?;
        }
        Ok(())
    }
}
