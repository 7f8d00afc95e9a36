//! The kinds of memory that devices offer.

use std::fmt;

use serde::Serialize;

/// The kinds of memory a device may offer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// Memory of the device itself; plain host memory on the CPU.
    #[default]
    Device,
    /// Host memory that the device can copy from and to without a detour.
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
