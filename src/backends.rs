//! What this build and this machine have.

use haloport_core::device::DeviceInfo;
use serde::Serialize;

#[cfg(feature = "cpu")]
use crate::any_device::Describe;
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
    /// Why it cannot be used; `None` where it can.
    pub missing: Option<String>,
}

/// Every backend and transport that Haloport knows, with its devices or the reason why it is missing.
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
        missing: None,
    });
    reports.push(BackendReport {
        name: "mpi",
        role: BackendRole::Transport,
        devices: Vec::new(),
        missing: (!cfg!(feature = "mpi")).then(|| "this build lacks the feature `mpi`".into()),
    });
    reports
}

fn devices(name: &'static str) -> BackendReport {
    let found = match name {
        #[cfg(feature = "sycl")]
        "sycl" => haloport_sycl::SyclDevice::list().map_err(|error| error.to_string()),
        #[cfg(feature = "cpu")]
        "cpu" => haloport_cpu::CpuDevice::new()
            .map(|device| vec![device.properties().clone()])
            .map_err(|error| error.to_string()),
        _ => Err(missing(name)),
    };
    let (devices, missing) = match found {
        Ok(devices) => (devices, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    BackendReport { name, role: BackendRole::Devices, devices, missing }
}
