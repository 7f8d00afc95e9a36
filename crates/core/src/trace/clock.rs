//! The time axis of a process: nanoseconds of its monotonic clock, with one moment that the wall clock gives too.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The attempts to read both clocks at the same moment.
const TRIES: usize = 20;

static ORIGIN: OnceLock<Origin> = OnceLock::new();

/// The beginning of the axis.
struct Origin {
    instant: Instant,
    /// Nanoseconds since the UNIX epoch.
    wall: u64,
}

/// Nanoseconds since the axis began.
pub(crate) fn now() -> u64 {
    nanoseconds(origin().instant.elapsed())
}

/// A moment of the axis in nanoseconds since the UNIX epoch, which all processes share.
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
