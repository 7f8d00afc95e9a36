//! Queues of other programs: also out of order, and of another context.

use std::time::Duration;

use haloport_core::device::{
    Buffer, Device, Event, Gates as _, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType,
    Pointer, Priority, Stream,
};

use crate::common::program::{Context, Queue};

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
    let Some(device) = crate::common::device_of_program() else { return };
    let queue = Queue::out_of_order(&device);
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
    let Some(device) = crate::common::device_of_program() else { return };
    let queue = Queue::out_of_order(&device);
    // SAFETY: the queue outlives the stream.
    let stream = unsafe { device.borrow_stream(queue.handle()) }.unwrap();
    let buffer = |bytes| device.allocate(bytes, MemoryKind::Shared).unwrap();
    let (before, copied, after) = (buffer(BYTES), buffer(BYTES), buffer(1));
    let mut one = [1u8];
    let source = Pointer::new(one.as_mut_ptr());
    let held_back = device.create_stream(Priority::Normal).unwrap();
    let gate = device.create_event(false).unwrap();
    for round in 1..=5u8 {
        // SAFETY: the host may write shared memory that no command uses.
        unsafe { before.pointer().as_ptr().write_bytes(round, BYTES) };
        let last = BYTES as isize - 1;
        let open = device.gate(&held_back).unwrap();
        device.record(&gate, &held_back).unwrap();
        // SAFETY: all memory lives until the queue is empty.
        unsafe {
            queue.copy(source, before.pointer().offset(last), 1, Some(gate.handle()));
            device.copy(before.pointer(), copied.pointer(), BYTES, &stream).unwrap();
            queue.copy(copied.pointer().offset(last), after.pointer(), 1, None);
            std::thread::sleep(Duration::from_millis(30));
            open();
            device.synchronize(&stream).unwrap();
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

/// Intel's CPU runtime would wait for ever in one of the first hundreds of rounds. See `opencl::queue::Queue::keep_for_ever`.
#[test]
fn a_queue_out_of_order_can_be_released_at_once_after_its_work() {
    const BYTES: usize = 1 << 16;
    let Some(device) = crate::common::device_of_program() else { return };
    let rounds = || {
        let buffer = || device.allocate(BYTES, MemoryKind::Device).unwrap();
        let (from, to) = (buffer(), buffer());
        for _ in 0..1000 {
            let queue = Queue::out_of_order(&device);
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

/// DPC++'s first adapter for Level Zero would follow an address of the queue that is gone.
#[test]
fn an_event_outlives_its_stream() {
    const BYTES: usize = 1 << 12;
    let Some(device) = crate::common::device() else { return };
    let buffer = || device.allocate(BYTES, MemoryKind::Device).unwrap();
    let (from, to) = (buffer(), buffer());
    let events: Vec<_> = (0..20)
        .map(|_| {
            let stream = device.create_stream(Priority::Normal).unwrap();
            let event = device.create_event(false).unwrap();
            // SAFETY: the memory lives until the event is reached.
            unsafe { device.copy(from.pointer(), to.pointer(), BYTES, &stream) }.unwrap();
            let open = device.gates().map(|gates| gates.gate(&stream).unwrap());
            device.record(&event, &stream).unwrap();
            drop(stream);
            (event, open)
        })
        .collect();
    for (event, open) in events {
        drop(open);
        device.host_wait(&event).unwrap();
    }
}

#[test]
fn a_queue_of_another_context_is_refused() {
    let Some(device) = crate::common::device_of_program() else { return };
    let other = Context::new(&device, false);
    // SAFETY: the queue is live.
    let error = unsafe { device.borrow_stream(other.queue.handle()) }.unwrap_err().to_string();
    assert!(error.contains("expected a queue of"), "{error}");
}
