//! The backends and transports of this build and this machine.

use haloport_core::DataPath;
#[cfg(feature = "cpu")]
use haloport_core::device::Device;
use haloport_core::device::DeviceInfo;
use haloport_core::transport::Reach;
use serde::Serialize;

use crate::spec::{BACKENDS, missing};

/// The role of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendRole {
    /// It offers devices.
    Devices,
    /// It carries messages between ranks.
    Transport,
}

/// A backend or transport that Haloport knows: what it offers on this machine, or why it is missing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendReport {
    /// Its name.
    pub name: &'static str,
    /// Its role.
    pub role: BackendRole,
    /// Its devices.
    pub devices: Vec<DeviceInfo>,
    /// Why further devices cannot be used; each text names its device.
    pub unusable: Vec<String>,
    /// The version and the file of the library that it has found at run time, if it tells.
    pub library: Option<String>,
    /// How cells travel between its ranks.
    pub paths: Vec<RankPaths>,
    /// Why it cannot be used; `None` if it can.
    pub missing: Option<String>,
}

/// A group of ranks, as seen from one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peers {
    /// Ranks of the same process.
    Process,
    /// Ranks of the same node, in other processes.
    Node,
    /// Ranks of other nodes.
    OtherNodes,
}

/// How cells travel to a rank from a group of other ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankPaths {
    /// The other ranks.
    pub peers: Peers,
    /// The paths, the quickest first. If one cannot be taken, the next is: fields that Haloport has allocated can be read
    /// where they lie, fields in the caller's memory are packed.
    pub paths: Vec<DataPath>,
    /// Why there are only messages, if other paths might be expected.
    pub refused: Option<String>,
}

impl RankPaths {
    /// The paths of a transport with this reach. Ranks of a node that share no memory with the others are a group of their
    /// own.
    pub fn of(reach: &Reach) -> Vec<RankPaths> {
        let paths = |peers, paths: &[DataPath]| RankPaths { peers, paths: paths.to_vec(), refused: None };
        let [direct, shared, messages] = [DataPath::Direct, DataPath::Shared, DataPath::Messages];
        let node = match reach {
            Reach::Process => return vec![paths(Peers::Process, &[direct, messages])],
            Reach::Node { apart, .. } => {
                let near = paths(Peers::Node, &[direct, shared, messages]);
                let others = |why: &String| RankPaths {
                    refused: Some(why.clone()),
                    ..paths(Peers::Node, &[messages])
                };
                let node = [near].into_iter().chain(apart.as_ref().map(others));
                return node.chain([paths(Peers::OtherNodes, &[messages])]).collect();
            }
            Reach::Own { reason } => {
                RankPaths { refused: Some(reason.clone()), ..paths(Peers::Node, &[messages]) }
            }
        };
        vec![node, paths(Peers::OtherNodes, &[messages])]
    }
}

/// Every backend and transport that Haloport knows, with its devices or the reason why it is missing.
///
/// MPI is loaded but not started: its paths are those that this process finds possible on its machine. [`RankPaths::of`] the reach of a
/// communicator gives those of a running job.
///
/// ```
/// let cpu = haloport::device::backends().into_iter().find(|backend| backend.name == "cpu").expect("it is listed");
/// assert_eq!(cpu.missing, None);
/// ```
pub fn backends() -> Vec<BackendReport> {
    let mut reports: Vec<BackendReport> = BACKENDS.iter().map(|(name, _)| devices(name)).collect();
    #[cfg(feature = "sycl")]
    reports.insert(2, devices("level_zero"));
    let paths = RankPaths::of(&Reach::Process);
    reports.push(BackendReport { paths, ..empty("in-process", BackendRole::Transport) });
    reports.push(mpi());
    reports
}

#[cfg(feature = "mpi")]
fn mpi() -> BackendReport {
    // This process knows of no other rank.
    let reach = || match haloport_mpi::try_node_memory() {
        Ok(()) => Reach::Node { ranks: 1, apart: None },
        Err(error) => Reach::Own { reason: error.to_string() },
    };
    let (library, paths, missing) = match haloport_mpi::library() {
        Ok(library) => (Some(library), RankPaths::of(&reach()), None),
        Err(why) => (None, Vec::new(), Some(why.to_string())),
    };
    BackendReport { library, paths, missing, ..empty("mpi", BackendRole::Transport) }
}

#[cfg(not(feature = "mpi"))]
fn mpi() -> BackendReport {
    let missing = Some("this build lacks the feature `mpi`".into());
    BackendReport { missing, ..empty("mpi", BackendRole::Transport) }
}

fn devices(name: &'static str) -> BackendReport {
    let found = match name {
        #[cfg(feature = "cuda")]
        "cuda" => cuda().map_err(|error| error.to_string()),
        #[cfg(feature = "sycl")]
        "sycl" => haloport_sycl::SyclDevice::list()
            .map(|devices| (devices, Vec::new()))
            .map_err(|error| error.to_string()),
        #[cfg(feature = "sycl")]
        "level_zero" => haloport_sycl::SyclDevice::list_of_sycl("level_zero")
            .map(|devices| (devices, Vec::new()))
            .map_err(|error| error.to_string()),
        #[cfg(feature = "cpu")]
        "cpu" => haloport_cpu::CpuDevice::new()
            .map(|device| (vec![device.info().clone()], Vec::new()))
            .map_err(|error| error.to_string()),
        _ => Err(missing(name)),
    };
    let ((devices, unusable), missing) = match found {
        Ok(found) => (found, None),
        Err(why) => ((Vec::new(), Vec::new()), Some(why)),
    };
    BackendReport { devices, unusable, missing, ..empty(name, BackendRole::Devices) }
}

/// The GPUs that can be used, and why others cannot.
#[cfg(feature = "cuda")]
fn cuda() -> Result<(Vec<DeviceInfo>, Vec<String>), haloport_core::device::DeviceError> {
    use haloport_cuda::CudaDevice;
    let unusable = CudaDevice::unusable()?.iter().map(ToString::to_string).collect();
    Ok((CudaDevice::list()?, unusable))
}

/// A report without findings.
fn empty(name: &'static str, role: BackendRole) -> BackendReport {
    BackendReport {
        name,
        role,
        devices: Vec::new(),
        unusable: Vec::new(),
        library: None,
        paths: Vec::new(),
        missing: None,
    }
}
