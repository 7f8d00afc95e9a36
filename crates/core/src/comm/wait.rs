//! How long a rank waits for others, when it warns, and when it asks whether to stop.

use std::env::{self, VarError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::log;
use crate::transport::TransportError;

/// The default time after which a wait for other ranks ends with an error: 30 minutes.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(30 * 60);

/// The default time after which a wait for other ranks logs a warning: 60 s.
pub const DEFAULT_WARN_AFTER: Duration = Duration::from_secs(60);

/// A function that returns `true` if a wait should end; see
/// [`set_interrupt`](crate::Communicator::set_interrupt).
pub type InterruptCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// The time from the beginning of a wait to the first call of its [`InterruptCheck`], and between two calls.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// The time limit of new communicators: in seconds, or `none`.
const TIME_LIMIT_VARIABLE: &str = "HALOPORT_TIME_LIMIT";

/// The time after which new communicators warn: in seconds, or `none`.
const WARN_AFTER_VARIABLE: &str = "HALOPORT_WARN_AFTER";

/// The limits of each wait; `None` for never.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimits {
    /// After this time a warning names the missing ranks, once.
    pub(crate) warn_after: Option<Duration>,
    /// After this time the wait ends with an error.
    pub(crate) time_limit: Option<Duration>,
}

impl Default for WaitLimits {
    fn default() -> WaitLimits {
        WaitLimits { warn_after: Some(DEFAULT_WARN_AFTER), time_limit: Some(DEFAULT_TIME_LIMIT) }
    }
}

impl WaitLimits {
    /// The limits that the environment sets, or the defaults.
    pub(crate) fn from_environment() -> Result<WaitLimits, TransportError> {
        let WaitLimits { warn_after, time_limit } = WaitLimits::default();
        Ok(WaitLimits {
            warn_after: read(WARN_AFTER_VARIABLE, warn_after)?,
            time_limit: read(TIME_LIMIT_VARIABLE, time_limit)?,
        })
    }
}

/// The time that an environment variable sets; `default` if it is not set.
fn read(name: &'static str, default: Option<Duration>) -> Result<Option<Duration>, TransportError> {
    let found = match env::var(name) {
        Ok(found) => found,
        Err(VarError::NotPresent) => return Ok(default),
        Err(VarError::NotUnicode(found)) => found.to_string_lossy().into_owned(),
    };
    parse(&found).ok_or(TransportError::Variable { name, found })
}

/// A number of seconds above 0, or `none`.
fn parse(text: &str) -> Option<Option<Duration>> {
    if text == "none" {
        return Some(None);
    }
    let time = Duration::try_from_secs_f64(text.parse().ok()?).ok()?;
    (!time.is_zero()).then_some(Some(time))
}

/// The reason of a wait: its description, and the missing ranks.
#[derive(Debug)]
pub(crate) struct Missing {
    /// In words.
    pub(crate) what: String,
    /// The missing ranks, ascending, as far as they are known.
    pub(crate) ranks: Vec<usize>,
}

impl Missing {
    /// `ranks` are in any order, and may be repeated.
    pub(crate) fn new(what: impl Into<String>, mut ranks: Vec<usize>) -> Missing {
        ranks.sort_unstable();
        ranks.dedup();
        Missing { what: what.into(), ranks }
    }
}

/// Measures one wait.
#[derive(Debug)]
pub(crate) struct WaitClock {
    limits: WaitLimits,
    /// The first reading.
    since: Option<Instant>,
    warned: bool,
}

impl WaitClock {
    pub(crate) fn new(limits: WaitLimits) -> WaitClock {
        WaitClock { limits, since: None, warned: false }
    }

    /// Lets the wait begin anew at the next reading.
    pub(crate) fn restart(&mut self) {
        self.since = None;
    }

    /// Reads the clock; the first reading begins the wait. Returns the time limit if it has passed. If the wait is
    /// long, logs once that `rank` waits for what is `missing`.
    pub(crate) fn is_over(&mut self, rank: usize, missing: impl Fn() -> Missing) -> Option<Duration> {
        let WaitLimits { warn_after, time_limit } = self.limits;
        let now = Instant::now();
        let waited = now.duration_since(*self.since.get_or_insert(now));
        let over = time_limit.filter(|limit| waited > *limit);
        if over.is_none() && !self.warned && warn_after.is_some_and(|after| waited > after) {
            self.warned = true;
            let end = match time_limit {
                Some(limit) => format!("gives up after {:.1} s", limit.as_secs_f64()),
                None => "has no time limit".to_string(),
            };
            let (waited, Missing { what, .. }) = (waited.as_secs_f64(), missing());
            log::warning(format_args!("rank {rank} has waited {waited:.1} s for {what}; it {end}"));
        }
        over
    }
}

/// Says when one wait calls its [`InterruptCheck`].
#[derive(Debug, Default)]
pub(crate) struct CheckTimer {
    /// The last call; before it, the first reading.
    last: Option<Instant>,
}

impl CheckTimer {
    /// Reads the clock; the first reading begins the wait. Returns whether a call is due, which then counts as made.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now.duration_since(*self.last.get_or_insert(now)) >= CHECK_EVERY;
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_above_zero_or_none() {
        assert_eq!(parse("none"), Some(None));
        assert_eq!(parse("1800"), Some(Some(Duration::from_secs(1800))));
        assert_eq!(parse("0.25"), Some(Some(Duration::from_millis(250))));
        for broken in ["", "0", "-1", "inf", "NaN", "60s", "1e300", "never", " 1"] {
            assert_eq!(parse(broken), None, "{broken:?}");
        }
    }
}
