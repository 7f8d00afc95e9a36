//! `haloport devices`: what this build and this machine have.

use std::io::{self, Write};

use clap::Args;
use haloport::device::DeviceInfo;
use haloport::{AnyDevice, BackendReport, BackendRole, Describe, backends};
use serde::Serialize;

use crate::failure::Failure;
use crate::print::{self, Report as _};

/// Arguments of `haloport devices`.
#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    /// The device that `auto` means.
    auto: String,
    backends: Vec<BackendReport>,
}

/// Lists backends, devices and transports.
///
/// # Errors
/// [`Failure::Run`] where stdout cannot be written.
pub(crate) fn run(args: &DevicesArgs) -> Result<(), Failure> {
    let auto = AnyDevice::select("auto").map_err(|error| Failure::Run(error.to_string()))?;
    let auto = auto.properties().id.to_string();
    Report { version: env!("CARGO_PKG_VERSION"), auto, backends: backends() }.print(args.json)
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "haloport {}, device `auto` is {}", self.version, self.auto)?;
        for (role, title) in [(BackendRole::Devices, "devices"), (BackendRole::Transport, "transports")] {
            writeln!(out, "\n{title}")?;
            for backend in self.backends.iter().filter(|backend| backend.role == role) {
                match &backend.missing {
                    Some(why) => writeln!(out, "  {:<12}missing: {why}", backend.name)?,
                    None if backend.devices.is_empty() => writeln!(out, "  {:<12}available", backend.name)?,
                    None => {}
                }
                backend.devices.iter().try_for_each(|device| write_device(out, device))?;
            }
        }
        Ok(())
    }
}

fn write_device(out: &mut impl Write, device: &DeviceInfo) -> io::Result<()> {
    let memory = device.memory_bytes.map_or_else(
        || "unknown memory".to_string(),
        |bytes| format!("{:.1} GiB of memory", bytes as f64 / f64::from(1 << 30)),
    );
    let units = device.compute_units;
    writeln!(out, "  {:<12}{}", device.id.to_string(), device.name)?;
    writeln!(out, "  {:<12}{}; {units} compute units; {memory}", "", device.driver)
}
