//! The bytes that exchanges move, and the time that they take.

use std::time::{Duration, Instant};

use haloport::comm::{TransportError, TransportInfo};
use haloport::device::DeviceInfo;
use haloport::exchange::{FieldSet, StepError, Traffic};
use haloport::{Communicator, Error, Exchange, Reduction, Schedule};
use serde::Serialize;

/// The bytes that one exchange moves, summed over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// In messages.
    pub message_bytes: u64,
    /// Of these, in messages that are staged in chunks.
    pub chunked_bytes: u64,
    /// Of these, in messages that streams send.
    pub stream_message_bytes: u64,
    /// Through memory that neighbours share.
    pub shared_bytes: u64,
    /// Copied straight from neighbours' fields.
    pub direct_bytes: u64,
}

impl Moved {
    /// Collective: the bytes that one run of `exchange` moves, on every rank.
    ///
    /// # Errors
    /// [`TransportError`].
    pub fn of<F>(comm: &Communicator, exchange: &Exchange<F>) -> Result<Moved, TransportError> {
        let traffic = exchange.traffic();
        let mut sums = [
            traffic.message_bytes,
            traffic.chunked_bytes,
            traffic.stream_message_bytes,
            traffic.shared_bytes,
            traffic.direct_bytes,
        ]
        .map(|bytes| bytes as u64);
        comm.all_reduce(&mut sums, Reduction::Sum)?;
        let [message_bytes, chunked_bytes, stream_message_bytes, shared_bytes, direct_bytes] = sums;
        Ok(Moved { message_bytes, chunked_bytes, stream_message_bytes, shared_bytes, direct_bytes })
    }

    /// The sum of all paths.
    pub fn bytes(&self) -> u64 {
        self.message_bytes + self.shared_bytes + self.direct_bytes
    }

    /// The path to other ranks and the reason, in words.
    pub fn path(&self, device: &DeviceInfo, transport: &TransportInfo) -> String {
        let path = Traffic {
            direct_bytes: self.direct_bytes as usize,
            shared_bytes: self.shared_bytes as usize,
            message_bytes: self.message_bytes as usize,
            chunked_bytes: self.chunked_bytes as usize,
            stream_message_bytes: self.stream_message_bytes as usize,
            ..Traffic::default()
        }
        .path();
        if self.message_bytes > self.stream_message_bytes && !device.runs_on_host() {
            format!("{path}: {}", in_messages(device, transport))
        } else {
            path
        }
    }
}

/// The path of messages from a device's memory to the transport and the reason, in words.
pub fn in_messages(device: &DeviceInfo, transport: &TransportInfo) -> &'static str {
    match (device.host_accessible, transport.takes_memory_of(&device.id)) {
        (true, _) => "in messages from the device's memory, which the host reaches",
        (false, true) => "in messages from the device's memory, which the transport takes",
        (false, false) if transport.name == "mpi" && device.id.backend == "cuda" => {
            "in messages packed into pinned memory, large ones in chunks, since this MPI does not say that it takes \
             the device's (HALOPORT_MPI_CUDA=1 says so for it)"
        }
        (false, false) => "in messages packed into pinned memory, large ones in chunks",
    }
}

/// Runs an exchange as [`Exchange::overlap`] does, and returns the time that this rank spent in the exchange alone.
///
/// # Errors
/// As for [`Exchange::overlap`].
pub fn timed_overlap<'s, F: FieldSet>(
    exchange: &mut Exchange<F>,
    order: impl Into<Schedule<'s>>,
    interior: impl FnOnce() -> Result<(), Error>,
    boundary: impl FnOnce() -> Result<(), Error>,
) -> Result<Duration, StepError> {
    let (began, mut beside) = (Instant::now(), Duration::ZERO);
    exchange.overlap_on(
        order,
        &mut beside,
        |_, beside| timed(interior, beside),
        |_, beside| timed(boundary, beside),
    )?;
    Ok(began.elapsed().saturating_sub(beside))
}

/// Runs `work` and adds its time to `sum`.
fn timed<T>(work: impl FnOnce() -> T, sum: &mut Duration) -> T {
    let began = Instant::now();
    let done = work();
    *sum += began.elapsed();
    done
}

/// Collective: times of this rank, summed over all ranks.
///
/// # Errors
/// [`TransportError`].
pub fn total<const N: usize>(
    comm: &Communicator,
    times: [Duration; N],
) -> Result<[Duration; N], TransportError> {
    let mut nanoseconds = times.map(|time| time.as_nanos() as u64);
    comm.all_reduce(&mut nanoseconds, Reduction::Sum)?;
    Ok(nanoseconds.map(Duration::from_nanos))
}
