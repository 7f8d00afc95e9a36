//! Lists of copies that run in every exchange.

use super::buffers::HostCopy;
use super::trace::PartTrace;
use crate::device::{CopyItem, Device, DeviceError, NextReader, Pointer};
use crate::trace::Phase;

/// A list of copies, bound once and run in every exchange.
pub(crate) struct CopyList<D: Device> {
    copies: D::Copies,
    purpose: Purpose,
    bytes: usize,
    /// The copy between the buffers of device and host, if one is needed.
    host_copy: Option<HostCopy>,
}

/// The purpose of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Packing,
    /// From a rank to itself.
    OwnCells,
    /// From messages, or straight from the fields of a neighbour.
    Unpacking,
}

/// The device, the addresses, the stream and the time line of a part's work.
pub(crate) struct Lane<'p, D: Device> {
    pub(crate) device: &'p D,
    /// The begins of the blocks that copies are anchored to; see [`Device::run_copies`].
    pub(crate) bases: &'p [Pointer],
    pub(crate) stream: &'p D::Stream,
    pub(crate) trace: &'p PartTrace<D>,
}

impl<D: Device> CopyList<D> {
    pub(crate) fn bind(
        device: &D,
        purpose: Purpose,
        items: Vec<CopyItem>,
        host_copy: Option<HostCopy>,
    ) -> Result<CopyList<D>, DeviceError> {
        let reader = if purpose == Purpose::Packing { NextReader::Elsewhere } else { NextReader::Here };
        let bytes = bytes(&items);
        Ok(CopyList { copies: device.bind_copies(items, reader)?, purpose, bytes, host_copy })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts the copies into the stream of `lane`, and records their span in the time line.
    ///
    /// # Safety
    /// As for [`put`](CopyList::put).
    pub(crate) unsafe fn run(&self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        let (phase, name) = match self.purpose {
            Purpose::Packing => (Phase::Packing, "pack"),
            Purpose::OwnCells => (Phase::Unpacking, "copy own cells"),
            Purpose::Unpacking => (Phase::Unpacking, "unpack"),
        };
        // SAFETY: the caller guarantees it.
        let put = || unsafe { self.put(lane.device, lane.bases, lane.stream) };
        lane.trace.time(phase, name, self.bytes, lane.device, lane.stream, put)
    }

    /// Puts the copies into `stream`; `bases` as in a [`Lane`].
    ///
    /// # Safety
    /// As for [`Device::run_copies`]. In addition, nobody else uses the messages in the buffers until the copies are
    /// done.
    pub(crate) unsafe fn put(
        &self,
        device: &D,
        bases: &[Pointer],
        stream: &D::Stream,
    ) -> Result<(), DeviceError> {
        let is_packing = self.purpose == Purpose::Packing;
        if let Some(host_copy) = self.host_copy.filter(|_| !is_packing) {
            // SAFETY: the caller guarantees it.
            unsafe { host_copy.run(device, stream)? };
        }
        // SAFETY: the caller guarantees it.
        unsafe { device.run_copies(&self.copies, bases, stream)? };
        if let Some(host_copy) = self.host_copy.filter(|_| is_packing) {
            // SAFETY: the caller guarantees it.
            unsafe { host_copy.run(device, stream)? };
        }
        Ok(())
    }
}

/// The number of bytes that `items` copy.
pub(crate) fn bytes(items: &[CopyItem]) -> usize {
    items.iter().map(CopyItem::bytes).sum()
}
