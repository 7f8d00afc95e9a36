//! The order of work: clocks of streams and of the host. An access that nothing orders with another one is a fault.
//!
//! Threads of the host hand work to each other in ways that a driver cannot see. Therefore they count as one line, which
//! follows all that any of them has waited for, and all that a stream has written into memory of the host.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use haloport_cuda_races::{Clock, Line, Lines, Race, Reports, Shadow, Words};

use crate::settings::settings;

static LINES: LazyLock<Lines> = LazyLock::new(Lines::default);
static HOST: LazyLock<Mutex<Clock>> = LazyLock::new(Mutex::default);
static REPORTS: LazyLock<Reports> = LazyLock::new(|| Reports::new(20));

/// The numbers that streams write and wait for.
pub(crate) static WORDS: LazyLock<Words> = LazyLock::new(Words::default);

fn lock_host() -> MutexGuard<'static, Clock> {
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clock of the host: the works that it has seen until now.
pub(crate) fn host() -> Clock {
    lock_host().clone()
}

/// Lets the next work of the host follow the works of a clock.
pub(crate) fn host_follows(clock: &Clock) {
    lock_host().join(clock);
}

/// A line that begins after these works.
pub(crate) fn line_after(clock: &Clock) -> Line {
    LINES.open(clock)
}

/// The accesses to an allocation, if they are watched.
pub(crate) fn shadow(address: usize, bytes: usize) -> Option<Shadow> {
    settings().finds_races.then(|| Shadow::new(format!("the allocation at {address:#x}"), bytes))
}

/// The message of a race, for the first one of the same two pieces of work.
pub(crate) fn first_message(race: Race) -> Option<String> {
    let text = race.to_string();
    REPORTS.add(race).then_some(text)
}
