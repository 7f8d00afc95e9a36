//! The kinds of memory.

use std::fmt;

use serde::Serialize;

/// A kind of memory. All devices have [`Device`](MemoryKind::Device); see
/// [`DeviceInfo::offers`](super::DeviceInfo::offers).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// Memory of the device itself; plain host memory on the CPU.
    #[default]
    Device,
    /// Host memory from and to which the device copies directly, without staging.
    Pinned,
    /// Memory that both host and device address (managed memory, USM shared).
    Shared,
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryKind::Device => "device",
            MemoryKind::Pinned => "pinned host",
            MemoryKind::Shared => "shared",
        })
    }
}
