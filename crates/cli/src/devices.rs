//! `haloport devices`: the backends, devices and transports of this build and machine.

use std::io::{self, Write};

use clap::Args;
use haloport::comm::{Reach, TransportInfo};
use haloport::device::{BackendReport, BackendRole, DeviceInfo, Peers, RankPaths, backends};
use haloport::{AnyDevice, DataPath};
use serde::Serialize;

use crate::command::failure::Failure;
use crate::command::launch::{RankArgs, launched_by, on_ranks};
use crate::command::memory::{gib, room_on_host};
use crate::command::print::{self, Report as _};
use haloport_demos::common::traffic::in_messages;

const EXAMPLES: &str = "\
Examples:
  haloport devices
  haloport devices --json";

/// Arguments of `haloport devices`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
    /// The ranks that a launcher has started, if any.
    job: Option<Job>,
}

/// The ranks of the job, as rank 0 sees them.
#[derive(Serialize)]
struct Job {
    ranks: usize,
    transport: TransportInfo,
}

/// Lists backends, devices, transports and how ranks exchange. Of several processes, only that of rank 0 prints.
///
/// # Errors
/// [`Failure::Run`] if MPI cannot be started or stdout cannot be written.
pub(crate) fn run(args: &DevicesArgs) -> Result<(), Failure> {
    if !(cfg!(feature = "mpi") && launched_by().is_some()) {
        return Report::new(None)?.print(args.json);
    }
    let job = on_ranks(&RankArgs::default(), |comm| Ok(Job { ranks: comm.size(), transport: comm.info() }))?;
    match job {
        Some(job) => Report::new(Some(job))?.print(args.json),
        None => Ok(()),
    }
}

impl Report {
    fn new(job: Option<Job>) -> Result<Report, Failure> {
        let auto = AnyDevice::select("auto").map_err(|error| Failure::Run(error.to_string()))?;
        let auto = auto.info().id.to_string();
        let mut backends = backends();
        if let Some(Job { transport, .. }) = &job {
            // The paths that the ranks have agreed on, not those that this process alone would choose.
            let used = backends.iter_mut().find(|backend| backend.name == transport.name);
            used.into_iter().for_each(|backend| backend.paths = RankPaths::of(&transport.reach));
        }
        Ok(Report { version: env!("CARGO_PKG_VERSION"), auto, backends, job })
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "haloport {}, device `auto` is {}", self.version, self.auto)?;
        for (role, title) in [(BackendRole::Devices, "devices"), (BackendRole::Transport, "transports")] {
            writeln!(out, "\n{title}")?;
            for backend in self.backends.iter().filter(|backend| backend.role == role) {
                match &backend.missing {
                    Some(why) => writeln!(out, "  {:<12}missing: {why}", backend.name)?,
                    None if role == BackendRole::Transport => {
                        writeln!(out, "  {:<12}{}", backend.name, self.state_of(backend))?;
                    }
                    None => {}
                }
                backend.devices.iter().try_for_each(|device| self.write_device(out, device))?;
                for why in &backend.unusable {
                    writeln!(out, "  {:<12}a device cannot be used: {why}", backend.name)?;
                }
                backend.paths.iter().try_for_each(|paths| write_paths(out, paths))?;
            }
        }
        Ok(())
    }
}

impl Report {
    fn write_device(&self, out: &mut impl Write, device: &DeviceInfo) -> io::Result<()> {
        let memory = device.memory_bytes.map_or_else(
            || "unknown memory".to_string(),
            |bytes| format!("{:.1} GiB of memory", gib(bytes.into())),
        );
        let units = device.compute_units;
        writeln!(out, "  {:<11} {}", device.id.to_string(), device.name)?;
        writeln!(out, "  {:<12}{}; {units} compute units; {memory}", "", device.driver)?;
        if let Some(room) = room_on_host().filter(|_| device.runs_on_host()) {
            writeln!(out, "  {:<12}at most {room}", "")?;
        }
        writeln!(out, "  {:<12}{}", "", self.finish_of(device))?;
        match self.between_processes(device) {
            Some(ways) => writeln!(out, "  {:<12}between processes: {ways}", ""),
            None => Ok(()),
        }
    }

    /// The path of halos in that device's memory to other processes; `None` if the transport alone decides.
    fn between_processes(&self, device: &DeviceInfo) -> Option<String> {
        let transport = self.job.as_ref().map(|job| &job.transport)?;
        if device.runs_on_host() {
            return None;
        }
        let near = if device.capabilities.memory_export && matches!(transport.reach, Reach::Node { .. }) {
            "straight from the neighbour's memory on the same node, else "
        } else {
            ""
        };
        Some(format!("{near}{}", in_messages(device, transport)))
    }

    /// The work of the host at the end of an exchange on that device.
    fn finish_of(&self, device: &DeviceInfo) -> &'static str {
        let any_thread = self.job.as_ref().is_none_or(|job| job.transport.any_thread);
        match (device.asynchronous, any_thread) {
            (false, _) => "`finish` returns with the halos in place",
            _ if !device.capabilities.gates => {
                "`finish` on a stream waits for messages: the device cannot hold a stream back"
            }
            (true, true) => "`finish` on a stream returns at once, and a thread sends and receives",
            (true, false) => {
                "`finish` on a stream waits for messages: MPI may be called from one thread alone"
            }
        }
    }

    fn state_of(&self, backend: &BackendReport) -> String {
        match self.job.as_ref().filter(|job| job.transport.name == backend.name) {
            Some(Job { ranks, transport }) => {
                format!("{}; ranks in this job: {ranks}", transport.implementation)
            }
            None => backend.library.clone().unwrap_or_else(|| "available".into()),
        }
    }
}

fn write_paths(out: &mut impl Write, paths: &RankPaths) -> io::Result<()> {
    let peers = match paths.peers {
        Peers::Process => "ranks of one process",
        Peers::Node => "ranks of one node",
        Peers::OtherNodes => "ranks of other nodes",
    };
    let taken: Vec<&str> = paths.paths.iter().map(|path| in_words(*path)).collect();
    let refused = paths.refused.as_ref().map_or_else(String::new, |why| format!("; no shared memory: {why}"));
    writeln!(out, "  {:<12}{peers}: {}{refused}", "", taken.join(", else "))
}

fn in_words(path: DataPath) -> &'static str {
    match path {
        DataPath::Quickest => "the quickest path",
        DataPath::Direct => "straight from the neighbour's field",
        DataPath::Shared => "packed into memory that both map",
        DataPath::Messages => "in messages",
        DataPath::StreamMessages => "in messages that streams send",
    }
}
