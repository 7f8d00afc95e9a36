//! What is asynchronous and what waits, shown with a slow kernel.

use std::thread;
use std::time::{Duration, Instant};

use haloport_core::device::{Buffer, Device, DeviceError, KernelArgument, LaunchConfig, Priority, Stream};

use super::bytes::{floats, read_on, upload};
use super::kernels::{SAXPY, saxpy};
use super::slow::{RESULT, Slow, hold, is_reached_soon};
use crate::{Failure, ensure};

pub(super) fn work_after_the_call<D: Device>(device: &D) -> Result<(), Failure> {
    let slow = Slow::new(device)?;
    let stream = device.create_stream(Priority::Normal)?;
    let event = device.create_event(false)?;
    let held = hold(device, &stream)?;
    slow.start(&stream)?;
    device.record(&event, &stream)?;
    let (reached, asynchronous) = (device.query(&event)?, device.info().asynchronous);
    let wrong = if asynchronous { held.is_some() && reached } else { !reached };
    drop(held);
    device.host_wait(&event)?;
    ensure!(!wrong, "reached at once: {reached}, asynchronous: {asynchronous}");
    ensure!(device.query(&event)?, "the event is not complete after the host waited for it");
    slow.look(&stream)?;
    let value = slow.seen(&stream)?;
    ensure!(value == RESULT, "the kernel wrote {value}");
    Ok(())
}

/// Work put into an immediate stream is done when the call returns, and after the events that the stream waits for.
pub(super) fn work_in_the_call<D: Device>(device: &D) -> Result<(), Failure> {
    let Some(role) = device.immediate_streams() else { return Ok(()) };
    let immediate = role.create_immediate_stream()?;
    let (slow, long) = (Slow::new(device)?, Slow::new(device)?);
    let (event, timed) = (device.create_event(false)?, device.create_event(true)?);
    let is_done = |what: &str| -> Result<(), Failure> {
        for event in [&event, &timed] {
            device.record(event, &immediate)?;
            ensure!(device.query(event)?, "{what} was not done when the call returned");
        }
        Ok(())
    };
    slow.start(&immediate)?;
    is_done("a kernel")?;
    slow.look(&immediate)?;
    is_done("a copy")?;
    let value = slow.seen(&immediate)?;
    ensure!(value == RESULT, "the kernel wrote {value}");
    ensure!(
        device.gates().is_none_or(|gates| gates.gate(&immediate).is_err()),
        "an immediate stream has a gate, which its thread could not open"
    );

    // The same stream, borrowed: it waits for the work of one stream, and another stream waits for its work.
    // SAFETY: the stream outlives what is borrowed.
    let stream = unsafe { device.borrow_stream(immediate.handle())? };
    let (before, after) = (device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?);
    long.start(&before)?;
    device.record(&event, &before)?;
    device.stream_wait(&stream, &event)?;
    ensure!(device.query(&event)?, "the host went on before the event that its stream waits for");
    long.look(&stream)?;
    // The event may be at a point that is not reached.
    let held = hold(device, &before)?;
    device.record(&event, &before)?;
    device.record(&event, &stream)?;
    let reached = device.query(&event)?;
    drop(held);
    ensure!(reached, "the event has stayed at an earlier point");
    device.stream_wait(&after, &event)?;
    let value = long.seen(&after)?;
    ensure!(value == RESULT, "a stream that waits read {value}");
    Ok(device.synchronize(&after)?)
}

pub(super) fn waiting_streams<D: Device>(device: &D) -> Result<(), Failure> {
    let slow = Slow::new(device)?;
    let (one, two) = (device.create_stream(Priority::Normal)?, device.create_stream(Priority::High)?);
    let event = device.create_event(false)?;
    let held = hold(device, &one)?;
    slow.start(&one)?;
    device.record(&event, &one)?;
    device.stream_wait(&two, &event)?;
    slow.look(&two)?;
    drop(held);
    let value = slow.seen(&two)?;
    device.synchronize(&one)?;
    ensure!(value == RESULT, "a stream that waits read {value}");
    Ok(())
}

pub(super) fn streams_side_by_side<D: Device>(device: &D) -> Result<(), Failure> {
    let (one, two) = (device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?);
    let event = device.create_event(false)?;
    let (x, y) = (upload(device, &[1.0; 10])?, upload(device, &[0.0; 10])?);
    let kernel = device.compile(&SAXPY)?;
    let launch = device.bind(&kernel, LaunchConfig::linear(10), &saxpy(x.pointer(), y.pointer(), 2.0, 10))?;
    let held = hold(device, &one)?;
    // SAFETY: the buffers live until the read has returned.
    unsafe { device.launch(&launch, &two)? };
    device.record(&event, &two)?;
    let free = is_reached_soon(device, &event)?;
    drop(held);
    device.synchronize(&one)?;
    let found = floats(&read_on(device, y.pointer(), 80, &two)?);
    ensure!(free, "a kernel in one stream waited for another stream");
    ensure!(found == [2.0; 10], "found {found:?}");
    Ok(())
}

/// Waiting for a device waits for all its streams: the default one, a stream that was made, and a borrowed one.
pub(super) fn all_streams<D: Device>(device: &D) -> Result<(), Failure> {
    let (made, lent) = (device.create_stream(Priority::Normal)?, device.create_stream(Priority::Low)?);
    // SAFETY: the lent stream lives to the end.
    let borrowed = unsafe { device.borrow_stream(lent.handle())? };
    let streams = [device.default_stream(), made, borrowed];
    let slow = streams.iter().map(|_| Slow::new(device)).collect::<Result<Vec<_>, _>>()?;
    let events = streams.iter().map(|_| device.create_event(false)).collect::<Result<Vec<_>, _>>()?;
    for ((stream, slow), event) in streams.iter().zip(&slow).zip(&events) {
        slow.start(stream)?;
        device.record(event, stream)?;
    }
    device.clone().synchronize_all()?;
    let reached = events.iter().map(|event| device.query(event)).collect::<Result<Vec<_>, _>>();
    each(&streams, |stream| device.synchronize(stream))?;
    ensure!(reached? == [true; 3], "work was left in the default stream, the one made or the one borrowed");
    Ok(())
}

fn each<T>(of: &[T], call: impl FnMut(&T) -> Result<(), DeviceError>) -> Result<(), Failure> {
    Ok(of.iter().try_for_each(call)?)
}

pub(super) fn events_recorded_again<D: Device>(device: &D) -> Result<(), Failure> {
    let slow = Slow::new(device)?;
    let [one, two, three] = [(); 3].map(|()| device.create_stream(Priority::Normal));
    let (one, two, three) = (one?, two?, three?);
    let event = device.create_event(false)?;
    let held = hold(device, &one)?;
    slow.start(&one)?;
    device.record(&event, &one)?;
    device.stream_wait(&two, &event)?;
    device.record(&event, &three)?;
    slow.look(&two)?;
    let free = is_reached_soon(device, &event)?;
    drop(held);
    let value = slow.seen(&two)?;
    device.synchronize(&one)?;
    ensure!(value == RESULT, "a wait for the earlier recording let a stream through, which read {value}");
    ensure!(free, "the later recording, in an idle stream, waits for the earlier one");
    Ok(())
}

pub(super) fn gates<D: Device>(device: &D) -> Result<(), Failure> {
    let Some(gates) = device.gates() else { return Ok(()) };
    let stream = device.create_stream(Priority::Normal)?;
    let event = device.create_event(false)?;
    let (x, y) = (upload(device, &[1.0; 10])?, upload(device, &[0.0; 10])?);
    let kernel = device.compile(&SAXPY)?;
    let launch = device.bind(&kernel, LaunchConfig::linear(10), &saxpy(x.pointer(), y.pointer(), 2.0, 10))?;
    for called in [true, false] {
        let open = gates.gate(&stream)?;
        // SAFETY: the buffers live until the read has returned.
        unsafe { device.launch(&launch, &stream)? };
        device.record(&event, &stream)?;
        thread::sleep(Duration::from_millis(20));
        let through = device.query(&event)?;
        if called {
            open()
        } else {
            drop(open)
        }
        device.host_wait(&event)?;
        ensure!(!through, "a stream went through a closed gate");
    }
    let found = floats(&read_on(device, y.pointer(), 80, &stream)?);
    ensure!(found == [4.0; 10], "behind two gates: {found:?}");
    Ok(())
}

/// While one thread waits for a stream behind a gate, another one puts commands into it and opens the gate.
pub(super) fn commands_while_another_thread_waits<D: Device>(device: &D) -> Result<(), Failure> {
    let Some(gates) = device.gates() else { return Ok(()) };
    let (stream, other) = (device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?);
    let (one, two) = (device.create_event(false)?, device.create_event(false)?);
    let open = gates.gate(&stream)?;
    let free = thread::scope(|scope| -> Result<bool, Failure> {
        let waits = scope.spawn(|| device.synchronize(&stream));
        thread::sleep(Duration::from_millis(20));
        let puts = scope.spawn(|| -> Result<(), DeviceError> {
            device.record(&one, &other)?;
            device.stream_wait(&stream, &one)?;
            device.record(&two, &stream)?;
            device.stream_wait(&other, &two)
        });
        let began = Instant::now();
        while !puts.is_finished() && began.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(1));
        }
        let free = puts.is_finished();
        open();
        for thread in [puts, waits] {
            thread.join().unwrap_or_else(|_| panic!("a thread of the test has panicked"))?;
        }
        Ok(free)
    })?;
    device.synchronize(&other)?;
    ensure!(free, "a thread that waited for a stream kept another one from putting commands into it");
    Ok(())
}

/// Two threads bind one kernel and launch it at the same time.
pub(super) fn launches_by_several_threads<D: Device>(device: &D) -> Result<(), Failure> {
    const ROUNDS: usize = 200;
    let kernel = device.compile(&SAXPY)?;
    let run = |factor: f64| -> Result<(), Failure> {
        let stream = device.create_stream(Priority::Normal)?;
        let (x, y) = (upload(device, &[1.0; 64])?, upload(device, &[0.0; 64])?);
        let pointers = |a| saxpy(x.pointer(), y.pointer(), a, 64);
        let mut launch = device.bind(&kernel, LaunchConfig::linear(64), &pointers(factor))?;
        for round in 0..ROUNDS {
            let sign = if round % 4 == 3 { -1.0 } else { 1.0 };
            device.rebind(&mut launch, 2, KernelArgument::F64(sign * factor))?;
            // SAFETY: the buffers live until the read has returned, and this thread alone uses them.
            unsafe { device.launch(&launch, &stream)? };
        }
        let found = floats(&read_on(device, y.pointer(), 64 * 8, &stream)?);
        let expected = factor * ROUNDS as f64 / 2.0;
        ensure!(found == [expected; 64], "expected {expected}, found {found:?}");
        Ok(())
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| run(3.0));
        let mine = run(5.0);
        other.join().unwrap_or_else(|_| Err("a thread panicked".into())).and(mine)
    })
}

pub(super) fn order_across_streams<D: Device>(device: &D) -> Result<(), Failure> {
    let (one, two) = (device.create_stream(Priority::Normal)?, device.create_stream(Priority::High)?);
    let event = device.create_event(false)?;
    let kernel = device.compile(&SAXPY)?;
    let count = 200_000;
    let (x, y, z) = (
        upload(device, &vec![1.0; count])?,
        upload(device, &vec![0.0; count])?,
        upload(device, &vec![0.0; count])?,
    );
    let config = LaunchConfig::linear(count);
    let first = device.bind(&kernel, config, &saxpy(x.pointer(), y.pointer(), 1.0, count))?;
    let second = device.bind(&kernel, config, &saxpy(y.pointer(), z.pointer(), 1.0, count))?;
    for _ in 0..10 {
        // SAFETY: the second launch reads what the first writes, and the first of the next round writes what the
        // second reads; events order both. All buffers live until the read has returned.
        unsafe {
            device.launch(&first, &one)?;
            device.record(&event, &one)?;
            device.stream_wait(&two, &event)?;
            device.launch(&second, &two)?;
            device.record(&event, &two)?;
            device.stream_wait(&one, &event)?;
        }
    }
    let found = floats(&read_on(device, z.pointer(), count * 8, &two)?);
    device.synchronize(&one)?;
    let wrong = found.iter().find(|value| **value != 55.0);
    ensure!(wrong.is_none(), "found {wrong:?}, expected 55");
    Ok(())
}
