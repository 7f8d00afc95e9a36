//! The printed results.

use std::io::{self, Write};

use haloport::Pattern;
use haloport::device::DeviceInfo;
use haloport::exchange::{Choice, Traffic};
use serde::Serialize;

use super::args::TransposeArgs;
use crate::bench::contestant::Samples;
use crate::bench::results::{Contestant, Setting, contestants, write_table};
use crate::command::print;
use crate::command::text::counted;

/// The results of one run: the object that `--json` prints. Times are microseconds per transpose.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    median_us: Option<f64>,
    one_pass_copy_us: Option<f64>,
    /// The median time over that of the plain copies.
    ratio_to_one_pass_copy: Option<f64>,
    /// Bytes of the columns that one transpose fills on one rank.
    bytes: usize,
    #[serde(flatten)]
    setting: Setting,
    cells: Vec<usize>,
    fields: usize,
    contestants: Vec<Contestant>,
}

impl Report {
    pub(super) fn new(
        args: &TransposeArgs,
        pattern: &Pattern,
        device: &DeviceInfo,
        (traffic, choice): (Traffic, Choice),
        samples: &[Samples],
        bytes: usize,
    ) -> Report {
        let contestants = contestants(samples, bytes as u128);
        let find = |name: &str| contestants.iter().find(|one| one.name == name).and_then(|one| one.times);
        let one_pass = find("one_pass_copy");
        Report {
            median_us: find("haloport").map(|own| own.median_us),
            one_pass_copy_us: one_pass.map(|times| times.median_us),
            ratio_to_one_pass_copy: one_pass.map(|times| times.ratio),
            bytes,
            setting: Setting::new(pattern, device, &args.memory, traffic.path(), choice, args.samples),
            cells: args.cells.0.clone(),
            fields: args.fields,
            contestants,
        }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.setting.write_ranks(out)?;
        let cells: Vec<String> = self.cells.iter().map(ToString::to_string).collect();
        writeln!(
            out,
            "a grid of {} cells, from parts along the first axis to parts along the second, {} of f64",
            cells.join(" × "),
            counted(self.fields, "field")
        )?;
        let bytes = format!("{} bytes for each rank", self.bytes);
        self.setting.write_path(out, &bytes, "every cell checked")?;
        self.setting.write_samples(out)?;
        write_table(out, &self.contestants)
    }
}
