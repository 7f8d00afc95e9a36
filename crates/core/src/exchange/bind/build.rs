//! Building the part of a device: its messages, buffers, windows, and all copies of later exchanges.

use std::sync::Arc;

use super::fields::{BuildError, ImportedMemory, PartDevice};
use super::message_sets::MessageSets;
use super::messages::{Channels, bind_messages};
use super::offer::PartWays;
use super::own_cells::own_cell_copies;
use super::windows::{BoundWindows, bind_windows};
use crate::device::{Buffer, Device, DeviceError, DeviceId, DeviceInfo};
use crate::exchange::options::Traffic;
use crate::exchange::run::copy_list::{CopyList, Purpose, bytes};
use crate::exchange::run::part::{DevicePart, Part, PartState};
use crate::exchange::run::streams::OwnStreams;
use crate::exchange::run::trace::{ExchangeTrace, PartTrace};
use crate::exchange::run::unpacked::Unpacked;
use crate::field::BoundField;
use crate::pattern::Pattern;

/// Maximum size in bytes of a rank's copies to itself that are merged into the unpacking on asynchronous devices. For
/// so few bytes, a launch of their own would take as long as the copies.
const OWN_BYTES_WITH_UNPACKING: usize = 1 << 20;

impl<D: Device> PartDevice for D {
    fn info(&self) -> &DeviceInfo {
        Device::info(self)
    }

    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError> {
        Device::reaches(self, other)
    }

    unsafe fn import(&self, token: &[u8]) -> Result<ImportedMemory, DeviceError> {
        // SAFETY: the caller guarantees it.
        let buffer = unsafe { Device::import(self, token)? };
        Ok(ImportedMemory { pointer: buffer.pointer(), bytes: buffer.bytes(), owner: Arc::new(buffer) })
    }

    fn build(
        &self,
        fields: &[(usize, BoundField)],
        pattern: &Pattern,
        tag: u32,
        ways: PartWays,
        trace: Option<&ExchangeTrace>,
    ) -> Result<Box<dyn Part>, BuildError> {
        Ok(Box::new(build(self, fields, pattern, tag, &ways, trace)?))
    }
}

fn build<D: Device>(
    device: &D,
    fields: &[(usize, BoundField)],
    pattern: &Pattern,
    tag: u32,
    ways: &PartWays,
    trace: Option<&ExchangeTrace>,
) -> Result<DevicePart<D>, BuildError> {
    let comm = pattern.comm();
    let transport = &**comm.transport();
    let reached = device.info().host_accessible || transport.info().device_memory;
    let sets = MessageSets::new(fields, pattern, ways, reached);
    let mut streams = OwnStreams::new(device)?;
    // The copies of own cells, the unpacking, up to two windows from each neighbour, the packing, and received chunks.
    let launches = 2 + ways.receives.len() * 2 + sets.groups.len() + sets.chunks.messages.len();
    let trace = PartTrace::new(trace, device, &streams, launches)?;
    let BoundWindows { windows, packed, shared_bytes, direct_bytes } =
        bind_windows(device, fields, pattern, ways, &trace)?;
    let mut own_cells = own_cell_copies(fields, pattern)?;
    let local_bytes = bytes(&own_cells);
    let traffic = Traffic { shared_bytes, direct_bytes, local_bytes, ..sets.traffic() };
    let in_place = sets.fields_in_place();
    let mut messages = bind_messages(device, fields, sets, packed, reached)?;
    let with_unpacking = device.info().asynchronous && local_bytes <= OWN_BYTES_WITH_UNPACKING;
    if with_unpacking && !messages.unpack.is_empty() {
        messages.unpack.append(&mut own_cells);
    }
    let first_pack = messages.groups[0].pack.first().map_or(0, CopyList::bytes);
    let largest = first_pack.max(bytes(&own_cells)).max(bytes(&messages.unpack)).max(direct_bytes);
    streams.drop_immediate_if_slower(device, largest, if comm.has_threads() { comm.size() } else { 1 });
    let own_cells = CopyList::bind(device, Purpose::OwnCells, own_cells, None)?;
    let (before, moved) = (device.create_event(false)?, device.create_event(false)?);
    let unpacked = Unpacked::new(device, fields)?;
    let channels = Channels { transport, tag, chunk_tag: ways.chunk_tag };
    let messages = match messages.open(device, fields, in_place, &channels, &trace) {
        Ok(messages) => messages,
        Err(error) => {
            windows.close(transport);
            return Err(error);
        }
    };
    Ok(DevicePart {
        device: device.clone(),
        captured: None,
        streams,
        messages,
        windows,
        own_cells,
        bases: Vec::new(),
        traffic,
        round: 0,
        before,
        moved,
        unpacked,
        state: PartState::Idle,
        gate: None,
        trace,
    })
}
