//! Queues that somebody else made: also out of order, and of another context.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ffi::c_void;

use cl3::command_queue::{
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROPERTIES, create_command_queue_with_properties,
    release_command_queue,
};
use cl3::context::{create_context, release_context};
use haloport_core::device::{
    Buffer, Device, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType, Stream,
};

/// Adds 1 after so many multiplications, so that a later command that does not wait overtakes it.
const SLOWLY_ADD_ONE: KernelSource = KernelSource {
    name: "slowly_add_one",
    portable: Some(
        "KERNEL void slowly_add_one(GLOBAL double *value, long rounds) {\n\
               \x20   if (GLOBAL_INDEX(0) > 0) return;\n\
               \x20   double x = 1.0;\n\
               \x20   for (long i = 0; i < rounds; i++) x = x * 0.999999 + 0.0000001;\n\
               \x20   value[0] = value[0] + (x > 2.0 ? 2.0 : 1.0);\n\
               }\n",
    ),
    host: |_, _| {},
    parameters: &[ParameterType::Pointer, ParameterType::I64],
};

#[test]
fn a_borrowed_queue_that_is_out_of_order_is_kept_in_order() {
    let Some(device) = common::device() else { return };
    let (context, id) = device.native();
    let properties = [CL_QUEUE_PROPERTIES as u64, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0];
    // SAFETY: the handles are alive as long as the device; the queue is released in the end.
    let queue = unsafe {
        create_command_queue_with_properties(
            context as *mut c_void,
            id as *mut c_void,
            properties.as_ptr().cast(),
        )
    }
    .unwrap();
    {
        // SAFETY: the queue outlives the stream.
        let stream = unsafe { device.borrow_stream(queue.addr()) }.unwrap();
        assert_eq!(stream.handle(), queue.addr());
        let value = device.allocate(8, MemoryKind::Device).unwrap();
        let copy = device.allocate(8, MemoryKind::Device).unwrap();
        let kernel = device.compile(&SLOWLY_ADD_ONE).unwrap();
        let arguments = [KernelArgument::Pointer(value.pointer()), KernelArgument::I64(2_000_000)];
        let launch = device.bind(&kernel, LaunchConfig::linear(1), &arguments).unwrap();
        for round in 1..=10 {
            let mut found = [0; 8];
            // SAFETY: all buffers hold a number and live until the read has returned.
            unsafe {
                device.launch(&launch, &stream).unwrap();
                device.copy(value.pointer(), copy.pointer(), 8, &stream).unwrap();
                device.read(copy.pointer(), &mut found, &stream).unwrap();
            }
            assert_eq!(f64::from_ne_bytes(found), f64::from(round));
        }
    }
    // SAFETY: it is still ours: borrowing has not released it.
    unsafe { release_command_queue(queue) }.unwrap();
}

#[test]
fn a_queue_of_another_context_is_refused() {
    let Some(device) = common::device() else { return };
    let id = device.native().1 as *mut c_void;
    let context = create_context(&[id], std::ptr::null(), None, std::ptr::null_mut()).unwrap();
    // SAFETY: the handles are live; both objects are released in the end.
    unsafe {
        let queue = create_command_queue_with_properties(context, id, std::ptr::null()).unwrap();
        let error = device.borrow_stream(queue.addr()).unwrap_err().to_string();
        assert!(error.contains("expected a queue of the context"), "{error}");
        release_command_queue(queue).unwrap();
        release_context(context).unwrap();
    }
}
