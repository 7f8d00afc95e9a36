//! The device under test: what the OpenCL drivers that `OCL_ICD_VENDORS` names offer.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::c_void;

use cl3::command_queue::{
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROPERTIES, create_command_queue_with_properties,
    release_command_queue,
};
use haloport_core::device::{Device, DeviceError};
use haloport_sycl::SyclDevice;

/// The device, or `None`, said plainly, where there is none and `HALOPORT_SYCL` does not say that there must be one.
pub(crate) fn device() -> Option<SyclDevice> {
    match SyclDevice::new() {
        Ok(device) => {
            eprintln!("on {}: {}", device.info().name, device.info().driver);
            Some(device)
        }
        Err(error @ DeviceError::NotFound { .. }) if std::env::var_os("HALOPORT_SYCL").is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A queue that is out of order, as somebody else may have made it.
pub(crate) struct OutOfOrder(pub(crate) *mut c_void);

impl OutOfOrder {
    pub(crate) fn new(device: &SyclDevice) -> OutOfOrder {
        let (context, id) = device.native();
        let properties = [CL_QUEUE_PROPERTIES as u64, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0];
        // SAFETY: the handles are alive as long as the device; the queue is released when this is dropped.
        let queue = unsafe {
            create_command_queue_with_properties(
                context as *mut c_void,
                id as *mut c_void,
                properties.as_ptr().cast(),
            )
        };
        OutOfOrder(queue.unwrap())
    }

    pub(crate) fn handle(&self) -> usize {
        self.0.addr()
    }
}

impl Drop for OutOfOrder {
    fn drop(&mut self) {
        // SAFETY: it is still ours: borrowing has not released it.
        unsafe { release_command_queue(self.0) }.unwrap();
    }
}
