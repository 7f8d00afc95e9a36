//! Work of a fixed amount, which takes longer if something else takes the core, as the interior of a model does; or of a fixed time.

use std::hint::black_box;
use std::time::{Duration, Instant};

use haloport::{Communicator, Reduction};

use crate::bench::contestant::Contestant;
use crate::command::failure::Failure;

/// The exchanges, each with its work, that count as one in a batch.
pub(super) const STEPS: usize = 4;

/// Sweeps over values in the first cache of a core.
#[derive(Debug, Clone)]
pub(super) struct Work {
    values: Vec<f64>,
    sweeps: usize,
    /// In place of the sweeps: how long it lasts.
    time: Option<Duration>,
}

/// The parts of the work between which a program that makes progress itself looks at its exchange.
const PARTS: usize = 20;

impl Work {
    /// Collective: work that takes the quickest rank `microseconds`; the same on every rank.
    ///
    /// # Errors
    /// [`Failure::Run`] if the ranks cannot communicate.
    pub(super) fn lasting(microseconds: u64, comm: &Communicator) -> Result<Work, Failure> {
        let mut work = Work { values: vec![1.0; 1024], sweeps: 4096, time: None };
        let mut seconds = f64::INFINITY;
        for _ in 0..10 {
            let begin = Instant::now();
            work.all();
            seconds = seconds.min(begin.elapsed().as_secs_f64());
        }
        let sweeps = work.sweeps as f64 * microseconds as f64 * 1e-6 / seconds.max(1e-9);
        work.sweeps = comm.all_reduce(sweeps, Reduction::Max)?.round().max(PARTS as f64) as usize;
        Ok(work)
    }

    /// Work that takes `microseconds` by the clock, whatever else takes the core.
    pub(super) fn by_clock(microseconds: u64) -> Work {
        Work { values: vec![1.0; 1024], sweeps: 0, time: Some(Duration::from_micros(microseconds)) }
    }

    /// All of it.
    pub(super) fn all(&mut self) {
        self.part(0, 1);
    }

    /// All of it in parts, and `between` after each.
    pub(super) fn in_parts(&mut self, mut between: impl FnMut()) {
        for part in 0..PARTS {
            self.part(part, PARTS);
            between();
        }
    }

    /// Part number `part` of `parts`.
    fn part(&mut self, part: usize, parts: usize) {
        let Some(time) = self.time else {
            return self.sweep(self.sweeps * (part + 1) / parts - self.sweeps * part / parts);
        };
        let (begin, time) = (Instant::now(), time / parts as u32);
        while begin.elapsed() < time {
            self.sweep(1);
        }
    }

    /// The same code in one go and in parts.
    #[inline(never)]
    fn sweep(&mut self, sweeps: usize) {
        for _ in 0..sweeps {
            for value in &mut self.values {
                *value = *value * 0.999 + 0.001;
            }
            black_box(&mut self.values);
        }
    }
}

/// The work alone, without an exchange.
impl Contestant for Work {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        (0..batch * STEPS).for_each(|_| self.all());
        Ok(())
    }
}
