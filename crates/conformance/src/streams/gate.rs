//! Waiting that ends: gates that open by themselves, and flags of the test.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use haloport_core::device::{Device, DeviceError, offered};

use crate::Failure;

/// How long a call that waits for nothing may take on a busy machine.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(20);

/// Puts a gate into a stream of a device that has them.
pub(crate) fn gate<D: Device>(
    device: &D,
    stream: &D::Stream,
) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
    offered(device.gates(), "gates", device.id())?.gate(stream)
}

/// A gate that opens by itself after [`CALL_LIMIT`], so that a call that waits for it ends.
pub(super) struct TimedGate {
    close: mpsc::Sender<()>,
    watch: thread::JoinHandle<bool>,
}

impl TimedGate {
    pub(super) fn new(open: Box<dyn FnOnce() + Send>) -> TimedGate {
        let (close, closed) = mpsc::channel();
        let watch = thread::spawn(move || {
            let in_time = closed.recv_timeout(CALL_LIMIT) != Err(mpsc::RecvTimeoutError::Timeout);
            open();
            in_time
        });
        TimedGate { close, watch }
    }

    /// Opens the gate, and returns whether it was still closed.
    pub(super) fn open(self) -> Result<bool, Failure> {
        drop(self.close);
        Ok(self.watch.join().map_err(|_| "the thread that opens the gate panicked")?)
    }
}

/// Waits until another rank, a thread of this process, has set a flag; at most a minute.
pub(super) fn wait_until_set(flag: &AtomicBool) {
    let begin = Instant::now();
    while !flag.load(Ordering::SeqCst) && begin.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(1));
    }
}
