//! The axis of time of a process: nanoseconds of its monotonic clock, of which one moment is known by the wall clock.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// How often both clocks are read at first, to find a moment at which they were read together.
const TRIES: usize = 20;

static ORIGIN: OnceLock<Origin> = OnceLock::new();

/// Where the axis begins.
struct Origin {
    instant: Instant,
    /// Nanoseconds since the UNIX epoch.
    wall: u64,
}

/// Nanoseconds since the axis began.
pub(crate) fn now() -> u64 {
    nanoseconds(origin().instant.elapsed())
}

/// A moment of the axis in nanoseconds since the UNIX epoch: what ranks of several processes have in common.
pub(super) fn wall(at: u64) -> u64 {
    origin().wall.saturating_add(at)
}

fn origin() -> &'static Origin {
    ORIGIN.get_or_init(|| {
        let tries = (0..TRIES).map(|_| {
            let before = Instant::now();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let taken = before.elapsed();
            (taken, Origin { instant: before, wall: nanoseconds(wall.saturating_sub(taken / 2)) })
        });
        let closest = tries.min_by_key(|(taken, _)| *taken);
        closest.map_or_else(|| Origin { instant: Instant::now(), wall: 0 }, |(_, origin)| origin)
    })
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
