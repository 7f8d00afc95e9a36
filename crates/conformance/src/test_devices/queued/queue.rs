//! Streams: each a thread that does one thing after the other, or the calling thread. And what streams wait for.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

use haloport_core::device::{DeviceError, DeviceId, Stream};

/// A stream: a thread, or the calling thread.
#[derive(Debug, Clone)]
pub struct QueuedStream {
    pub(super) queue: Arc<Queue>,
    pub(super) device: DeviceId,
}

impl Stream for QueuedStream {
    fn handle(&self) -> usize {
        self.queue.number
    }

    fn device(&self) -> DeviceId {
        self.device
    }
}

/// Work of a stream.
pub(super) type Work = Arc<dyn Fn() -> Result<(), DeviceError> + Send + Sync>;

/// A thread, which ends when its stream is dropped and nothing is left to do; without a thread, an immediate stream.
pub(super) struct Queue {
    pub(super) number: usize,
    thread: Option<mpsc::Sender<Work>>,
    /// The first error of its work.
    failed: Arc<Mutex<Option<DeviceError>>>,
    device: DeviceId,
}

/// A point in a stream, which is reached once.
#[derive(Debug, Default)]
pub(super) struct Point {
    reached: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Queue {
    pub(super) fn new(number: usize, device: DeviceId) -> Result<Arc<Queue>, DeviceError> {
        let (sender, receiver) = mpsc::channel::<Work>();
        let failed = Arc::new(Mutex::new(None));
        let errors = Arc::clone(&failed);
        let spawned = thread::Builder::new().name(format!("stream {number}")).spawn(move || {
            for work in receiver {
                run(&work, &errors);
            }
        });
        match spawned {
            Ok(_) => Ok(Arc::new(Queue { number, thread: Some(sender), failed, device })),
            Err(error) => {
                Err(DeviceError::Driver { call: "starting a thread", device, message: error.to_string() })
            }
        }
    }

    pub(super) fn immediate(number: usize, device: DeviceId) -> Arc<Queue> {
        Arc::new(Queue { number, thread: None, failed: Arc::default(), device })
    }

    pub(super) fn is_immediate(&self) -> bool {
        self.thread.is_none()
    }

    pub(super) fn put(&self, work: Work) -> Result<(), DeviceError> {
        let Some(thread) = &self.thread else {
            run(&work, &self.failed);
            return Ok(());
        };
        thread.send(work).map_err(|_| DeviceError::Driver {
            call: "putting work into a stream",
            device: self.device,
            message: "its thread has ended".into(),
        })
    }

    /// Puts a point behind all work.
    pub(super) fn put_point(&self) -> Result<Arc<Point>, DeviceError> {
        let point = Arc::new(Point::default());
        let reached = Arc::clone(&point);
        self.put(Arc::new(move || {
            reached.reach();
            Ok(())
        }))?;
        Ok(point)
    }

    /// Blocks until all work is done, and returns its first error.
    pub(super) fn synchronize(&self) -> Result<(), DeviceError> {
        self.put_point()?.wait();
        lock(&self.failed).clone().map_or(Ok(()), Err)
    }
}

/// Does `work`, and stores its error if it is the first one.
fn run(work: &Work, failed: &Mutex<Option<DeviceError>>) {
    if let Err(error) = work() {
        lock(failed).get_or_insert(error);
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({} of {})", self.number, self.device)
    }
}

impl Point {
    pub(super) fn reach(&self) {
        lock(&self.reached).get_or_insert_with(Instant::now);
        self.changed.notify_all();
    }

    pub(super) fn wait(&self) {
        let reached = lock(&self.reached);
        drop(self.changed.wait_while(reached, |reached| reached.is_none()));
    }

    /// When it was reached.
    pub(super) fn reached(&self) -> Option<Instant> {
        *lock(&self.reached)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
