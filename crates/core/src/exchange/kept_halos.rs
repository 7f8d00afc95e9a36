//! The halos of fields, kept to be put back.

use super::layout::Messages;
use crate::device::{Buffer, Device, DeviceError, MemoryKind, NextReader, Priority};
use crate::domain::Orientation;
use crate::field::BoundField;
use crate::pattern::Pattern;
use crate::transport::Direction;

/// What an exchange of the fields of one device writes: the halo cells that are owned by somebody.
///
/// # Safety of the unsafe calls
/// The fields are valid memory still, nobody writes their halos before the call returns, and for `restore` nobody reads
/// them either.
pub(crate) trait KeptHalos {
    /// Keeps what the halos hold.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn save(&self) -> Result<(), DeviceError>;
    /// Puts back what was kept.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn restore(&self) -> Result<(), DeviceError>;
}

struct Copies<D: Device> {
    device: D,
    stream: D::Stream,
    save: D::Copies,
    restore: D::Copies,
    /// What was kept.
    _buffer: D::Buffer,
}

/// Room for the halos of `fields`, which fit the pattern.
pub(super) fn keep_halos<D: Device>(
    device: &D,
    fields: &[(usize, BoundField)],
    pattern: &Pattern,
) -> Result<Box<dyn KeptHalos>, DeviceError> {
    let mut halos = Messages::new();
    for (&peer, pieces) in pattern.receives() {
        // As they lie here: nothing is turned.
        let cells = pieces.iter().map(|piece| (piece.target_domain, &piece.target, Orientation::default()));
        halos.add(peer, fields, |position| Some(fields[position].1.memory_order()), cells);
    }
    let buffer = device.allocate(halos.bytes, MemoryKind::Device)?;
    let bound =
        |direction| device.bind_copies(halos.copies(fields, buffer.pointer(), direction)?, NextReader::Here);
    let (save, restore) = (bound(Direction::Send)?, bound(Direction::Receive)?);
    let stream = device.create_stream(Priority::Normal)?;
    Ok(Box::new(Copies { device: device.clone(), stream, save, restore, _buffer: buffer }))
}

impl<D: Device> KeptHalos for Copies<D> {
    unsafe fn save(&self) -> Result<(), DeviceError> {
        // SAFETY: the buffer is ours; the rest is the caller's promise, and the work is done before we return.
        unsafe { self.device.run_copies(&self.save, &self.stream)? };
        self.device.synchronize(&self.stream)
    }

    unsafe fn restore(&self) -> Result<(), DeviceError> {
        // SAFETY: as for `save`.
        unsafe { self.device.run_copies(&self.restore, &self.stream)? };
        self.device.synchronize(&self.stream)
    }
}
