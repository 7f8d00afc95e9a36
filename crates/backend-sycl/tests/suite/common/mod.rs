//! The device under test: the one that `HALOPORT_SYCL_DEVICE` names, as `level_zero:gpu:0`, or else the best one of the
//! OpenCL driver that `OCL_ICD_VENDORS` names.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::ffi::c_void;

use cl3::command_queue::{
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROPERTIES, create_command_queue_with_properties,
    release_command_queue,
};
use haloport_conformance::backend::device_under_test;
use haloport_sycl::SyclDevice;

/// The device; `None`, with a line on the error stream, if there is none and `HALOPORT_SYCL` is not set.
pub(crate) fn device() -> Option<SyclDevice> {
    let name = std::env::var("HALOPORT_SYCL_DEVICE").unwrap_or_else(|_| "sycl".into());
    device_under_test(SyclDevice::select(&name), "HALOPORT_SYCL")
}

/// A queue that is out of order, like one of another program.
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
        // SAFETY: borrowing the queue has not released this reference.
        unsafe { release_command_queue(self.0) }.unwrap();
    }
}
