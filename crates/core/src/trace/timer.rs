//! When work on a device began and ended, on the axis of the host.
//!
//! A device that is done when a call returns is timed by the host's clock. On any other, an event before the work and one
//! after it have the device's time, and one event of which the host's time is known, the anchor, brings it to the host's
//! axis. Events are made at first, used in turn, and read when they are wanted again, or when the time line is collected:
//! what puts work into a stream waits for none of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock::now;
use super::span_list::{SpanLabel, SpanList};
use crate::device::{Device, DeviceError, Priority};

/// How often the anchor is tried, for the recording that took the shortest time.
const TRIES: usize = 10;

/// A moment of which both the device's time and the host's are known.
#[derive(Debug)]
pub(super) struct Anchor<D: Device> {
    device: D,
    event: D::Event,
    /// On the axis of the host.
    at: u64,
}

/// Times work of one device, for one writer at a time.
#[derive(Debug)]
pub(crate) struct Timer<D: Device> {
    list: Arc<SpanList>,
    /// `None` on a device that is done when a call returns.
    clock: Option<EventClock<D>>,
}

/// The clock of a device that goes on working after a call has returned.
#[derive(Debug)]
struct EventClock<D: Device> {
    anchor: Arc<Anchor<D>>,
    events: Mutex<Events<D>>,
}

#[derive(Debug)]
struct Events<D: Device> {
    free: Vec<[D::Event; 2]>,
    /// From the oldest on.
    in_use: VecDeque<TimedWork<D>>,
}

/// Work in a stream between two events.
#[derive(Debug)]
struct TimedWork<D: Device> {
    events: [D::Event; 2],
    label: SpanLabel,
    /// When it was put there, on the axis of the host.
    put: u64,
}

/// What has spans of which the end is not known yet.
pub(super) trait PendingTimes: Send + Sync {
    /// Reads the times of all work so far. Waits for it.
    fn read_all(&self);
}

impl<D: Device> Anchor<D> {
    /// Waits for a stream that is otherwise empty.
    pub(super) fn new(device: &D) -> Result<Anchor<D>, DeviceError> {
        let stream = device.create_stream(Priority::Normal)?;
        let mut best = None;
        for _ in 0..TRIES {
            let event = device.create_event(true)?;
            let before = now();
            device.record(&event, &stream)?;
            device.host_wait(&event)?;
            // Its time may come a little later than the event.
            device.elapsed(&event, &event)?;
            let taken = now() - before;
            if best.as_ref().is_none_or(|(least, _)| taken < *least) {
                best = Some((taken, Anchor { device: device.clone(), event, at: before + taken / 2 }));
            }
        }
        let none = || DeviceError::invalid("the anchor of a time line", "a recorded event", "none");
        best.map(|(_, anchor)| anchor).ok_or_else(none)
    }

    /// Begin and end, on the axis of the host, of work that is done.
    fn times(&self, timed: &TimedWork<D>) -> Result<(u64, u64), DeviceError> {
        let [begin, end] = &timed.events;
        let duration = self.device.elapsed(begin, end)?.as_nanos() as u64;
        let begin = self.at + self.device.elapsed(&self.event, begin)?.as_nanos() as u64;
        // Nothing begins before it is asked for: an anchor is as exact as its recording was quick.
        let begin = begin.max(timed.put);
        Ok((begin, begin + duration))
    }
}

impl<D: Device> Timer<D> {
    /// A timer that may be `pairs` pieces of work behind its device. It makes the events for these.
    pub(super) fn new(
        list: Arc<SpanList>,
        anchor: Option<&Arc<Anchor<D>>>,
        pairs: usize,
    ) -> Result<Timer<D>, DeviceError> {
        let Some(anchor) = anchor else { return Ok(Timer { list, clock: None }) };
        let event = || anchor.device.create_event(true);
        let free = (0..pairs).map(|_| Ok([event()?, event()?])).collect::<Result<Vec<_>, DeviceError>>()?;
        let events = Mutex::new(Events { free, in_use: VecDeque::with_capacity(pairs) });
        Ok(Timer { list, clock: Some(EventClock { anchor: Arc::clone(anchor), events }) })
    }

    /// Where its spans are kept.
    pub(crate) fn list(&self) -> &Arc<SpanList> {
        &self.list
    }

    /// Runs `work`, which puts work into `stream`, and keeps when that began and ended. What cannot be timed is counted.
    pub(crate) fn time<R, E>(
        &self,
        label: SpanLabel,
        device: &D,
        stream: &D::Stream,
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        let put = now();
        let Some(clock) = &self.clock else {
            let result = work();
            self.list.push(label, put, now(), result.is_err());
            return result;
        };
        let pair = self.unused(clock).filter(|[begin, _]| device.record(begin, stream).is_ok());
        let result = work();
        if result.is_err() {
            self.list.push(label, put, now(), true);
            clock.events().free.extend(pair);
            return result;
        }
        match pair.filter(|[_, end]| device.record(end, stream).is_ok()) {
            Some(events) => clock.events().in_use.push_back(TimedWork { events, label, put }),
            None => self.list.drop_one(),
        }
        result
    }

    /// Two events that nobody uses. Where all are in use, reads the older half of them, as far as the work is done.
    fn unused(&self, clock: &EventClock<D>) -> Option<[D::Event; 2]> {
        let anchor = &clock.anchor;
        let mut events = clock.events();
        if events.free.is_empty() {
            for _ in 0..events.in_use.len().div_ceil(2) {
                let is_done =
                    |timed: &TimedWork<D>| !matches!(anchor.device.query(&timed.events[1]), Ok(false));
                if !events.in_use.front().is_some_and(is_done) {
                    break;
                }
                let unused = events.in_use.pop_front().map(|timed| self.read(anchor, timed));
                events.free.extend(unused);
            }
        }
        events.free.pop()
    }

    /// Keeps the times of work that is done, or has failed, and gives its events back.
    fn read(&self, anchor: &Anchor<D>, timed: TimedWork<D>) -> [D::Event; 2] {
        match anchor.times(&timed) {
            Ok((begin, end)) => self.list.push(timed.label, begin, end, false),
            Err(_) => self.list.push(timed.label, timed.put, timed.put, true),
        }
        timed.events
    }
}

impl<D: Device> PendingTimes for Timer<D> {
    fn read_all(&self) {
        let Some(clock) = &self.clock else { return };
        // The lock is not held while it waits: a gate may hold the work back, and who opens it may want an event first.
        let in_use = std::mem::take(&mut clock.events().in_use);
        for timed in in_use {
            // Its error comes out of `read`, as a span that has failed.
            let _ = clock.anchor.device.host_wait(&timed.events[1]);
            let unused = self.read(&clock.anchor, timed);
            clock.events().free.push(unused);
        }
    }
}

impl<D: Device> EventClock<D> {
    fn events(&self) -> MutexGuard<'_, Events<D>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
