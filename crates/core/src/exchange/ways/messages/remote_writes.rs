//! What a part does about messages that the transport writes straight to memory of its device.
//!
//! A network adapter writes there beside the device. Such writes are ordered before work that the host puts into streams
//! after it has learnt of their arrival, but not before work that is in streams by then ("GPUDirect RDMA", the section
//! on the order of memory): `finish` without a gate needs nothing more; the unpacking behind a gate does.

use crate::device::{Device, DeviceError};
use crate::transport::Transport;

/// How received messages become visible to work behind a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteWrites {
    /// By opening the gate: they lie in memory of the host, or there are none.
    Ordered,
    /// By [`Device::flush_remote_writes`] before the gate is opened.
    Flushed,
    /// Not at all: no work that reads them may be behind a gate.
    Unordered,
}

impl RemoteWrites {
    /// Chooses for a part of `device`; `receives`: it receives messages of the transport. The thread must be attached
    /// to the device.
    pub(crate) fn of<D: Device>(
        device: &D,
        transport: &dyn Transport,
        receives: bool,
    ) -> Result<RemoteWrites, DeviceError> {
        let info = device.info();
        let written = || transport.info().takes_memory_of(&info.id);
        if !receives || !info.asynchronous || info.host_accessible || !written() {
            return Ok(RemoteWrites::Ordered);
        }
        match device.flush_remote_writes() {
            Ok(()) => Ok(RemoteWrites::Flushed),
            Err(DeviceError::Unsupported { .. }) => Ok(RemoteWrites::Unordered),
            Err(error) => Err(error),
        }
    }

    /// Whether work that reads messages may be behind a gate.
    pub(crate) fn allow_gates(self) -> bool {
        self != RemoteWrites::Unordered
    }

    /// Makes all messages that have arrived visible to work behind a gate. To be called before it is opened.
    pub(crate) fn flush<D: Device>(self, device: &D) -> Result<(), DeviceError> {
        if self == RemoteWrites::Flushed { device.flush_remote_writes() } else { Ok(()) }
    }
}
