//! Panics on the progress thread, on asynchronous devices: the exchange whose callback or device panicked returns an
//! error, and other exchanges go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haloport_core::device::{Device, DeviceError, Priority};
use haloport_core::{BindOptions, Communicator, DataPath};

use super::gate::CALL_LIMIT;
use super::ring::RankRing;
use crate::device::Slow;
use crate::test_devices::altered::{CallAlteration, with_calls};
use crate::{Failure, ensure};

/// Cells that a rank sends in one exchange.
const CELLS: usize = 1024;

/// The time of the kernel before an exchange, so that the progress thread must return to the exchange.
const KERNEL: Duration = Duration::from_millis(30);

/// The message of panics.
const MESSAGE: &str = "out of fish";

/// Collective: the completion callback of an exchange panics on each rank. The exchange returns that as its error, and
/// another exchange works as before.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn callback<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let options = || BindOptions::default().path(DataPath::Messages);
    let panicking = options().on_complete(|_| std::panic::panic_any(MESSAGE));
    let mut broken = RankRing::with_options(comm, device, panicking, CELLS)?;
    let mut whole = RankRing::with_options(comm, device, options(), CELLS)?;
    let slow = Slow::lasting(device, KERNEL)?;
    slow.start(&stream)?;
    broken.exchange.start_on(&stream)?.finish_on(&stream)?;
    device.synchronize(&stream)?;
    let error = error_of(&mut broken)?;
    ensure!(error.contains("callback") && error.contains(MESSAGE), "the exchange returned `{error}`");
    goes_on(&mut whole, device, &stream)?;
    comm.barrier()?;
    Ok(())
}

/// Collective: the device of rank 0 panics while the progress thread calls it. The exchange returns that as its error,
/// the rank that waits for its message gets an error, and another exchange works as before.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn driver<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let options = || BindOptions::default().path(DataPath::Messages);
    let panics = Panics::default();
    let altered = with_calls(device, panics.clone());
    let mut broken = RankRing::with_options(comm, &altered, options(), CELLS)?;
    let mut whole = RankRing::with_options(comm, device, options(), CELLS)?;
    panics.armed.store(comm.rank() == 0, Ordering::SeqCst);
    let slow = Slow::lasting(device, KERNEL)?;
    slow.start(&stream)?;
    let started = broken.exchange.start_on(&stream);
    let ended = started.and_then(|pending| pending.finish_on(&stream));
    device.synchronize(&stream)?;
    // Other ranks wait for no message of rank 0.
    if comm.rank() < 2 {
        let error = match ended {
            Ok(()) => error_of(&mut broken)?,
            Err(error) => error.to_string(),
        };
        let expected = if comm.rank() == 0 { MESSAGE } else { "rank " };
        ensure!(error.contains(expected), "the exchange returned `{error}`");
    }
    goes_on(&mut whole, device, &stream)?;
    comm.barrier()?;
    Ok(())
}

/// The error of a finished exchange, which may come a little later.
fn error_of<D: Device>(ring: &mut RankRing<D>) -> Result<String, Failure> {
    let began = Instant::now();
    while began.elapsed() < CALL_LIMIT {
        if let Err(error) = ring.exchange.synchronize() {
            return Ok(error.to_string());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err("the exchange returned no error".into())
}

/// Runs exchanges that the progress thread ends.
fn goes_on<D: Device>(ring: &mut RankRing<D>, device: &D, stream: &D::Stream) -> Result<(), Failure> {
    let slow = Slow::lasting(device, KERNEL)?;
    for round in 1..=3 {
        ring.write(round, stream)?;
        slow.start(stream)?;
        ring.exchange.start_on(stream)?.finish_on(stream)?;
        ring.look(stream)?;
        device.synchronize(stream)?;
        ring.exchange.synchronize()?;
        ring.verify(round, stream)?;
    }
    Ok(())
}

/// An alteration that panics once, when the progress thread queries an event.
#[derive(Debug, Clone, Default)]
struct Panics {
    armed: Arc<AtomicBool>,
}

impl<D: Device> CallAlteration<D> for Panics {
    fn before(&self, call: &'static str, _device: &D) -> Result<(), DeviceError> {
        let is_there = call == "query" && thread::current().name() == Some("haloport-progress");
        if is_there && self.armed.swap(false, Ordering::SeqCst) {
            std::panic::panic_any(MESSAGE);
        }
        Ok(())
    }
}
