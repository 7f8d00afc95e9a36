//! Calls of a device that are made to fail, and exchanges with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use haloport_core::device::{Device, DeviceError, MemoryKind, Priority};
use haloport_core::{BindOptions, Communicator, DataPath, Schedule, run_ranks};

use super::ring::RankRing;
use crate::test_devices::altered::{Alteration, Altered};
use crate::{Failure, ensure};

/// What the error of a call that was made to fail says.
const MADE_TO_FAIL: &str = "it was made to fail";

/// Cells that a rank sends in one exchange.
const CELLS: usize = 1024;

const ROUNDS: i64 = 3;

/// A way of cells to neighbours: its name, and the options that choose it.
type NamedPath = (&'static str, fn() -> BindOptions);

const PATHS: [NamedPath; 3] = [
    ("in a message", || BindOptions::default().path(DataPath::Messages)),
    ("in chunks", || BindOptions::default().path(DataPath::Messages).staging_chunk(2 * CELLS)),
    ("straight from the field", || BindOptions::default().path(DataPath::Direct)),
];

/// On three ranks that are threads, makes every call of rank 0's device fail in turn, from the first after binding on, with
/// messages, also in chunks, and with memory that ranks reach in each other. The rank whose call fails gets that error, and
/// the others either right halos or an error that names a rank; nobody hangs. Gives the number of calls.
///
/// # Errors
/// What went otherwise.
pub fn every_call_fails_once<D: Device>(device: &D) -> Result<usize, Failure> {
    let mut calls = 0;
    for (path, options) in PATHS {
        let mut number = 1;
        while call_fails(device, options, number)
            .map_err(|error| format!("{path}: call {number} fails: {error}"))?
        {
            number += 1;
        }
        calls += number as usize - 1;
    }
    Ok(calls)
}

/// Has call `number` of rank 0 fail; `false` where there are not as many.
fn call_fails<D: Device>(device: &D, options: fn() -> BindOptions, number: u64) -> Result<bool, Failure> {
    let came = run_ranks(3, |comm| {
        comm.set_time_limit(Some(Duration::from_secs(10)));
        let faults = Faults::default();
        let faulty = Altered::new(device, faults.clone());
        let stream = faulty.create_stream(Priority::Normal)?;
        let mut ring = RankRing::with_options(&comm, &faulty, options(), CELLS)?;
        comm.barrier()?;
        if comm.rank() == 0 {
            faults.fail_at(number);
        }
        let ended = exchanges(&mut ring, &faulty, &stream);
        // What is left in the stream uses the field.
        device.synchronize(&stream)?;
        let came = comm.rank() == 0 && faults.has_failed();
        judge_end(&comm, came, &ended)?;
        Ok::<_, Failure>(came)
    })?;
    Ok(came.contains(&true))
}

fn exchanges<D: Device>(ring: &mut RankRing<D>, device: &D, stream: &D::Stream) -> Result<(), Failure> {
    for round in 1..=ROUNDS {
        ring.write(round, stream)?;
        ring.exchange.start(Schedule::On(stream))?.finish(Schedule::On(stream))?;
        ring.look(stream)?;
        device.synchronize(stream)?;
        ring.exchange.synchronize()?;
        ring.verify(round, stream)?;
    }
    Ok(())
}

fn judge_end(comm: &Communicator, came: bool, ended: &Result<(), Failure>) -> Result<(), Failure> {
    let said = ended.as_ref().err().map(ToString::to_string);
    let right = match &said {
        Some(error) if came => error.contains(MADE_TO_FAIL),
        Some(error) => comm.rank() != 0 && error.contains("rank "),
        None => !came,
    };
    ensure!(right, "rank {} ended with {said:?}", comm.rank());
    Ok(())
}

/// What makes a call of a device fail, which then does nothing.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The number of the call that fails, counted down; 0: none.
    left: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
}

impl Faults {
    /// Has a later call fail: 1 is the next one.
    pub fn fail_at(&self, number: u64) {
        self.left.store(number, Ordering::SeqCst);
    }

    /// Whether the call came.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}

impl<D: Device> Alteration<D> for Faults {
    type Buffer = D::Buffer;

    fn before(&self, call: &'static str, device: &D) -> Result<(), DeviceError> {
        let next = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) == Ok(1) {
            self.failed.store(true, Ordering::SeqCst);
            return Err(DeviceError::Driver { call, device: device.id(), message: MADE_TO_FAIL.into() });
        }
        Ok(())
    }

    fn allocate(&self, device: &D, bytes: usize, kind: MemoryKind) -> Result<D::Buffer, DeviceError> {
        device.allocate(bytes, kind)
    }

    fn allocate_on(&self, device: &D, bytes: usize, stream: &D::Stream) -> Result<D::Buffer, DeviceError> {
        device.allocate_on(bytes, stream)
    }

    fn export(&self, device: &D, buffer: &D::Buffer) -> Result<Vec<u8>, DeviceError> {
        device.export(buffer)
    }

    unsafe fn import(&self, device: &D, token: &[u8]) -> Result<D::Buffer, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { device.import(token) }
    }
}
