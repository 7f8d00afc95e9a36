//! The identity of a device, its properties and its capabilities, as plain data.

use std::fmt;

use serde::{Serialize, Serializer};

use super::MemoryKind;

/// The identity of a device: the name of its backend, its number there, and the context in which it is used. Shown as
/// `cpu:0`, and as `sycl:0#1` in a context that the backend did not open itself.
///
/// Devices with one identity reach each other's memory, streams and events; two contexts of one device do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    /// The backend: `cpu`, `cuda`, `sycl`, or the name of a backend from elsewhere.
    pub backend: &'static str,
    /// The number of the device within its backend, from 0.
    pub index: u32,
    /// 0 for the context that the backend opened itself, otherwise the number of a context that the caller made.
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
    /// Total memory in bytes, if it is known.
    pub memory_bytes: Option<u64>,
    /// Whether work goes on after a call has returned; `false` means that streams and events are no-ops.
    pub asynchronous: bool,
    /// Whether the host, and so the transport, reads and writes memory of the kind [`MemoryKind::Device`] in place.
    /// Messages are then not staged through memory of the host, nor cut into chunks.
    pub host_accessible: bool,
    /// Whether a bus separates the memory of the device from that of the host, so that copy engines can move data
    /// across it while the processors of the device work. Large messages that are staged are then packed in its own
    /// memory and moved by one copy ([`BindOptions::staging_copy`](crate::exchange::BindOptions::staging_copy)).
    pub separate_memory: bool,
    /// Whether kernels may use 64-bit floats.
    pub double_precision: bool,
    /// Whether kernels may use 16-bit floats.
    pub half_precision: bool,
    /// Whether streams of different priority are scheduled differently.
    pub stream_priorities: bool,
    /// Whether streams may share queues of the hardware, so that a stream that waits holds back later work of others. Ranks
    /// that are threads and share such a device let no stream wait for a neighbour: `finish` on a stream blocks the host
    /// until all messages have arrived.
    pub shared_queues: bool,
    /// The optional abilities of the device.
    pub capabilities: Capabilities,
}

/// The optional abilities of a device; by default none. The flags of roles are for reports: they are `true` if
/// [`Device`](super::Device) hands the role out. Those of memory answer [`DeviceInfo::offers`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// The role [`ImmediateStreams`](super::ImmediateStreams).
    pub immediate_streams: bool,
    /// The role [`Gates`](super::Gates).
    pub gates: bool,
    /// The role [`StreamWords`](super::StreamWords).
    pub stream_words: bool,
    /// The role [`Combining`](super::Combining).
    pub combining: bool,
    /// Memory of the kind [`MemoryKind::Pinned`]. Without it, messages are staged in plain memory of the host.
    pub pinned_memory: bool,
    /// Memory of the kind [`MemoryKind::Shared`].
    pub shared_memory: bool,
    /// The role [`MemoryExport`](super::MemoryExport).
    pub memory_export: bool,
    /// The role [`StreamMessaging`](super::StreamMessaging).
    pub stream_messages: bool,
}

impl DeviceInfo {
    /// Whether its copies read and write any memory of the host, and are done when a call returns.
    pub fn runs_on_host(&self) -> bool {
        self.host_accessible && !self.asynchronous
    }

    /// Whether it allocates memory of this kind.
    pub fn offers(&self, kind: MemoryKind) -> bool {
        match kind {
            MemoryKind::Device => true,
            MemoryKind::Pinned => self.capabilities.pinned_memory,
            MemoryKind::Shared => self.capabilities.shared_memory,
        }
    }
}
