//! Exchanges on a device that fails in one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use haloport_core::device::{Device, DeviceError, Priority};
use haloport_core::exchange::CopiedBy;
use haloport_core::{BindOptions, Communicator, DataPath, run_ranks};

use super::ring::{RankRing, Travel};
use crate::setting::drawn;
use crate::test_devices::altered::{CallAlteration, with_calls};
use crate::{Failure, ensure};

/// The error of a call that was made to fail.
pub(crate) const MADE_TO_FAIL: &str = "it was made to fail";

/// Cells that a rank sends in one exchange.
const CELLS: usize = 1024;

const ROUNDS: i64 = 3;

/// Data paths by name.
const PATHS: [(&str, Travel); 6] = [
    ("in a message", Travel::to_halos(in_messages)),
    ("in a message that is moved", Travel::to_halos(|| in_messages().staging_copy(0))),
    ("in chunks", Travel::to_halos(|| in_messages().staging_chunk(2 * CELLS))),
    ("in chunks that are moved", Travel::to_halos(|| in_messages().staging_chunk(2 * CELLS).staging_copy(0))),
    (
        "straight from the field",
        Travel::to_halos(|| BindOptions::default().prefer(DataPath::Direct).copied_by(CopiedBy::Receiver)),
    ),
    (
        "straight to the halo",
        Travel::to_halos(|| BindOptions::default().prefer(DataPath::Direct).copied_by(CopiedBy::Sender)),
    ),
];

/// The data paths of devices that combine cells, besides.
const REVERSED_PATHS: [(&str, Travel); 2] = [
    ("in a message to the owner", Travel::to_owners(in_messages)),
    ("in a message to the owner that is moved", Travel::to_owners(|| in_messages().staging_copy(0))),
];

fn in_messages() -> BindOptions {
    BindOptions::default().path(DataPath::Messages)
}

/// On three ranks that are threads, makes every call of rank 0's device after binding fail in turn: with messages, with
/// messages in chunks, both also moved by a copy, and with copies from the neighbour's field or to its halo: on one of these
/// ways in the default set of tests ([`drawn`]); then with halos that go to their owners. Rank 0 gets the error of the call,
/// the others either right halos or an error that names a rank; no rank hangs. Returns the number of calls.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn every_call_fails_once<D: Device>(device: &D) -> Result<usize, Failure> {
    let mut calls = 0;
    let reversed = if device.combining().is_some() { drawn(&REVERSED_PATHS) } else { &[] };
    for &(path, travel) in drawn(&PATHS).iter().chain(reversed) {
        let mut number = 1;
        while call_fails(device, travel, number)
            .map_err(|error| format!("{path}: call {number} fails: {error}"))?
        {
            number += 1;
        }
        calls += number as usize - 1;
    }
    Ok(calls)
}

/// Makes call `number` of rank 0 fail; returns `false` if there are fewer calls.
fn call_fails<D: Device>(device: &D, travel: Travel, number: u64) -> Result<bool, Failure> {
    let failed = run_ranks(3, |comm| {
        comm.set_time_limit(Some(Duration::from_secs(10)));
        let faults = Faults::default();
        let faulty = with_calls(device, faults.clone());
        let stream = faulty.create_stream(Priority::Normal)?;
        let mut ring = travel.ring(&comm, &faulty, CELLS)?;
        comm.barrier()?;
        if comm.rank() == 0 {
            faults.fail_at(number);
        }
        let ended = exchanges(&mut ring, &faulty, &stream);
        // Work left in the stream uses the field.
        device.synchronize(&stream)?;
        let failed = comm.rank() == 0 && faults.has_failed();
        judge_end(&comm, failed, &ended)?;
        Ok::<_, Failure>(failed)
    })?;
    Ok(failed.contains(&true))
}

fn exchanges<D: Device>(ring: &mut RankRing<D>, device: &D, stream: &D::Stream) -> Result<(), Failure> {
    for round in 1..=ROUNDS {
        ring.write(round, stream)?;
        ring.exchange.start_on(stream)?.finish_on(stream)?;
        ring.look(stream)?;
        device.synchronize(stream)?;
        ring.exchange.synchronize()?;
        ring.verify(round, stream)?;
    }
    Ok(())
}

fn judge_end(comm: &Communicator, failed: bool, ended: &Result<(), Failure>) -> Result<(), Failure> {
    let text = ended.as_ref().err().map(ToString::to_string);
    let right = match &text {
        Some(error) if failed => error.contains(MADE_TO_FAIL),
        Some(error) => comm.rank() != 0 && error.contains("rank "),
        None => !failed,
    };
    ensure!(right, "rank {} ended with {text:?}", comm.rank());
    Ok(())
}

/// An alteration that makes one call fail. The call does nothing but return the error.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The number of calls until the one that fails; 0: none fails.
    left: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
}

impl Faults {
    /// Makes a later call fail: 1 is the next one.
    pub fn fail_at(&self, number: u64) {
        self.left.store(number, Ordering::SeqCst);
    }

    /// Whether the call was made.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}

impl<D: Device> CallAlteration<D> for Faults {
    fn before(&self, call: &'static str, device: &D) -> Result<(), DeviceError> {
        let next = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) == Ok(1) {
            self.failed.store(true, Ordering::SeqCst);
            return Err(DeviceError::Driver { call, device: device.id(), message: MADE_TO_FAIL.into() });
        }
        Ok(())
    }
}
