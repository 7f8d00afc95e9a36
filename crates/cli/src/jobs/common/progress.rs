//! The progress bar.

use std::fmt;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// A bar on standard error; hidden if that is no terminal, or `shown` is false.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar over simulated seconds.
    pub(crate) fn simulated(end: f64, what: &'static str, shown: bool) -> Progress {
        let progress = Progress::new(what, shown, "{prefix:>14} {bar:30.cyan/blue} {msg}{left}");
        progress.bar.set_length(position(end));
        progress
    }

    /// A spinner, for work whose end is unknown.
    pub(crate) fn steps(shown: bool) -> Progress {
        Progress::new("checking", shown, "{prefix:>14} {spinner:.cyan} {msg}")
    }

    /// A hidden bar.
    pub(crate) fn hidden() -> Progress {
        Progress::steps(false)
    }

    fn new(what: &'static str, shown: bool, template: &str) -> Progress {
        let target =
            if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━╸─").with_key("left", left));
        bar.set_prefix(what);
        if shown {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress { bar }
    }

    /// Shows the simulated time.
    pub(crate) fn at(&self, time: f64) {
        if !self.bar.is_hidden() {
            self.bar.set_position(position(time));
            let end = self.bar.length().unwrap_or_default() as f64 / PER_SECOND;
            self.bar.set_message(format!("{} of {} simulated", clock(time), clock(end)));
        }
    }

    /// Shows a message.
    pub(crate) fn say(&self, what: impl Into<String>) {
        if !self.bar.is_hidden() {
            self.bar.set_message(what.into());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Positions of the bar per simulated second, so that the shortest time step moves it.
const PER_SECOND: f64 = 1e6;

fn position(seconds: f64) -> u64 {
    (seconds * PER_SECOND).round() as u64
}

/// Writes an estimate of the time left, once a second has passed.
fn left(state: &ProgressState, text: &mut dyn fmt::Write) {
    let (elapsed, done) = (state.elapsed().as_secs_f64(), f64::from(state.fraction()));
    let left = Duration::try_from_secs_f64(elapsed * (1.0 - done) / done);
    if let (true, Ok(left)) = (elapsed > 1.0 && done > 0.0, left) {
        // An error means that it is not shown.
        let _ = write!(text, ", {} left", HumanDuration(left));
    }
}

/// Seconds as hours, minutes and seconds.
pub(crate) fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
