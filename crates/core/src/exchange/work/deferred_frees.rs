//! No memory of a device is freed while its streams may wait for neighbours.

use crate::device::Device;

/// An exchange for whose neighbours streams of a device may wait, until this is dropped. Then the streams go on by
/// themselves.
#[derive(Debug)]
pub(crate) struct DeferredFrees<D: Device>(D);

impl<D: Device> DeferredFrees<D> {
    pub(crate) fn new(device: &D) -> DeferredFrees<D> {
        device.defer_frees();
        DeferredFrees(device.clone())
    }
}

impl<D: Device> Drop for DeferredFrees<D> {
    fn drop(&mut self) {
        self.0.resume_frees();
    }
}
