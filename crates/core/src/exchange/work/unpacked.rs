//! The end of an exchange on the device. It may come after `finish` has returned: access from the host waits for it.

use std::sync::Arc;

use crate::device::{Device, DeviceError};
use crate::field::{BoundField, LastWrite};

/// The events at which all halos of a part are filled: one for even exchanges and one for odd ones, since the end of
/// one exchange may still be waited for while the next is put into streams.
#[derive(Debug)]
pub(crate) struct Unpacked<D: Device> {
    device: D,
    pub(crate) events: [D::Event; 2],
}

impl<D: Device> Unpacked<D> {
    /// Creates the events for a part with these `fields`. From now on, access to them from the host waits for the
    /// events.
    pub(crate) fn new(device: &D, fields: &[(usize, BoundField)]) -> Result<Arc<Unpacked<D>>, DeviceError> {
        let events = [device.create_event(false)?, device.create_event(false)?];
        let unpacked = Arc::new(Unpacked { device: device.clone(), events });
        for storage in fields.iter().flat_map(|(_, field)| field.storages()) {
            storage.written_by(&unpacked);
        }
        Ok(unpacked)
    }
}

impl<D: Device> LastWrite for Unpacked<D> {
    fn wait(&self) -> Result<(), DeviceError> {
        // WAIT: the host waits for unpacking before it reads a field.
        self.events.iter().try_for_each(|event| self.device.host_wait(event))
    }
}
