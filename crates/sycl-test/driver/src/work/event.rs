//! Events, and points that can be waited for.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lock::locked;

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// Whether each command that signals it gives it a new point.
    counts: bool,
    point: Mutex<Arc<Point>>,
}

/// A point that is reached when a command has been done, and may be left again.
#[derive(Default)]
pub(crate) struct Point {
    state: Mutex<State>,
    changed: Condvar,
}

/// The bell of a queue, whose thread looks at its work when it is rung.
pub(crate) trait Ring: Send + Sync {
    fn ring(&self);
}

/// When a command has begun and ended, in nanoseconds.
pub(crate) type Times = [u64; 2];

#[derive(Default)]
struct State {
    reached: Option<Times>,
    waiting: Vec<Arc<dyn Ring>>,
}

impl Event {
    /// An event of a pool, which is not reached; or one that counts, which is.
    pub(crate) fn new(counts: bool) -> Event {
        let point = Arc::<Point>::default();
        if counts {
            point.reach([0; 2]);
        }
        Event { counts, point: Mutex::new(point) }
    }

    /// The point that a command or the host waits for now.
    pub(crate) fn point(&self) -> Arc<Point> {
        Arc::clone(&locked(&self.point))
    }

    /// The point that a command reaches which is given to a list now.
    pub(crate) fn signal(&self) -> Arc<Point> {
        let mut point = locked(&self.point);
        if self.counts {
            *point = Arc::default();
        }
        Arc::clone(&point)
    }

    /// Whether a reset means nothing.
    pub(crate) fn counts(&self) -> bool {
        self.counts
    }
}

impl Point {
    pub(crate) fn reach(&self, times: Times) {
        let waiting = {
            let mut state = locked(&self.state);
            state.reached = Some(times);
            std::mem::take(&mut state.waiting)
        };
        self.changed.notify_all();
        waiting.iter().for_each(|bell| bell.ring());
    }

    pub(crate) fn leave(&self) {
        locked(&self.state).reached = None;
    }

    /// The times of the command; `None` if the point is not reached.
    pub(crate) fn reached(&self) -> Option<Times> {
        locked(&self.state).reached
    }

    /// Rings the bell when the point is reached, unless it is.
    pub(crate) fn tell(&self, bell: &Arc<dyn Ring>) {
        let mut state = locked(&self.state);
        if state.reached.is_some() {
            // A queue looks at points while it holds the lock of its bell.
            drop(state);
            bell.ring();
        } else if !state.waiting.iter().any(|known| Arc::ptr_eq(known, bell)) {
            state.waiting.push(Arc::clone(bell));
        }
    }

    /// Waits for that number of nanoseconds; `u64::MAX` is without end. Whether the point is reached.
    pub(crate) fn wait(&self, nanoseconds: u64) -> bool {
        let end = until(nanoseconds);
        let mut state = locked(&self.state);
        while state.reached.is_none() {
            let left =
                end.map_or(Duration::from_secs(1), |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Point({:?})", self.reached())
    }
}

/// The end of that number of nanoseconds; `None` if there is none.
pub(crate) fn until(nanoseconds: u64) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_nanos(nanoseconds)).filter(|_| nanoseconds < u64::MAX / 2)
}

/// The time of the device and of the host, in nanoseconds.
pub(crate) fn now() -> u64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    // Not 0, which stands for no time.
    START.elapsed().as_nanos() as u64 + 1
}
