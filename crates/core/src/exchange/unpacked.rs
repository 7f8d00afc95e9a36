//! The end of an exchange on the device, which may come after `finish` has returned: access from the host waits for it.

use std::sync::Arc;

use crate::device::{Device, DeviceError};
use crate::field::{BoundField, LastWrite};

/// The event that all halos of a part are filled.
#[derive(Debug)]
pub(super) struct Unpacked<D: Device> {
    device: D,
    pub(super) event: D::Event,
}

impl<D: Device> Unpacked<D> {
    /// The event for the part of `fields`, whose access from the host waits for it from now on.
    pub(super) fn new(device: &D, fields: &[(usize, BoundField)]) -> Result<Arc<Unpacked<D>>, DeviceError> {
        let unpacked = Arc::new(Unpacked { device: device.clone(), event: device.create_event(false)? });
        if device.info().asynchronous {
            for storage in fields.iter().filter_map(|(_, field)| field.storage.as_ref()) {
                storage.written_by(&unpacked);
            }
        }
        Ok(unpacked)
    }
}

impl<D: Device> LastWrite for Unpacked<D> {
    fn wait(&self) -> Result<(), DeviceError> {
        self.device.host_wait(&self.event)
    }
}
