//! The time that ranks wait for each other.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use haloport::Communicator;

/// `--time-limit` and `--warn-after`, for every command that runs on ranks.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct WaitingArgs {
    /// Seconds that a rank waits for others before it ends with an error, or `none` [default: HALOPORT_TIME_LIMIT,
    /// else 1800]
    #[arg(long, value_name = "SECONDS")]
    time_limit: Option<Limit>,
    /// Seconds that a rank waits for others before it warns, once in each wait, or `none` [default:
    /// HALOPORT_WARN_AFTER, else 60]
    #[arg(long, value_name = "SECONDS")]
    warn_after: Option<Limit>,
}

impl WaitingArgs {
    /// Sets the limits that are given.
    pub(crate) fn apply(&self, comm: &Communicator) {
        if let Some(Limit(limit)) = self.time_limit {
            comm.set_time_limit(limit);
        }
        if let Some(Limit(time)) = self.warn_after {
            comm.set_warn_after(time);
        }
    }
}

/// The values that a limit may have.
pub(crate) const LIMITS: &str = "a number of seconds above 0, or `none`";

/// A time; `None` for no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit(Option<Duration>);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, Self::Err> {
        if text == "none" {
            return Ok(Limit(None));
        }
        let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let time = time.filter(|time| !time.is_zero());
        time.map(|time| Limit(Some(time))).ok_or_else(|| format!("expected {LIMITS}"))
    }
}
