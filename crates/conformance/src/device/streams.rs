//! Streams and events by themselves.

use haloport_core::device::{Device, Event, Priority, Stream};

use crate::{Failure, ensure};

pub(super) fn streams<D: Device>(device: &D) -> Result<(), Failure> {
    let default = device.default_stream();
    ensure!(default.device() == device.id(), "the default stream is one of {}", default.device());
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        let stream = device.create_stream(priority)?;
        ensure!(stream.device() == device.id(), "a stream of {}", stream.device());
        if !device.info().asynchronous {
            ensure!(stream.handle() == 0, "handle {} where streams are no-ops", stream.handle());
        }
        // SAFETY: the stream lives to the end of the loop's body, the borrowed one as long.
        let borrowed = unsafe { device.borrow_stream(stream.handle())? };
        ensure!(
            borrowed.handle() == stream.handle(),
            "borrowed {} as {}",
            stream.handle(),
            borrowed.handle()
        );
        device.synchronize(&borrowed)?;
        drop(borrowed);
        device.synchronize(&stream)?;
    }
    Ok(())
}

pub(super) fn events<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let other = device.create_stream(Priority::Normal)?;
    let event = device.create_event(false)?;
    ensure!(device.query(&event)?, "an event that was never recorded is not complete");
    device.host_wait(&event)?;
    device.stream_wait(&other, &event)?;
    if !device.info().asynchronous {
        ensure!(event.handle() == 0, "handle {} where events are no-ops", event.handle());
    }
    for _ in 0..3 {
        device.record(&event, &stream)?;
        device.stream_wait(&other, &event)?;
    }
    device.host_wait(&event)?;
    ensure!(device.query(&event)?, "the event is not complete after the host waited for it");
    device.synchronize(&other)?;
    Ok(())
}

pub(super) fn event_timing<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let (begin, end) = (device.create_event(true)?, device.create_event(true)?);
    ensure!(device.elapsed(&begin, &end).is_err(), "a time between events that were never recorded");
    device.record(&begin, &stream)?;
    std::thread::sleep(std::time::Duration::from_millis(2));
    device.record(&end, &stream)?;
    device.host_wait(&end)?;
    let elapsed = device.elapsed(&begin, &end)?;
    ensure!(elapsed.as_millis() < 10_000, "two events 2 ms apart are {elapsed:?} apart");
    let untimed = device.create_event(false)?;
    device.record(&untimed, &stream)?;
    device.host_wait(&untimed)?;
    ensure!(device.elapsed(&begin, &untimed).is_err(), "a time to an event made without timing");
    Ok(())
}
