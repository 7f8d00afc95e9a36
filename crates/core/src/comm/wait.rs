//! How long a rank waits for others, and when it says that it does.

use std::env::{self, VarError};
use std::time::{Duration, Instant};

use crate::transport::TransportError;

/// How long a rank waits for others by default before it gives up with an error: 30 minutes.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(30 * 60);

/// How long a rank waits for others by default before it warns: 60 s.
pub const DEFAULT_WARN_AFTER: Duration = Duration::from_secs(60);

/// Sets the time limit of communicators that are made: in seconds, or `none`.
const TIME_LIMIT_VARIABLE: &str = "HALOPORT_TIME_LIMIT";

/// Sets after what time communicators that are made warn: in seconds, or `none`.
const WARN_AFTER_VARIABLE: &str = "HALOPORT_WARN_AFTER";

/// The limits of each wait; `None` for never.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimits {
    /// After this time a warning names those that are waited for, once.
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
    /// The default limits, or those that the environment sets.
    pub(crate) fn from_environment() -> Result<WaitLimits, TransportError> {
        let WaitLimits { warn_after, time_limit } = WaitLimits::default();
        Ok(WaitLimits {
            warn_after: read(WARN_AFTER_VARIABLE, warn_after)?,
            time_limit: read(TIME_LIMIT_VARIABLE, time_limit)?,
        })
    }
}

/// The time that an environment variable gives, or `default` where it is not set.
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

/// Watches one wait.
#[derive(Debug)]
pub(crate) struct WaitClock {
    limits: WaitLimits,
    /// When it was first looked at.
    since: Option<Instant>,
    warned: bool,
}

impl WaitClock {
    pub(crate) fn new(limits: WaitLimits) -> WaitClock {
        WaitClock { limits, since: None, warned: false }
    }

    /// The wait begins anew at the next look.
    pub(crate) fn restart(&mut self) {
        self.since = None;
    }

    /// Looks at the clock; the first look begins the wait. Gives the time limit once it is over. Once in a wait that is
    /// long, warns that `rank` waits for `what`.
    pub(crate) fn is_over(&mut self, rank: usize, what: impl Fn() -> String) -> Option<Duration> {
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
            let (waited, what) = (waited.as_secs_f64(), what());
            tracing::warn!("rank {rank} has waited {waited:.1} s for {what}; it {end}");
        }
        over
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
