//! The results of each contestant, and their table.

use std::io::{self, Write};

use haloport::device::{DeviceId, DeviceInfo};
use haloport::exchange::Choice;
use haloport::{DataPath, Pattern};
use serde::Serialize;

use super::block::{FieldMemory, MemoryArgs};
use super::boundary::Boundary;
use super::contestant::Samples;
use crate::command::text::counted;

/// The results of one contestant; only its name if it did not take part.
#[derive(Debug, Serialize)]
pub(super) struct Contestant {
    pub(super) name: &'static str,
    pub(super) batch: usize,
    #[serde(flatten)]
    pub(super) times: Option<Times>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Times {
    pub(super) median_us: f64,
    pub(super) p10_us: f64,
    pub(super) p90_us: f64,
    pub(super) bandwidth_gb_s: f64,
    /// The median time to write owned cells before an exchange, which is not in its time.
    pub(super) write_us: Option<f64>,
    /// Haloport's median over this one.
    pub(super) ratio: f64,
    /// The median over the rounds of Haloport's time over this one.
    pub(super) round_ratio: f64,
}

/// The circumstances of a run: fields of the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Setting {
    path: String,
    ranks: usize,
    transport: &'static str,
    device: DeviceId,
    device_name: String,
    memory: FieldMemory,
    asked_path: DataPath,
    /// The reasons for the path and the order of halos.
    choice: Choice,
    /// Whether owned cells near the halo are written before each exchange, which is not in its time.
    boundary: Boundary,
    /// Nanoseconds to write a cache line that another core has just read, before and after the samples.
    handover_ns: Option<[f64; 2]>,
    samples: usize,
    /// Halos were checked before the measurement.
    verified: bool,
}

impl Setting {
    pub(super) fn new(
        pattern: &Pattern,
        device: &DeviceInfo,
        memory: &MemoryArgs,
        path: String,
        choice: Choice,
        samples: usize,
    ) -> Setting {
        Setting {
            path,
            ranks: pattern.comm().size(),
            transport: pattern.comm().info().name,
            device: device.id,
            device_name: device.name.clone(),
            memory: memory.memory,
            asked_path: memory.path,
            choice,
            boundary: Boundary::Unchanged,
            handover_ns: None,
            samples,
            verified: true,
        }
    }

    /// The same, with the state of the `boundary`, and the time of a handover before the samples and after them.
    pub(super) fn in_state(self, boundary: Boundary, handover_ns: Option<[f64; 2]>) -> Setting {
        Setting { boundary, handover_ns, ..self }
    }

    /// Writes the ranks and their device.
    ///
    /// # Errors
    /// Errors of `out`.
    pub(super) fn write_ranks(&self, out: &mut impl Write) -> io::Result<()> {
        let ranks = counted(self.ranks, "rank");
        writeln!(out, "{ranks} ({}) on {}, {}", self.transport, self.device, self.device_name)
    }

    /// Writes how many `bytes` of halo travel on which path, and why on that one; `checked` says which cells were
    /// checked.
    ///
    /// # Errors
    /// Errors of `out`.
    pub(super) fn write_path(&self, out: &mut impl Write, bytes: &str, checked: &str) -> io::Result<()> {
        writeln!(out, "{bytes}, by {}; {checked}", self.path)?;
        writeln!(out, "path and order: {}", self.choice)
    }

    /// Writes the state of the boundary and the distance of the cores. `cells`: those that are rewritten; `copies`: the contestant
    /// that copies within a rank.
    ///
    /// # Errors
    /// Errors of `out`.
    pub(super) fn write_state(&self, out: &mut impl Write, cells: &str, copies: &str) -> io::Result<()> {
        if self.boundary == Boundary::Written {
            writeln!(
                out,
                "{cells} are rewritten before each exchange, and that time is subtracted; {copies} reads a rank's own cells, \
                 and raw_send has none"
            )?;
        }
        if let Some([before, after]) = self.handover_ns {
            writeln!(
                out,
                "a cache line that another core has just read is written in {before:.0} ns (afterwards {after:.0} ns)"
            )?;
        }
        Ok(())
    }

    /// Writes the number of samples, and an empty line.
    ///
    /// # Errors
    /// Errors of `out`.
    pub(super) fn write_samples(&self, out: &mut impl Write) -> io::Result<()> {
        let samples = counted(self.samples, "sample");
        writeln!(out, "{samples} of each, in turns; times per exchange in µs\n")
    }
}

/// The results of all contestants. The others are compared with the first, Haloport; one exchange fills `bytes`.
pub(super) fn contestants(samples: &[Samples], bytes: u128) -> Vec<Contestant> {
    let alone: Vec<Vec<f64>> = samples.iter().map(exchanges_alone).collect();
    let library = alone.first().map_or(&[][..], Vec::as_slice);
    let of_each = samples.iter().zip(&alone).map(|(one, alone)| Contestant {
        name: one.name,
        batch: one.batch,
        times: times(alone, library, bytes)
            .map(|times| Times { write_us: quantile(&one.writing, 0.5), ..times }),
    });
    of_each.collect()
}

/// Writes one line for each contestant.
///
/// # Errors
/// Errors of `out`.
pub(super) fn write_table(out: &mut impl Write, contestants: &[Contestant]) -> io::Result<()> {
    writeln!(
        out,
        "{:<20}{:>10}{:>10}{:>10}{:>9}{:>18}{:>8}",
        "", "median", "p10", "p90", "GB/s", "haloport ÷ this", "batch"
    )?;
    for Contestant { name, batch, times } in contestants {
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

/// What an exchange adds to writing: the samples less the median time to write.
fn exchanges_alone(samples: &Samples) -> Vec<f64> {
    let writing = quantile(&samples.writing, 0.5).unwrap_or(0.0);
    samples.microseconds.iter().map(|all| all - writing).collect()
}

fn times(microseconds: &[f64], library: &[f64], bytes: u128) -> Option<Times> {
    let median_us = quantile(microseconds, 0.5)?;
    let rounds: Vec<f64> = library.iter().zip(microseconds).map(|(library, this)| library / this).collect();
    Some(Times {
        median_us,
        p10_us: quantile(microseconds, 0.1)?,
        p90_us: quantile(microseconds, 0.9)?,
        bandwidth_gb_s: bytes as f64 / median_us / 1e3,
        write_us: None,
        ratio: quantile(library, 0.5)? / median_us,
        round_ratio: quantile(&rounds, 0.5)?,
    })
}

/// The quantile `part` of `values`, interpolated linearly.
pub(super) fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = part * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(below + (above - below) * at.fract())
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
