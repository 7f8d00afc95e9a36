//! Who a device is and what it can do, as plain data.

use std::fmt;

use serde::{Serialize, Serializer};

/// The identity of a device: its backend's name, its number there, and the context in which it is used. Shown as `cpu:0`,
/// and as `sycl:0#1` in a context that is not the backend's own.
///
/// Devices with one identity reach each other's memory, streams and events; two contexts of one device do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    /// The backend: `cpu`, `cuda`, `sycl`, or the name of a backend made elsewhere.
    pub backend: &'static str,
    /// The number of the device within its backend, from 0.
    pub index: u32,
    /// 0 for the context that the backend itself opened, else the number of one that somebody else made.
    pub context: u32,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.backend, self.index)?;
        if self.context > 0 { write!(f, "#{}", self.context) } else { Ok(()) }
    }
}

impl Serialize for DeviceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The properties of a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceInfo {
    /// The identity.
    pub id: DeviceId,
    /// The name that the vendor gave it.
    pub name: String,
    /// The driver or runtime and its version.
    pub driver: String,
    /// Compute units (CPU threads, multiprocessors).
    pub compute_units: usize,
    /// Total memory in bytes, where it is known.
    pub memory_bytes: Option<u64>,
    /// Whether work goes on after a call has returned; `false` means that streams and events are no-ops.
    pub asynchronous: bool,
    /// Whether the host can read and write what [`MemoryKind::Device`](super::MemoryKind::Device) gives.
    pub host_accessible: bool,
    /// Whether kernels may use 64-bit floats.
    pub double_precision: bool,
    /// Whether kernels may use 16-bit floats.
    pub half_precision: bool,
    /// Whether streams of different priority are scheduled differently.
    pub stream_priorities: bool,
    /// Whether other processes of the node can be given its own memory ([`Device::export`](super::Device::export)).
    pub exports_memory: bool,
}

impl DeviceInfo {
    /// Whether its copies read and write any memory of the host, and are done when a call returns.
    pub fn runs_on_host(&self) -> bool {
        self.host_accessible && !self.asynchronous
    }
}
