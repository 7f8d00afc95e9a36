//! Lists of copies that run in every exchange.

use super::buffers::HostCopy;
use super::mark::words_of;
use super::streams::MoveStream;
use super::trace::PartTrace;
use crate::device::{CopyItem, Device, DeviceError, NextReader, Pointer};
use crate::trace::Phase;

/// A list of copies, bound once and run in every exchange.
pub(crate) struct CopyList<D: Device> {
    copies: D::Copies,
    purpose: Purpose,
    bytes: usize,
    /// The copy that moves the messages between the buffers of device and host, if they are moved.
    host_copy: Option<HostCopy>,
}

/// The purpose of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Packing,
    /// Into a message that is left for a neighbour in place of fields.
    TakingBack,
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

impl Purpose {
    /// Whether the copies go from fields to a message.
    fn packs(self) -> bool {
        matches!(self, Purpose::Packing | Purpose::TakingBack)
    }
}

impl<D: Device> CopyList<D> {
    pub(crate) fn bind(
        device: &D,
        purpose: Purpose,
        items: Vec<CopyItem>,
        host_copy: Option<HostCopy>,
    ) -> Result<CopyList<D>, DeviceError> {
        let reader = if purpose.packs() { NextReader::Elsewhere } else { NextReader::Here };
        let bytes = bytes(&items);
        Ok(CopyList { copies: device.bind_copies(items, reader)?, purpose, bytes, host_copy })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Puts the copies into the stream of `lane`, and records their span in the time line.
    ///
    /// # Safety
    /// As for [`put`](CopyList::put).
    pub(crate) unsafe fn run(&self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        let (phase, name) = match self.purpose {
            Purpose::Packing => (Phase::Packing, "pack"),
            Purpose::TakingBack => (Phase::Packing, "pack for a late neighbour"),
            Purpose::OwnCells => (Phase::Unpacking, "copy own cells"),
            Purpose::Unpacking => (Phase::Unpacking, "unpack"),
        };
        // SAFETY: the caller guarantees it.
        let put = || unsafe { self.put(lane.device, lane.bases, lane.stream) };
        lane.trace.time(phase, name, self.bytes, lane.device, lane.stream, put)
    }

    /// As [`run`](CopyList::run) for a list without copies between device and host; copies nothing if the word at `stop`
    /// is not 0.
    ///
    /// # Safety
    /// As for [`StreamWords::run_copies_unless`](crate::device::StreamWords::run_copies_unless).
    pub(crate) unsafe fn run_unless(&self, stop: Pointer, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        let Lane { device, bases, stream, trace } = lane;
        // SAFETY: the caller guarantees it.
        let put = || unsafe { words_of(*device)?.run_copies_unless(stop, &self.copies, bases, stream) };
        trace.time(Phase::Unpacking, "copy from fields", self.bytes, device, stream, put)
    }

    /// As [`run`](CopyList::run), for packing: if there is a stream `moves`, the copy to the host goes there. Returns the
    /// stream in which the work ends.
    ///
    /// # Safety
    /// As for [`put`](CopyList::put).
    pub(crate) unsafe fn pack<'p>(
        &self,
        lane: &Lane<'p, D>,
        moves: Option<&'p MoveStream<D>>,
    ) -> Result<&'p D::Stream, DeviceError> {
        let Lane { device, bases, stream, trace } = *lane;
        let (Some(moves), Some(copy)) = (moves, &self.host_copy) else {
            // SAFETY: the caller guarantees it.
            unsafe { self.run(lane)? };
            return Ok(stream);
        };
        // SAFETY: the caller guarantees it.
        let pack = || unsafe { device.run_copies(&self.copies, bases, stream) };
        trace.time(Phase::Packing, "pack", self.bytes, device, stream, pack)?;
        moves.follow(device, stream)?;
        // SAFETY: the caller guarantees it; the copy comes after the packing.
        let run = || unsafe { copy.run(device, &moves.stream) };
        trace.time(Phase::Packing, "move", copy.bytes(), device, &moves.stream, run)?;
        Ok(&moves.stream)
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
        let is_packing = self.purpose.packs();
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
