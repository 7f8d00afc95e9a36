//! A list of copies that is run in every exchange.

use super::buffers::Detour;
use super::trace::PartTrace;
use crate::device::{CopyItem, Device, DeviceError, NextReader};
use crate::trace::Phase;

/// Copies that are bound once and run in every exchange.
pub(crate) struct CopyList<D: Device> {
    copies: D::Copies,
    purpose: Purpose,
    bytes: usize,
    /// What is copied between the buffers behind the packing, or before the unpacking.
    detour: Option<Detour>,
}

/// What a list is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Packing,
    /// From a rank to itself.
    OwnCells,
    /// Also straight from the fields of a neighbour.
    Unpacking,
}

/// Where work of a part goes: its device, a stream, and the time line that is told.
pub(crate) struct Lane<'p, D: Device> {
    pub(crate) device: &'p D,
    pub(crate) stream: &'p D::Stream,
    pub(crate) trace: &'p PartTrace<D>,
}

impl<D: Device> CopyList<D> {
    pub(crate) fn bind(
        device: &D,
        purpose: Purpose,
        items: Vec<CopyItem>,
        detour: Option<Detour>,
    ) -> Result<CopyList<D>, DeviceError> {
        let reader = if purpose == Purpose::Packing { NextReader::Elsewhere } else { NextReader::Here };
        let bytes = bytes(&items);
        Ok(CopyList { copies: device.bind_copies(items, reader)?, purpose, bytes, detour })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn copies_mut(&mut self) -> &mut D::Copies {
        &mut self.copies
    }

    /// Puts the copies into the stream of `lane`, and tells the time line when they are done.
    ///
    /// # Safety
    /// As for [`put`](CopyList::put).
    pub(crate) unsafe fn run(&self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        let (phase, name) = match self.purpose {
            Purpose::Packing => (Phase::Packing, "pack"),
            Purpose::OwnCells => (Phase::Unpacking, "copy own cells"),
            Purpose::Unpacking => (Phase::Unpacking, "unpack"),
        };
        // SAFETY: the caller's promise.
        let put = || unsafe { self.put(lane.device, lane.stream) };
        lane.trace.time((phase, name, self.bytes), lane.device, lane.stream, put)
    }

    /// Puts the copies into `stream`.
    ///
    /// # Safety
    /// As for [`Device::run_copies`], and nobody else uses the messages in the buffers until the copies are done.
    pub(crate) unsafe fn put(&self, device: &D, stream: &D::Stream) -> Result<(), DeviceError> {
        let is_packing = self.purpose == Purpose::Packing;
        if let Some(detour) = self.detour.filter(|_| !is_packing) {
            // SAFETY: the caller's promise.
            unsafe { detour.run(device, stream)? };
        }
        // SAFETY: the caller's promise.
        unsafe { device.run_copies(&self.copies, stream)? };
        if let Some(detour) = self.detour.filter(|_| is_packing) {
            // SAFETY: the caller's promise.
            unsafe { detour.run(device, stream)? };
        }
        Ok(())
    }
}

pub(crate) fn bytes(items: &[CopyItem]) -> usize {
    items.iter().map(CopyItem::bytes).sum()
}
