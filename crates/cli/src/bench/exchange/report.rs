//! The printed results.

use std::io::{self, Write};

use haloport::device::DeviceInfo;
use haloport::exchange::{Choice, HaloOrder, Traffic};
use haloport::{ElementType, Pattern};
use serde::Serialize;

use super::args::{ExchangeArgs, SplitChoice};
use super::problem::Problem;
use crate::bench::boundary::Boundary;
use crate::bench::contestant::Samples;
use crate::bench::results::{Contestant, Setting, contestants, write_table};
use crate::command::print;
use crate::command::text::counted;

/// The results of one run: the object that `--json` prints. Times are microseconds per exchange.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    median_us: f64,
    p10_us: f64,
    p90_us: f64,
    /// Bytes of halo cells that one exchange fills on one rank.
    bytes: u128,
    /// The speed at which each rank fills them.
    bandwidth_gb_s: f64,
    one_pass_copy_us: Option<f64>,
    raw_send_us: Option<f64>,
    packed_persistent_us: Option<f64>,
    /// With one message per rank and plain copies within the rank.
    packed_fused_us: Option<f64>,
    /// The median time over that of the hand-packed persistent messages.
    ratio_to_packed_persistent: Option<f64>,
    /// The median time over that of the plain copies.
    ratio_to_one_pass_copy: Option<f64>,
    /// The median of the ratios of each round.
    round_ratio_to_one_pass_copy: Option<f64>,
    #[serde(flatten)]
    setting: Setting,
    local: Vec<usize>,
    grid: Vec<usize>,
    split: SplitChoice,
    halo: usize,
    fields: usize,
    dtype: ElementType,
    halo_order: HaloOrder,
    /// Whether halo cells are added to those of their owners, in place of the exchange.
    accumulated: bool,
    /// The work of half of the ranks between start and end, in microseconds.
    uneven_us: Option<u64>,
    /// The number of times that neighbours wait for each other in one exchange.
    steps: usize,
    contestants: Vec<Contestant>,
}

impl Report {
    #[allow(clippy::too_many_arguments, reason = "each is one thing that a run has")]
    pub(super) fn new(
        args: &ExchangeArgs,
        problem: &Problem,
        pattern: &Pattern,
        device: &DeviceInfo,
        traffic: Traffic,
        choice: Choice,
        samples: Vec<Samples>,
        handover_ns: Option<[f64; 2]>,
        boundary: Boundary,
    ) -> Report {
        let bytes = pattern.halo_cells() * (args.fields * args.dtype.bytes()) as u128;
        let contestants = contestants(&samples, bytes);
        let find = |name: &str| contestants.iter().find(|one| one.name == name).and_then(|one| one.times);
        let median = |name: &str| find(name).map(|times| times.median_us);
        let one_pass = find("one_pass_copy");
        let own = find("haloport");
        Report {
            median_us: own.map_or(f64::NAN, |own| own.median_us),
            p10_us: own.map_or(f64::NAN, |own| own.p10_us),
            p90_us: own.map_or(f64::NAN, |own| own.p90_us),
            bytes,
            bandwidth_gb_s: own.map_or(f64::NAN, |own| own.bandwidth_gb_s),
            one_pass_copy_us: median("one_pass_copy"),
            raw_send_us: median("raw_send"),
            packed_persistent_us: median("packed_persistent"),
            packed_fused_us: median("packed_fused"),
            ratio_to_packed_persistent: find("packed_persistent").map(|times| times.ratio),
            ratio_to_one_pass_copy: one_pass.map(|times| times.ratio),
            round_ratio_to_one_pass_copy: one_pass.map(|times| times.round_ratio),
            setting: Setting::new(pattern, device, &args.memory, traffic.path(), choice, args.samples)
                .in_state(boundary, handover_ns),
            local: args.local.0.clone(),
            grid: (0..problem.grid.axes()).map(|axis| problem.grid.extent(axis)).collect(),
            split: args.split,
            halo: args.halo,
            fields: args.fields,
            dtype: args.dtype,
            halo_order: args.memory.halo_order,
            accumulated: args.accumulate,
            uneven_us: args.uneven,
            steps: traffic.steps,
            contestants,
        }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.setting.write_ranks(out)?;
        writeln!(
            out,
            "{} cells on each rank, grid {}, periodic, halo {}, {} of {}",
            by(&self.local),
            by(&self.grid),
            self.halo,
            counted(self.fields, "field"),
            self.dtype
        )?;
        let bytes = format!("{} bytes of halo on each rank", self.bytes);
        if self.accumulated {
            self.setting.write_path(out, &bytes, "added to their owners; every owned cell checked")?;
            self.setting.write_state(out, "halo cells", "one_pass_add")?;
        } else {
            self.setting.write_path(out, &bytes, "every halo cell checked")?;
            self.setting.write_state(out, "owned cells near the halo", "one_pass_copy")?;
        }
        if let Some(time) = self.uneven_us {
            writeln!(
                out,
                "half of the ranks, in turns, work for {time} µs between the start of an exchange and its end"
            )?;
        }
        self.setting.write_samples(out)?;
        write_table(out, &self.contestants)
    }
}

fn by(numbers: &[usize]) -> String {
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    texts.join(" × ")
}
