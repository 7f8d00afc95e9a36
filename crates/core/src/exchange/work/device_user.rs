//! The ranks of this process that use a device, since a waiting stream of one can hold back another.
//!
//! Streams may share queues of the hardware. Work that waits in a queue holds back what is put behind it, in any stream.
//! So work that a neighbour needs before it can end a wait must not come behind that wait:
//!
//! - Ranks that are threads share the queues. A gate or an awaited number of one rank could hold back the packing of
//!   another rank, and so wait for ever for its message.
//! - *Late copies* are put into a stream by the host in the course of an exchange, and neighbours wait for them. A
//!   neighbour may start the next exchange only then, but this rank's next exchange may be in its streams before.
//!
//! All other work of an exchange is put into streams by its `start` or `finish`, in the same order on all ranks.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::comm::Communicator;
use crate::device::{Device, DeviceId};
use crate::lock::lock;

/// The number of parts that each rank of this process has on each device.
static USERS: Counts<(DeviceId, usize)> = Mutex::new(BTreeMap::new());

/// The number of exchanges under way on each device that have late copies.
static LATE_COPIES: Counts<DeviceId> = Mutex::new(BTreeMap::new());

/// Keys whose number is 0 are removed.
type Counts<K> = Mutex<BTreeMap<K, usize>>;

/// Counts a part of a rank as a user of a device until it is dropped, after the memory of the part.
#[derive(Debug)]
pub(crate) struct DeviceUser {
    device: DeviceId,
    rank: usize,
}

/// Late copies of an exchange on a device, until this is dropped.
#[derive(Debug)]
pub(crate) struct LateCopies(DeviceId);

impl DeviceUser {
    pub(crate) fn new(device: DeviceId, comm: &Communicator) -> DeviceUser {
        let rank = comm.rank_of_process();
        count_up(&USERS, (device, rank));
        DeviceUser { device, rank }
    }

    /// Whether other ranks of this process use the device, too.
    pub(crate) fn has_others(&self) -> bool {
        let users = lock(&USERS);
        let mut on_device = users.range((self.device, 0)..=(self.device, usize::MAX));
        on_device.any(|((_, rank), _)| *rank != self.rank)
    }

    /// Whether exchanges under way on the device have late copies.
    pub(crate) fn has_late_copies(&self) -> bool {
        lock(&LATE_COPIES).contains_key(&self.device)
    }
}

impl Drop for DeviceUser {
    fn drop(&mut self) {
        count_down(&USERS, (self.device, self.rank));
    }
}

impl LateCopies {
    pub(crate) fn new(device: DeviceId) -> LateCopies {
        count_up(&LATE_COPIES, device);
        LateCopies(device)
    }
}

impl Drop for LateCopies {
    fn drop(&mut self) {
        count_down(&LATE_COPIES, self.0);
    }
}

fn count_up<K: Ord>(counts: &Counts<K>, key: K) {
    *lock(counts).entry(key).or_default() += 1;
}

fn count_down<K: Ord>(counts: &Counts<K>, key: K) {
    let mut counts = lock(counts);
    match counts.get_mut(&key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(&key)),
    }
}

/// Guard: while it lives, streams of the device may wait for neighbours, so no memory of it is freed.
#[derive(Debug)]
pub(crate) struct DeferredFrees<D: Device>(D);

impl<D: Device> DeferredFrees<D> {
    pub(crate) fn new(device: &D) -> DeferredFrees<D> {
        device.defer_frees();
        DeferredFrees(device.clone())
    }
}

impl<D: Device> Drop for DeferredFrees<D> {
    fn drop(&mut self) {
        self.0.resume_frees();
    }
}
