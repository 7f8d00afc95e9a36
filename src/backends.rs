//! What this build and this machine have.

use haloport_core::device::{Device, DeviceInfo};
use haloport_cpu::CpuDevice;
use serde::Serialize;

use crate::spec::BACKENDS;

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
    let mut reports: Vec<BackendReport> =
        BACKENDS.iter().map(|&(name, built)| devices(name, built)).collect();
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

fn devices(name: &'static str, built: bool) -> BackendReport {
    let found = if built {
        CpuDevice::new().map_err(|error| error.to_string())
    } else {
        Err(format!("this version of Haloport has no backend {name}"))
    };
    let (devices, missing) = match found {
        Ok(device) => (vec![device.info().clone()], None),
        Err(why) => (Vec::new(), Some(why)),
    };
    BackendReport { name, role: BackendRole::Devices, devices, missing }
}
