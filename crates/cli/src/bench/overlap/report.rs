//! The printed results.

use std::io::{self, Write};

use haloport::Pattern;
use haloport::device::DeviceInfo;
use haloport::exchange::{Choice, Traffic};
use serde::Serialize;

use super::args::OverlapArgs;
use super::network::Network;
use super::work::STEPS;
use crate::bench::contestant::Samples;
use crate::bench::results::{Setting, quantile};
use crate::command::print;
use crate::command::text::counted;

/// The results of one run: the object that `--json` prints. Times are microseconds. Except `median_us` they are the 10 % quantile of the
/// samples: other programs, and ranks that wait for one which is delayed, only add to them.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    exchange_us: Option<f64>,
    work_us: Option<f64>,
    /// With persistent messages of MPI that are packed by hand.
    by_hand_exchange_us: Option<f64>,
    together: Vec<Together>,
    /// Bytes of halo cells that one exchange fills on one rank.
    bytes: u128,
    #[serde(flatten)]
    setting: Setting,
    local: Vec<usize>,
    halo: usize,
    fields: usize,
    asked_work_us: u64,
    network: Option<Network>,
    /// The time that the messages of an exchange take in the simulated network.
    transfer_us: Option<f64>,
}

/// An exchange and work.
#[derive(Debug, Serialize)]
struct Together {
    name: &'static str,
    quick_us: f64,
    median_us: f64,
    /// The part of the exchange that adds nothing to the work: 1 if all of it is hidden.
    hidden: Option<f64>,
    /// The time by which it is quicker than the exchange and then the work, as a part of the time that messages take in the simulated
    /// network.
    hidden_of_transfer: Option<f64>,
}

impl Report {
    pub(super) fn new(
        args: &OverlapArgs,
        pattern: &Pattern,
        device: &DeviceInfo,
        (traffic, choice): (Traffic, Choice),
        samples: &[Samples],
    ) -> Report {
        let of = |name: &str, part: f64| {
            let found = samples.iter().find(|one| one.name == name)?;
            Some(quantile(&found.microseconds, part)? / STEPS as f64)
        };
        let quick = |name: &str| of(name, 0.1);
        let transfer_us =
            args.network.map(|network| network.transfer(traffic.message_bytes).as_secs_f64() * 1e6);
        let together = |&(name, alone): &(&'static str, &str)| {
            let (quick_us, median_us) = (quick(name)?, of(name, 0.5)?);
            let hidden = quick(alone).zip(quick("work"));
            let hidden = hidden.map(|(exchange, work)| (exchange + work - quick_us) / exchange);
            let saved = quick("after").zip(transfer_us);
            let hidden_of_transfer = saved.map(|(after, transfer)| (after - quick_us) / transfer);
            Some(Together { name, quick_us, median_us, hidden, hidden_of_transfer })
        };
        let contestants = [
            ("after", "exchange"),
            ("caller", "exchange"),
            ("polled", "exchange"),
            ("thread", "exchange"),
            ("by_hand", "by_hand_exchange"),
        ];
        Report {
            exchange_us: quick("exchange"),
            work_us: quick("work"),
            by_hand_exchange_us: quick("by_hand_exchange"),
            together: contestants.iter().filter_map(together).collect(),
            bytes: pattern.halo_cells() * (args.fields * size_of::<f64>()) as u128,
            setting: Setting::new(pattern, device, &args.memory, traffic.path(), choice, args.samples),
            local: args.local.0.clone(),
            halo: args.halo,
            fields: args.fields,
            asked_work_us: args.work,
            network: args.network,
            transfer_us,
        }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.setting.write_ranks(out)?;
        let local: Vec<String> = self.local.iter().map(ToString::to_string).collect();
        writeln!(
            out,
            "{} cells on each rank, periodic, halo {}, {} of f64",
            local.join(" × "),
            self.halo,
            counted(self.fields, "field")
        )?;
        if let Some((network, transfer)) = self.network.zip(self.transfer_us) {
            writeln!(out, "{network}, in which the messages of an exchange take {transfer:.1} µs")?;
        }
        let bytes = format!("{} bytes of halo on each rank", self.bytes);
        self.setting.write_path(out, &bytes, "every halo cell checked")?;
        self.setting.write_samples(out)?;
        write!(out, "{:<20}{:>10}{:>10}{:>10}", "", "p10", "median", "hidden")?;
        writeln!(out, "{}", if self.network.is_some() { "  of the transfer" } else { "" })?;
        let alone = [
            ("exchange", self.exchange_us),
            ("work", self.work_us),
            ("by_hand_exchange", self.by_hand_exchange_us),
        ];
        for (name, quick) in alone {
            if let Some(quick) = quick {
                writeln!(out, "{name:<20}{quick:>10.1}")?;
            }
        }
        for Together { name, quick_us, median_us, hidden, hidden_of_transfer } in &self.together {
            let percent = |part: &f64| format!("{:.0} %", 100.0 * part);
            let hidden = hidden.as_ref().map_or("-".into(), percent);
            let of_transfer =
                hidden_of_transfer.as_ref().map_or(String::new(), |part| format!("{:>17}", percent(part)));
            writeln!(out, "{name:<20}{quick_us:>10.1}{median_us:>10.1}{hidden:>10}{of_transfer}")?;
        }
        Ok(())
    }
}
