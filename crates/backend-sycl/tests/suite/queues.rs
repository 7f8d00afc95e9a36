//! Queues of other programs: also out of order, and of another context.

use std::ffi::c_void;
use std::time::Duration;

use cl3::command_queue::{
    create_command_queue_with_properties, enqueue_svm_mem_cpy, flush, release_command_queue,
};
use cl3::context::{create_context, release_context};
use cl3::event::{CL_COMPLETE, create_user_event, release_event, set_user_event_status};
use cl3::types::cl_event;
use haloport_core::device::{
    Buffer, Device, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType, Pointer, Stream,
};

/// Adds 1 after `rounds` multiplications, so that a later command overtakes it unless it waits.
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
    let Some(device) = crate::common::device() else { return };
    let queue = crate::common::OutOfOrder::new(&device);
    // SAFETY: the queue outlives the stream.
    let stream = unsafe { device.borrow_stream(queue.handle()) }.unwrap();
    assert_eq!(stream.handle(), queue.handle());
    let value = device.allocate(8, MemoryKind::Device).unwrap();
    let copy = device.allocate(8, MemoryKind::Device).unwrap();
    let kernel = device.compile(&SLOWLY_ADD_ONE).unwrap();
    let arguments = [KernelArgument::Pointer(value.pointer()), KernelArgument::I64(2_000_000)];
    let launch = device.bind(&kernel, LaunchConfig::linear(1), &arguments).unwrap();
    for round in 1..=10 {
        let mut found = [0; 8];
        // SAFETY: each buffer holds a number, and lives until the read has returned.
        unsafe {
            device.launch(&launch, &stream).unwrap();
            device.copy(value.pointer(), copy.pointer(), 8, &stream).unwrap();
            device.read(copy.pointer(), &mut found, &stream).unwrap();
        }
        assert_eq!(f64::from_ne_bytes(found), f64::from(round));
    }
}

/// A command of Haloport runs after the earlier commands of another program in such a queue, and before its later ones.
#[test]
fn commands_of_somebody_else_in_a_queue_out_of_order_are_not_overtaken_and_do_not_overtake() {
    const BYTES: usize = 32 << 20;
    let Some(device) = crate::common::device() else { return };
    let queue = crate::common::OutOfOrder::new(&device);
    // SAFETY: the queue outlives the stream.
    let stream = unsafe { device.borrow_stream(queue.handle()) }.unwrap();
    let buffer = |bytes| device.allocate(bytes, MemoryKind::Shared).unwrap();
    let (before, copied, after) = (buffer(BYTES), buffer(BYTES), buffer(1));
    let source = [1u8];
    for round in 1..=5u8 {
        // SAFETY: the host may write shared memory that no command uses.
        unsafe { before.pointer().as_ptr().write_bytes(round, BYTES) };
        let last = BYTES as isize - 1;
        // SAFETY: all memory lives until the queue is empty; the references to the events have no other owner.
        unsafe {
            let gate = create_user_event(device.native().0 as *mut c_void).unwrap();
            let put = |to: Pointer, from: *const u8, waits_for: &[cl_event]| {
                let list = if waits_for.is_empty() { std::ptr::null() } else { waits_for.as_ptr() };
                let count = waits_for.len() as u32;
                let (to, from) = (to.as_ptr().cast(), from.cast());
                let event = enqueue_svm_mem_cpy(queue.0, 0, to, from, 1, count, list).unwrap();
                release_event(event).unwrap();
            };
            put(before.pointer().offset(last), source.as_ptr(), &[gate]);
            device.copy(before.pointer(), copied.pointer(), BYTES, &stream).unwrap();
            put(after.pointer(), copied.pointer().offset(last).as_ptr(), &[]);
            flush(queue.0).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            set_user_event_status(gate, CL_COMPLETE).unwrap();
            device.synchronize(&stream).unwrap();
            release_event(gate).unwrap();
            assert_eq!(
                copied.pointer().offset(last).as_ptr().read(),
                1,
                "overtook an earlier command, round {round}"
            );
            assert_eq!(after.pointer().as_ptr().read(), 1, "was overtaken, round {round}");
            copied.pointer().as_ptr().write_bytes(0, BYTES);
        }
    }
}

/// Intel's CPU runtime would wait for ever in one of the first hundreds of rounds. See `WorkQueue::keep_for_ever`.
#[test]
fn a_queue_out_of_order_can_be_released_at_once_after_its_work() {
    const BYTES: usize = 1 << 16;
    let Some(device) = crate::common::device() else { return };
    let rounds = || {
        let buffer = || device.allocate(BYTES, MemoryKind::Device).unwrap();
        let (from, to) = (buffer(), buffer());
        for _ in 0..1000 {
            let queue = crate::common::OutOfOrder::new(&device);
            // SAFETY: the queue outlives the stream; the memory lives until the stream is empty.
            unsafe {
                let stream = device.borrow_stream(queue.handle()).unwrap();
                for _ in 0..3 {
                    device.copy(from.pointer(), to.pointer(), BYTES, &stream).unwrap();
                }
                device.synchronize(&stream).unwrap();
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(rounds))));
}

#[test]
fn a_queue_of_another_context_is_refused() {
    let Some(device) = crate::common::device() else { return };
    let id = device.native().1 as *mut c_void;
    let context = create_context(&[id], std::ptr::null(), None, std::ptr::null_mut()).unwrap();
    // SAFETY: the handles are live; both objects are released at the end.
    unsafe {
        let queue = create_command_queue_with_properties(context, id, std::ptr::null()).unwrap();
        let error = device.borrow_stream(queue.addr()).unwrap_err().to_string();
        assert!(error.contains("expected a queue of the context"), "{error}");
        release_command_queue(queue).unwrap();
        release_context(context).unwrap();
    }
}
