//! A network that is simulated: messages between ranks that are threads arrive after a latency, at a rate.
//!
//! Each rank has an adapter, which sends one message after the other and takes no time of a core: a message leaves at the rate of the
//! network once those before it have left, and arrives after the latency. Receivers see it at the first look afterwards.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use haloport::Communicator;
use haloport::comm::TransportError;
use haloport_core::device::MemoryRange;
use haloport_core::transport::{
    Channel, Direction, Idle, Incoming, Reach, Reduction, Transport, TransportInfo,
};
use serde::Serialize;

/// The rate and the latency of a network: `--network`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Network {
    gigabits_per_second: f64,
    latency_us: f64,
}

/// What is under way in the network, for all ranks.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<Adapters>);

#[derive(Debug, Default)]
struct Adapters {
    /// For each rank, the time from which on its adapter is free.
    free: HashMap<usize, Instant>,
    /// When the messages of a channel arrive, by sender, receiver and tag, in the order of sending.
    arrivals: HashMap<(usize, usize, u32), VecDeque<Instant>>,
}

/// The transport of one rank: messages of channels go through the network, everything else as within.
#[derive(Debug)]
struct Simulated {
    inner: Arc<dyn Transport>,
    network: Network,
    under_way: Arc<UnderWay>,
    channels: Mutex<HashMap<Channel, OpenChannel>>,
}

#[derive(Debug)]
struct OpenChannel {
    /// The sender, the receiver and the tag.
    route: (usize, usize, u32),
    direction: Direction,
    bytes: usize,
    /// Of the message that is received and has not arrived.
    receiving: Option<Receiving>,
}

#[derive(Debug, Clone, Copy)]
enum Receiving {
    Posted,
    Until(Instant),
}

impl Network {
    /// A communicator of the same ranks, whose messages go through the network. Use it in place of `comm`, which must outlive it.
    pub(super) fn around(self, comm: &Communicator, under_way: &Arc<UnderWay>) -> Communicator {
        // SAFETY: `comm` is used for nothing else.
        let inner = Arc::clone(unsafe { comm.raw_transport() });
        let (under_way, channels) = (Arc::clone(under_way), Mutex::default());
        let around = Communicator::new(Simulated { inner, network: self, under_way, channels });
        around.set_time_limit(comm.time_limit());
        around.set_warn_after(comm.warn_after());
        around
    }

    /// The time from the sending of messages with `bytes` in all until the last one has arrived.
    pub(super) fn transfer(&self, bytes: usize) -> Duration {
        self.busy(bytes) + self.latency()
    }

    fn latency(&self) -> Duration {
        Duration::from_secs_f64(self.latency_us * 1e-6)
    }

    /// The time for which a message of this length keeps an adapter busy.
    fn busy(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 * 8.0 / (self.gigabits_per_second * 1e9))
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let numbers: Option<Vec<f64>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[gigabits_per_second, latency_us])
                if (1e-3..=1e6).contains(&gigabits_per_second) && (0.0..=1e6).contains(&latency_us) =>
            {
                Ok(Network { gigabits_per_second, latency_us })
            }
            _ => Err(format!(
                "expected Gbit/s from 0.001 to 1000000 and microseconds from 0 to 1000000, such as 10,5; found `{text}`"
            )),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Network { gigabits_per_second, latency_us } = self;
        write!(out, "a simulated network of {gigabits_per_second} Gbit/s with a latency of {latency_us} µs")
    }
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, Adapters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Simulated {
    fn channels(&self) -> MutexGuard<'_, HashMap<Channel, OpenChannel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: the transport within alone touches memory of channels, between its `post` and the `test` that finds the message complete; this
// one says so later to a receiver.
unsafe impl Transport for Simulated {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn info(&self) -> TransportInfo {
        let reach = Reach::Own { reason: "a network is simulated".into() };
        TransportInfo { reach, implementation: self.network.to_string(), ..self.inner.info() }
    }

    unsafe fn open_parts(
        &self,
        direction: Direction,
        peer: usize,
        tag: u32,
        parts: &[MemoryRange],
    ) -> Result<Channel, TransportError> {
        // SAFETY: the caller's promise.
        let channel = unsafe { self.inner.open_parts(direction, peer, tag, parts)? };
        let route = match direction {
            Direction::Send => (self.rank(), peer, tag),
            Direction::Receive => (peer, self.rank(), tag),
        };
        let bytes = parts.iter().map(|part| part.bytes).sum();
        self.channels().insert(channel, OpenChannel { route, direction, bytes, receiving: None });
        Ok(channel)
    }

    unsafe fn post(&self, channel: Channel) -> Result<(), TransportError> {
        if let Some(open) = self.channels().get_mut(&channel) {
            match open.direction {
                Direction::Receive => open.receiving = Some(Receiving::Posted),
                Direction::Send => {
                    let mut adapters = self.under_way.lock();
                    let free = adapters.free.entry(open.route.0).or_insert_with(Instant::now);
                    *free = Instant::now().max(*free) + self.network.busy(open.bytes);
                    let arrival = *free + self.network.latency();
                    adapters.arrivals.entry(open.route).or_default().push_back(arrival);
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.inner.post(channel) }
    }

    fn test(&self, channel: Channel) -> Result<bool, TransportError> {
        let mut channels = self.channels();
        let Some(open) = channels.get_mut(&channel) else { return self.inner.test(channel) };
        let arrival = match open.receiving {
            None => return self.inner.test(channel),
            Some(Receiving::Until(arrival)) => arrival,
            Some(Receiving::Posted) => {
                if !self.inner.test(channel)? {
                    return Ok(false);
                }
                let mut adapters = self.under_way.lock();
                let arrival = adapters.arrivals.get_mut(&open.route).and_then(VecDeque::pop_front);
                arrival.unwrap_or_else(Instant::now)
            }
        };
        let has_arrived = Instant::now() >= arrival;
        open.receiving = (!has_arrived).then_some(Receiving::Until(arrival));
        Ok(has_arrived)
    }

    unsafe fn close(&self, channel: Channel, keep: Arc<dyn Any + Send + Sync>) {
        self.channels().remove(&channel);
        // SAFETY: the caller's promise.
        unsafe { self.inner.close(channel, keep) }
    }

    fn relax(&self, _round: u32) -> Result<(), TransportError> {
        // Nobody wakes a rank when a message arrives, so it does not sleep.
        self.inner.relax(0)?;
        if self.inner.info().crowded {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn notify(&self, peer: usize) {
        self.inner.notify(peer);
    }

    fn send_message(&self, peer: usize, tag: u32, bytes: Vec<u8>) -> Result<(), TransportError> {
        self.inner.send_message(peer, tag, bytes)
    }

    fn receive_message(&self, tag: u32) -> Result<Incoming, TransportError> {
        self.inner.receive_message(tag)
    }

    fn unreceived(&self, tag: u32) -> Result<Vec<usize>, TransportError> {
        self.inner.unreceived(tag)
    }

    fn discard_messages(&self, tag: u32) {
        self.inner.discard_messages(tag);
    }

    fn missing_ranks(&self) -> Vec<usize> {
        self.inner.missing_ranks()
    }

    fn ended_ranks(&self) -> Vec<usize> {
        self.inner.ended_ranks()
    }

    fn all_reduce(
        &self,
        values: &mut [u64],
        reduction: Reduction,
        idle: Idle<'_>,
    ) -> Result<(), TransportError> {
        self.inner.all_reduce(values, reduction, idle)
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>, idle: Idle<'_>) -> Result<(), TransportError> {
        self.inner.broadcast(root, bytes, idle)
    }

    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        self.inner.sparse_exchange(messages, idle)
    }
}
