//! What this build and this machine have.

use haloport_core::DataPath;
#[cfg(feature = "cpu")]
use haloport_core::device::Device;
use haloport_core::device::DeviceInfo;
use haloport_core::transport::Reach;
use serde::Serialize;

#[cfg(feature = "cpu")]
use crate::spec::{BACKENDS, missing};

/// What a backend is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendRole {
    /// It offers devices.
    Devices,
    /// It carries messages between ranks.
    Transport,
}

/// One backend or transport that Haloport knows: what it has here, or why it is missing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendReport {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub role: BackendRole,
    /// Its devices.
    pub devices: Vec<DeviceInfo>,
    /// How cells get from one of its ranks to others.
    pub paths: Vec<RankPaths>,
    /// Why it cannot be used; `None` where it can.
    pub missing: Option<String>,
}

/// Some of the other ranks, seen from one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peers {
    /// Those of the same process.
    Process,
    /// Those of the same node, in other processes.
    Node,
    /// Those of other nodes.
    OtherNodes,
}

/// How cells get to a rank from some of the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankPaths {
    /// From which.
    pub peers: Peers,
    /// The paths, of which each gives way to the next where it cannot be taken: fields that Haloport has allocated can be
    /// read where they lie, those in the caller's memory are packed.
    pub paths: Vec<DataPath>,
    /// Why there is nothing but messages, where other paths might be expected.
    pub refused: Option<String>,
}

impl RankPaths {
    /// The paths of a transport between processes or threads that says this of itself.
    pub fn of(reach: &Reach) -> Vec<RankPaths> {
        let paths = |peers, paths: &[DataPath]| RankPaths { peers, paths: paths.to_vec(), refused: None };
        let [direct, shared, messages] = [DataPath::Direct, DataPath::Shared, DataPath::Messages];
        let node = match reach {
            Reach::Process => return vec![paths(Peers::Process, &[direct, messages])],
            Reach::Node { .. } => paths(Peers::Node, &[direct, shared, messages]),
            Reach::Own { reason } => {
                RankPaths { refused: Some(reason.clone()), ..paths(Peers::Node, &[messages]) }
            }
        };
        vec![node, paths(Peers::OtherNodes, &[messages])]
    }
}

/// Every backend and transport that Haloport knows, with its devices or the reason why it is missing.
///
/// MPI is not started: how its ranks exchange is what this process finds possible on its machine. What the ranks of a job
/// have found is [`RankPaths::of`] their communicator.
///
/// ```
/// let cpu = haloport::backends().into_iter().find(|backend| backend.name == "cpu").expect("it is listed");
/// assert_eq!(cpu.missing, None);
/// ```
pub fn backends() -> Vec<BackendReport> {
    let mut reports: Vec<BackendReport> = BACKENDS.iter().map(|(name, _)| devices(name)).collect();
    reports.push(BackendReport {
        name: "in-process",
        role: BackendRole::Transport,
        devices: Vec::new(),
        paths: RankPaths::of(&Reach::Process),
        missing: None,
    });
    reports.push(mpi());
    reports
}

#[cfg(feature = "mpi")]
fn mpi() -> BackendReport {
    // Of ranks, this process knows only itself.
    let reach = match haloport_mpi::try_node_memory() {
        Ok(()) => Reach::Node { ranks: 1 },
        Err(error) => Reach::Own { reason: error.to_string() },
    };
    let (role, paths) = (BackendRole::Transport, RankPaths::of(&reach));
    BackendReport { name: "mpi", role, devices: Vec::new(), paths, missing: None }
}

#[cfg(not(feature = "mpi"))]
fn mpi() -> BackendReport {
    let missing = Some("this build lacks the feature `mpi`".into());
    let role = BackendRole::Transport;
    BackendReport { name: "mpi", role, devices: Vec::new(), paths: Vec::new(), missing }
}

fn devices(name: &'static str) -> BackendReport {
    let found = match name {
        #[cfg(feature = "cuda")]
        "cuda" => haloport_cuda::CudaDevice::list().map_err(|error| error.to_string()),
        #[cfg(feature = "sycl")]
        "sycl" => haloport_sycl::SyclDevice::list().map_err(|error| error.to_string()),
        #[cfg(feature = "cpu")]
        "cpu" => haloport_cpu::CpuDevice::new()
            .map(|device| vec![device.info().clone()])
            .map_err(|error| error.to_string()),
        _ => Err(missing(name)),
    };
    let (devices, missing) = match found {
        Ok(devices) => (devices, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    BackendReport { name, role: BackendRole::Devices, devices, paths: Vec::new(), missing }
}
