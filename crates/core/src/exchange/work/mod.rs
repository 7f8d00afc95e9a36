//! What every way of moving cells uses for the work of an exchange.
//!
//! - Here: the trait of a part, the work of one device in each phase of an exchange; that of a way on a host; and the values
//!   that they work with, a [`Lane`];
//! - `copy_list`: lists of copies, and the memory of messages;
//! - `streams`: the own streams of a part, and the ranks of this process that use a device;
//! - `mark`: points in streams that the host can ask about, and those at which halos are filled;
//! - `trace`: the time line of an exchange.
//!
//! A bound exchange is a list of parts, each compiled for its device, behind the small trait [`Part`]: a
//! [`HostPart`](crate::exchange::part::host) if the device has done its work when a call returns, a
//! [`StreamPart`](crate::exchange::part) if it has streams. A part runs through these phases:
//!
//! 1. `start` waits (in stream order) for the work before, packs the messages, and copies the cells that the rank sends
//!    to itself. On a host it also sends, and lends windows (on fields, or on packed messages) to neighbours that share memory.
//! 2. `poll`, called repeatedly, does that on devices with streams as soon as packing is done, copies from the windows that
//!    neighbours lend, and tests messages. It touches borrowed memory only while the caller waits in `finish`.
//! 3. `finish` unpacks the rest, and makes the work after wait (in stream order) for it.
//!
//! Stretches of messages may lie in fields: from the end of the work before until the message is complete, the
//! transport reads the cells that it sends there, or writes the cells that it receives. Borrowed memory is never used
//! in this way: if a pending exchange is forgotten, its owner has it back while messages are under way.
//!
//! In each phase the thread is [attached](crate::device::Device::attach) to the device, also for the transport, which may
//! move memory of the device. Code of the caller runs in none of them.

pub(super) mod copy_list;
pub(super) mod mark;
pub(super) mod streams;
pub(super) mod trace;

use super::options::{ExchangeError, Schedule, Traffic};
use crate::device::{Attached, Device, DeviceError, DeviceId, Pointer};
use crate::field::Storage;
use crate::transport::Transport;
use trace::PartTrace;

/// One device's share of a bound exchange. The methods that are given here are right for a device that has done its work when
/// a call returns.
pub(crate) trait Part: Send {
    fn device(&self) -> DeviceId;
    fn traffic(&self) -> Traffic;
    /// Whether `schedule` says in which stream of an asynchronous device an exchange begins or ends.
    fn is_ordered_by(&self, _schedule: &Schedule<'_>) -> bool {
        true
    }
    /// An error if an exchange cannot begin or end in the stream of `schedule`, because it is being captured.
    fn check_stream(&self, _schedule: &Schedule<'_>) -> Result<(), DeviceError> {
        Ok(())
    }
    /// `watched`: a thread polls the exchange until it ends, so that streams may wait for neighbours.
    fn start(
        &mut self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
        watched: bool,
    ) -> Result<(), ExchangeError>;
    /// Attaches the thread to the device, for several calls.
    fn attach(&self) -> Result<Attached, DeviceError>;
    /// Makes progress; returns `true` once `finish` would not wait for a neighbour. `finishing`: the caller waits in
    /// `finish`, so that borrowed memory may be touched. Does not block.
    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError>;
    /// Blocks while nothing but copies of the device is missing before neighbours can go on. For the thread that waits in
    /// `finish` alone.
    fn wait_for_device(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError>;
    /// Whether `poll` has more to do with neighbours while the caller waits in `finish`, after it has returned `true` for one
    /// that does not.
    fn ends_in_finish(&self) -> bool {
        false
    }
    /// Whether the device goes on working after a call has returned.
    fn is_asynchronous(&self) -> bool {
        false
    }
    /// Puts the end of the exchange into the stream of `schedule` behind a gate, which `poll` opens when `finish` would
    /// not wait for a neighbour. If that is not possible, does nothing: the caller then calls `finish`. Does not block.
    fn finish_behind_gate(
        &mut self,
        _transport: &dyn Transport,
        _schedule: &Schedule<'_>,
    ) -> Result<(), ExchangeError> {
        Ok(())
    }
    /// Whether a gate is closed.
    fn is_gated(&self) -> bool {
        false
    }
    /// Whether the device is still packing, or unpacking the last chunks: the exchange is not waiting for neighbours.
    fn is_packing(&self) -> bool {
        false
    }
    /// Blocks until the halos of the last exchange are in place.
    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    /// The next exchange finds the blocks of memory to which copies are anchored at `bases`.
    fn place(&mut self, bases: &[Pointer]);
    /// From now on, access to this memory from the host waits for the part's last exchange.
    fn writes(&self, _storage: &Storage) {}
    /// The neighbours that are missing: the rank of each, and in words what is missing of it.
    fn missing(&self) -> Vec<(usize, String)>;
    /// Begins to abandon the part: tells neighbours, and waits at most for words of theirs and for windows that they read.
    fn begin_to_abandon(&mut self, _transport: &dyn Transport) {}
    /// Whether [`abandon`](Part::abandon) would not wait for the device or a neighbour.
    fn may_be_abandoned(&self) -> bool {
        true
    }
    /// Abandons the part for good: afterwards neither the device nor neighbours touch the fields; those that the
    /// transport may still be using stay marked as in flight. Returns `false` if a neighbour in another process, which
    /// does not answer, may still write into the fields.
    fn abandon(&mut self, transport: &dyn Transport) -> bool;
}

/// One way of moving cells on a device that has done its work when a call returns, bound: its work in each phase. The safe
/// calls serve every device.
///
/// # Safety of the unsafe calls
/// When `start` is called, the last exchange has ended, and the work before is done. From then until the exchange has ended,
/// nothing but the part and its transport touches the cells that are filled, which are halo cells or, in a redistribution,
/// those of the target, and nothing writes the cells that are sent. Each way fills cells of its own. Memory that is borrowed
/// from the caller is only touched by `start` and while the caller waits in `finish`.
pub(crate) trait HostWay<D: Device>: Send {
    /// Begins an exchange. The last one has ended.
    fn begin(&mut self);
    /// Packs and sends, or lends: afterwards neighbours can go on without this rank.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn start(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError>;
    /// Makes progress; returns `true` once `finish` would not wait for a neighbour. `finishing`: the caller waits in
    /// `finish`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn advance(&mut self, lane: &Lane<'_, D>, finishing: bool) -> Result<bool, ExchangeError>;
    /// Puts the rest into the halos. `advance` has returned `true`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn finish(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError>;
    /// As [`Part::ends_in_finish`].
    fn ends_in_finish(&self) -> bool {
        false
    }
    /// Leaves to neighbours, in messages, what they wait for, before an exchange in flight is closed.
    fn leave(&mut self, _lane: &Lane<'_, D>) {}
    /// The neighbours that are missing: the rank of each, and in words what is missing of it.
    fn missing(&self) -> Vec<(usize, String)>;
    /// Ends the spans in the time line as failed.
    fn fail(&mut self);
    /// Closes the channels for good: afterwards neighbours do not touch the fields.
    fn close(&mut self, transport: &dyn Transport);
}

/// What the work of a part in an exchange is done with.
pub(crate) struct Lane<'p, D: Device> {
    pub(crate) device: &'p D,
    /// The addresses of the blocks that copies are anchored to; see [`Device::run_copies`].
    pub(crate) bases: &'p [Pointer],
    pub(crate) stream: &'p D::Stream,
    pub(crate) trace: &'p PartTrace<D>,
    /// The number of the exchange, modulo 2.
    pub(crate) round: usize,
    pub(crate) transport: &'p dyn Transport,
}

/// The [`Lane`] of a part in one of its streams. A macro, so that it borrows only these fields.
macro_rules! lane {
    ($part:expr, $stream:expr, $transport:expr) => {
        $crate::exchange::work::Lane {
            device: &$part.device,
            bases: &$part.bases,
            stream: $stream,
            trace: &$part.trace,
            round: $part.round,
            transport: $transport,
        }
    };
}
pub(crate) use lane;

/// The state of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartState {
    /// Between exchanges.
    Idle,
    /// The packing is not done, or the receives are not posted yet; `receiving`: they are posted.
    Packing { receiving: bool },
    /// The first messages are sent; others, or neighbours, are missing.
    Travelling,
    /// Everything has arrived.
    Arrived,
    /// Abandoned for good.
    Abandoned,
}

/// Descriptions without repetitions: the chunks of a neighbour mostly have the same size and text.
pub(crate) fn each_once(missing: impl Iterator<Item = (usize, String)>) -> Vec<(usize, String)> {
    missing.fold(Vec::new(), |mut texts, missing| {
        if !texts.contains(&missing) {
            texts.push(missing);
        }
        texts
    })
}
