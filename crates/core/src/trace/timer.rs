//! The beginning and end of work on a device, on the time axis of the host.
//!
//! Work of a synchronous device is timed by the host's clock. On an asynchronous device, one event before the work and
//! one after it have the device's time, and an event whose host time is known, the anchor, brings them to the host's
//! axis. Events are made in advance, used in turn, and read when they are needed again or when the time line is
//! collected. A call that puts work into a stream waits for none of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock::now;
use super::span_list::{SpanLabel, SpanList};
use crate::device::{Device, DeviceError, Priority};

/// The attempts to record an anchor; the one that took the shortest time counts.
const TRIES: usize = 10;

/// A moment at which the times of the device and of the host are known.
#[derive(Debug)]
pub(super) struct Anchor<D: Device> {
    device: D,
    event: D::Event,
    /// On the time axis of the host.
    at: u64,
}

/// Times the work of one device, for one writer at a time.
#[derive(Debug)]
pub(crate) struct Timer<D: Device> {
    list: Arc<SpanList>,
    /// `None` on a synchronous device.
    clock: Option<EventClock<D>>,
}

/// The clock of an asynchronous device.
#[derive(Debug)]
struct EventClock<D: Device> {
    anchor: Arc<Anchor<D>>,
    events: Mutex<Events<D>>,
}

#[derive(Debug)]
struct Events<D: Device> {
    free: Vec<[D::Event; 2]>,
    /// The oldest first.
    in_use: VecDeque<TimedWork<D>>,
}

/// Work in a stream between two events.
#[derive(Debug)]
struct TimedWork<D: Device> {
    events: [D::Event; 2],
    label: SpanLabel,
    /// The time of the call that put it there, on the time axis of the host.
    put: u64,
}

/// Spans whose ends are not known yet.
pub(super) trait PendingTimes: Send + Sync {
    /// Waits for all work so far, and reads its times.
    fn read_all(&self);
}

impl<D: Device> Anchor<D> {
    /// Records the anchor in a new stream, and waits for it.
    pub(super) fn new(device: &D) -> Result<Anchor<D>, DeviceError> {
        let stream = device.create_stream(Priority::Normal)?;
        let mut best = None;
        for _ in 0..TRIES {
            let event = device.create_event(true)?;
            let before = now();
            device.record(&event, &stream)?;
            device.host_wait(&event)?;
            // The time of an event may be known a little later than its completion.
            device.elapsed(&event, &event)?;
            let taken = now() - before;
            if best.as_ref().is_none_or(|(least, _)| taken < *least) {
                best = Some((taken, Anchor { device: device.clone(), event, at: before + taken / 2 }));
            }
        }
        let none = || DeviceError::invalid("the anchor of a time line", "a recorded event", "none");
        best.map(|(_, anchor)| anchor).ok_or_else(none)
    }

    /// The beginning and end of completed work, on the time axis of the host.
    fn times(&self, timed: &TimedWork<D>) -> Result<(u64, u64), DeviceError> {
        let [begin, end] = &timed.events;
        let duration = self.device.elapsed(begin, end)?.as_nanos() as u64;
        let begin = self.at + self.device.elapsed(&self.event, begin)?.as_nanos() as u64;
        // No work begins before the call that starts it; the anchor has an error as long as its recording took.
        let begin = begin.max(timed.put);
        Ok((begin, begin + duration))
    }
}

impl<D: Device> Timer<D> {
    /// Makes a timer with events for `pairs` pieces of work whose times have not been read.
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

    /// The list of its spans.
    pub(crate) fn list(&self) -> &Arc<SpanList> {
        &self.list
    }

    /// Runs `work`, which puts work into `stream`, and stores its span. If it cannot be timed, counts it as dropped.
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

    /// Returns two events that are not in use. If all are, first reads those of the older half whose work is done.
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

    /// Stores the span of work that is done or has failed, and returns its events.
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
        // Waits without the lock: a gate may hold up the work, and the thread that opens it may first need an event.
        let in_use = std::mem::take(&mut clock.events().in_use);
        for timed in in_use {
            // An error shows in `read`, as a span that has failed.
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
