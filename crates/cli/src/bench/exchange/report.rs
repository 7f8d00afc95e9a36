//! What is printed.

use std::io::{self, Write};

use haloport::device::{DeviceId, DeviceInfo};
use haloport::{ElementType, Pattern};
use serde::Serialize;

use super::args::{ExchangeArgs, SplitChoice};
use super::contestant::Samples;
use super::problem::Problem;
use crate::failure::Failure;

/// The results of one run: the object that `--json` prints. Times are microseconds per exchange.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    median_us: f64,
    p10_us: f64,
    p90_us: f64,
    /// Bytes of halo cells that one exchange fills on one rank.
    bytes: u128,
    /// How fast they are filled on each rank.
    bandwidth_gb_s: f64,
    path: String,
    one_pass_copy_us: Option<f64>,
    raw_send_us: Option<f64>,
    packed_persistent_us: Option<f64>,
    /// The same with one message per rank and plain copies to oneself.
    packed_fused_us: Option<f64>,
    /// The median time over that of the hand-packed persistent messages.
    ratio_to_packed_persistent: Option<f64>,
    /// The median time over that of the plain copies.
    ratio_to_one_pass_copy: Option<f64>,
    /// The median of the ratios of each round.
    round_ratio_to_one_pass_copy: Option<f64>,
    ranks: usize,
    transport: &'static str,
    device: DeviceId,
    device_name: String,
    local: Vec<usize>,
    grid: Vec<usize>,
    split: SplitChoice,
    halo: usize,
    fields: usize,
    dtype: ElementType,
    borrowed: bool,
    samples: usize,
    /// Every halo cell was checked before the measurement.
    verified: bool,
    contestants: Vec<Contestant>,
}

/// The results of one contestant; nothing but the name for one that did not take part.
#[derive(Debug, Serialize)]
struct Contestant {
    name: &'static str,
    batch: usize,
    #[serde(flatten)]
    times: Option<Times>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Times {
    median_us: f64,
    p10_us: f64,
    p90_us: f64,
    bandwidth_gb_s: f64,
    /// Haloport's median over this one.
    ratio: f64,
    /// The median over the rounds of Haloport's time over this one.
    round_ratio: f64,
}

impl Report {
    pub(super) fn new(
        args: &ExchangeArgs,
        problem: &Problem,
        pattern: &Pattern,
        device: &DeviceInfo,
        path: String,
        samples: Vec<Samples>,
    ) -> Report {
        let bytes = pattern.halo_cells() * (args.fields * args.dtype.bytes()) as u128;
        let library = samples.first().map_or(&[][..], |first| &first.microseconds);
        let contestants: Vec<Contestant> = samples
            .iter()
            .map(|one| Contestant {
                name: one.name,
                batch: one.batch,
                times: times(&one.microseconds, library, bytes),
            })
            .collect();
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
            path,
            one_pass_copy_us: median("one_pass_copy"),
            raw_send_us: median("raw_send"),
            packed_persistent_us: median("packed_persistent"),
            packed_fused_us: median("packed_fused"),
            ratio_to_packed_persistent: find("packed_persistent").map(|times| times.ratio),
            ratio_to_one_pass_copy: one_pass.map(|times| times.ratio),
            round_ratio_to_one_pass_copy: one_pass.map(|times| times.round_ratio),
            ranks: pattern.comm().size(),
            transport: pattern.comm().info().name,
            device: device.id,
            device_name: device.name.clone(),
            local: args.local.0.clone(),
            grid: (0..problem.grid.axes()).map(|axis| problem.grid.extent(axis)).collect(),
            split: args.split,
            halo: args.halo,
            fields: args.fields,
            dtype: args.dtype,
            borrowed: args.borrowed,
            samples: args.samples,
            verified: true,
            contestants,
        }
    }

    /// Prints the results to stdout, as one JSON object or as a table.
    ///
    /// # Errors
    /// [`Failure::Run`] where stdout cannot be written.
    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if json {
            writeln!(out, "{}", serde_json::to_string(self)?)?;
        } else {
            self.write(&mut out)?;
        }
        Ok(())
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let plural = if self.fields == 1 { "" } else { "s" };
        writeln!(out, "{} ranks ({}) on {}, {}", self.ranks, self.transport, self.device, self.device_name)?;
        writeln!(
            out,
            "{} cells on each rank, grid {}, periodic, halo {}, {} field{plural} of {}",
            by(&self.local),
            by(&self.grid),
            self.halo,
            self.fields,
            self.dtype
        )?;
        writeln!(
            out,
            "{} bytes of halo on each rank, by {}; every halo cell checked",
            self.bytes, self.path
        )?;
        writeln!(out, "{} samples of each, in turns; times per exchange in µs\n", self.samples)?;
        writeln!(
            out,
            "{:<20}{:>10}{:>10}{:>10}{:>9}{:>18}{:>8}",
            "", "median", "p10", "p90", "GB/s", "haloport ÷ this", "batch"
        )?;
        for Contestant { name, batch, times } in &self.contestants {
            match times {
                Some(times) => writeln!(
                    out,
                    "{name:<20}{:>10.1}{:>10.1}{:>10.1}{:>9.2}{:>18.3}{batch:>8}",
                    times.median_us, times.p10_us, times.p90_us, times.bandwidth_gb_s, times.round_ratio
                )?,
                None => writeln!(out, "{name:<20}{:>10}", "-")?,
            }
        }
        Ok(())
    }
}

fn times(microseconds: &[f64], library: &[f64], bytes: u128) -> Option<Times> {
    let median_us = quantile(microseconds, 0.5)?;
    let rounds: Vec<f64> = library.iter().zip(microseconds).map(|(library, this)| library / this).collect();
    Some(Times {
        median_us,
        p10_us: quantile(microseconds, 0.1)?,
        p90_us: quantile(microseconds, 0.9)?,
        bandwidth_gb_s: bytes as f64 / median_us / 1e3,
        ratio: quantile(library, 0.5)? / median_us,
        round_ratio: quantile(&rounds, 0.5)?,
    })
}

/// The value below which the given part of `values` lies, between two of them in proportion.
fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = part * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(below + (above - below) * at.fract())
}

fn by(numbers: &[usize]) -> String {
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    texts.join(" × ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_values() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[1.0, 2.0], 0.5), Some(1.5));
        assert_eq!(quantile(&[7.0], 0.9), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
