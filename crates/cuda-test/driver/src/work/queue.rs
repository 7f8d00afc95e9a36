//! A hardware queue: what is put into it is done in order, by a thread of its own. Streams may share one; then work that
//! waits in one stream holds back the others, as on a GPU.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::lane::Lane;
use crate::order::host;
use crate::settings::settings;
use crate::status::{OUT_OF_MEMORY, Status};
use crate::work::job::{Job, Work};
use crate::work::random::Random;

/// The jobs that a queue takes before a call waits for room. Drivers that were seen to wait had about that many.
const MOST_JOBS: usize = 1024;

/// A hardware queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// Whether the thread ends when nothing waits.
    ends: bool,
}

impl Queue {
    /// A queue with its thread.
    pub(crate) fn start() -> Result<Arc<Queue>, Status> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let queue = Arc::new(Queue::default());
        let of_thread = Arc::clone(&queue);
        let number = SERIAL.fetch_add(1, Ordering::Relaxed);
        let thread = std::thread::Builder::new().name(format!("queue {number}"));
        thread
            .spawn(move || of_thread.run(Random::new(settings().seed, number)))
            .map_err(|_| OUT_OF_MEMORY)?;
        Ok(queue)
    }

    /// Puts work of a stream behind the other jobs. Waits for room.
    pub(crate) fn put(&self, lane: &Arc<Lane>, work: Work) {
        let job = Job { lane: Arc::clone(lane), work, host: host() };
        let jobs = self.changed.wait_while(self.jobs(), |jobs| jobs.waiting.len() >= MOST_JOBS);
        jobs.unwrap_or_else(PoisonError::into_inner).waiting.push_back(job);
        self.changed.notify_all();
    }

    /// Ends the thread when all jobs are done.
    pub(crate) fn end(&self) {
        self.jobs().ends = true;
        self.changed.notify_all();
    }

    fn run(&self, mut random: Random) {
        // A queue that ends early would let tests hang.
        let _abort = AbortOnPanic;
        let delay = settings().delay;
        loop {
            let idle = |jobs: &mut Jobs| jobs.waiting.is_empty() && !jobs.ends;
            let mut jobs = self.changed.wait_while(self.jobs(), idle).unwrap_or_else(PoisonError::into_inner);
            let Some(job) = jobs.waiting.pop_front() else { return };
            drop(jobs);
            self.changed.notify_all();
            if !delay.is_zero() {
                let most = delay.as_micros() as u64 + 1;
                std::thread::sleep(Duration::from_micros(random.below(most)));
            }
            job.run();
        }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
