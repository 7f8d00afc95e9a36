//! A transport that reaches device memory, as MPI with support for CUDA does, between ranks that are threads.
//!
//! The driver for tests is its network adapter. As libraries of MPI, it finds the device by the context that is current
//! when it is called (openucx/ucx, ai-dynamo/nixl#2103).

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haloport_core::comm::Communicator;
use haloport_core::device::{MemoryRange, Pointer};
use haloport_core::transport::{Channel, Direction, Idle, Reach, Transport, TransportError, TransportInfo};
use libloading::{Library, Symbol};

/// Passes messages on to the transport within, from and to memory of the host.
#[derive(Debug)]
pub(crate) struct Network {
    inner: Arc<dyn Transport>,
    adapter: Adapter,
    channels: Mutex<HashMap<Channel, OpenChannel>>,
    moved: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct OpenChannel {
    direction: Direction,
    parts: Vec<MemoryRange>,
    /// The memory that the transport within uses.
    on_host: Vec<Box<[u8]>>,
    /// Whether a message that was posted is not complete.
    under_way: bool,
}

/// The functions of the driver that move device memory as a network adapter does.
#[derive(Debug)]
struct Adapter(Library);

impl Adapter {
    /// Reads or writes memory of a device, whose context must be current.
    fn transfer(&self, name: &str, device: Pointer, host: &mut [u8]) -> Result<(), TransportError> {
        // SAFETY: the driver for tests has functions of these names and this type; the memory of the host is that long, and
        // the driver checks the address.
        let status = unsafe {
            let transfer: Symbol<unsafe extern "C" fn(u64, *mut u8, usize) -> u32> =
                self.0.get(name.as_bytes()).map_err(|error| TransportError::Broken(error.to_string()))?;
            transfer(device.as_ptr().addr() as u64, host.as_mut_ptr(), host.len())
        };
        match status {
            0 => Ok(()),
            201 => Err(TransportError::Broken(format!("{name}: no context is current"))),
            _ => Err(TransportError::Broken(format!("{name}: status {status}"))),
        }
    }
}

impl Network {
    /// A communicator of the same ranks, and the number of messages that it moves; `None` without the driver for tests.
    pub(crate) fn around(comm: &Communicator) -> Option<(Communicator, Arc<AtomicUsize>)> {
        // SAFETY: the initialisers of a driver require nothing.
        let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
        // SAFETY: only asks whether there is such a symbol.
        unsafe { library.get::<*const ()>(b"driver_network_write\0") }.ok()?;
        // SAFETY: meanwhile the tests use the communicator within for nothing else.
        let inner = Arc::clone(unsafe { comm.raw_transport() });
        let moved = Arc::new(AtomicUsize::new(0));
        let (adapter, channels) = (Adapter(library), Mutex::default());
        let network = Communicator::new(Network { inner, adapter, channels, moved: Arc::clone(&moved) });
        network.set_time_limit(comm.time_limit());
        Some((network, moved))
    }

    fn with<R>(&self, channel: Channel, act: impl FnOnce(&mut OpenChannel) -> R) -> R {
        act(self.channels.lock().unwrap().get_mut(&channel).unwrap())
    }

    fn move_all(&self, open: &mut OpenChannel) -> Result<(), TransportError> {
        let name =
            if open.direction == Direction::Send { "driver_network_read" } else { "driver_network_write" };
        self.moved.fetch_add(1, Ordering::Relaxed);
        let parts = open.parts.iter().zip(&mut open.on_host);
        parts.into_iter().try_for_each(|(part, host)| self.adapter.transfer(name, part.pointer, host))
    }
}

// SAFETY: device memory is touched only between a post and the test that finds the message complete. The memory that the
// transport within uses lives as long as the channel, or as what keeps it.
unsafe impl Transport for Network {
    haloport_conformance::unaltered_messages!();

    fn info(&self) -> TransportInfo {
        let reach = Reach::Own { reason: "the network is tested".into() };
        TransportInfo { device_memory: vec!["cuda"], reach, ..self.inner.info() }
    }

    unsafe fn open_parts(
        &self,
        direction: Direction,
        peer: usize,
        tag: u32,
        parts: &[MemoryRange],
    ) -> Result<Channel, TransportError> {
        let mut on_host: Vec<Box<[u8]>> = parts.iter().map(|part| vec![0; part.bytes].into()).collect();
        let on_host_of = |(part, host): (&MemoryRange, &mut Box<[u8]>)| MemoryRange {
            pointer: Pointer::new(host.as_mut_ptr()),
            ..*part
        };
        let ranges: Vec<MemoryRange> = parts.iter().zip(&mut on_host).map(on_host_of).collect();
        // SAFETY: the memory is kept with the channel.
        let channel = unsafe { self.inner.open_parts(direction, peer, tag, &ranges)? };
        let open = OpenChannel { direction, parts: parts.to_vec(), on_host, under_way: false };
        self.channels.lock().unwrap().insert(channel, open);
        Ok(channel)
    }

    unsafe fn post(&self, channel: Channel) -> Result<(), TransportError> {
        self.with(channel, |open| {
            open.under_way = true;
            if open.direction == Direction::Send { self.move_all(open) } else { Ok(()) }
        })?;
        // SAFETY: the caller's promise; the memory of the host is the channel's.
        unsafe { self.inner.post(channel) }
    }

    fn test(&self, channel: Channel) -> Result<bool, TransportError> {
        if !self.inner.test(channel)? {
            return Ok(false);
        }
        self.with(channel, |open| {
            let arrived = std::mem::take(&mut open.under_way) && open.direction == Direction::Receive;
            if arrived { self.move_all(open) } else { Ok(()) }
        })?;
        Ok(true)
    }

    unsafe fn close(&self, channel: Channel, keep: Arc<dyn Any + Send + Sync>) {
        let open = self.channels.lock().unwrap().remove(&channel);
        let keep = Arc::new((keep, Mutex::new(open)));
        // SAFETY: `keep` owns the memory of the channel.
        unsafe { self.inner.close(channel, keep) }
    }

    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        self.inner.sparse_exchange(messages, idle)
    }
}
