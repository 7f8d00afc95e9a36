//! The progress bar.

use std::fmt;
use std::time::Duration;

use console::Term;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::command::wrap::{columns, shortened};

/// A bar on standard error; hidden if that is no terminal, or `shown` is false.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar over simulated seconds.
    pub(crate) fn simulated(end: f64, what: &'static str, shown: bool) -> Progress {
        let width =
            columns(&Term::stderr()).filter(|&columns| columns < WIDE).map_or(WIDE_BAR, |_| NARROW_BAR);
        let template = format!("{{prefix:>14}} {{bar:{width}.cyan/blue}} {{told}}");
        let progress = Progress::new(what, shown, &template, NAME + width + 1);
        progress.bar.set_length(position(end));
        progress
    }

    /// A spinner, for work whose end is unknown.
    pub(crate) fn steps(shown: bool) -> Progress {
        Progress::new("checking", shown, "{prefix:>14} {spinner:.cyan} {msg}", SPINNER)
    }

    /// A hidden bar.
    pub(crate) fn hidden() -> Progress {
        Progress::steps(false)
    }

    /// `before` is the number of columns before the texts.
    fn new(what: &'static str, shown: bool, template: &str, before: usize) -> Progress {
        let target =
            if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(
            style
                .progress_chars("━╸─")
                .with_key("told", move |state: &ProgressState, text: &mut dyn fmt::Write| {
                    told(state, text, before)
                }),
        );
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
        }
    }

    /// Shows a message, as much of it as the terminal has room for.
    pub(crate) fn say(&self, what: impl AsRef<str>) {
        if !self.bar.is_hidden() {
            let room = room(SPINNER).unwrap_or(usize::MAX);
            self.bar.set_message(shortened(what.as_ref(), room).into_owned());
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

/// The columns from which on a terminal shows the wide bar, and the widths of the bars.
const WIDE: usize = 96;
const WIDE_BAR: usize = 30;
const NARROW_BAR: usize = 10;

/// The columns of the name and the blank after it, and the same with the spinner.
const NAME: usize = 15;
const SPINNER: usize = NAME + 2;

/// The columns that the terminal has left after `before`; `None` if it does not tell.
fn room(before: usize) -> Option<usize> {
    columns(&Term::stderr()).map(|columns| columns.saturating_sub(before))
}

fn position(seconds: f64) -> u64 {
    (seconds * PER_SECOND).round() as u64
}

/// Writes the simulated time and an estimate of the time left, as much of it as the terminal has room for.
fn told(state: &ProgressState, text: &mut dyn fmt::Write, before: usize) {
    let [time, end] = [state.pos(), state.len().unwrap_or_default()].map(|at| clock(at as f64 / PER_SECOND));
    let parts = [format!("{time} of {end}"), " simulated".into(), left(state)];
    let mut room = room(before).unwrap_or(usize::MAX);
    for part in parts {
        let Some(rest) = room.checked_sub(part.len()) else { break };
        room = rest;
        // An error means that it is not shown.
        let _ = text.write_str(&part);
    }
}

/// An estimate of the time left, once a second has passed.
fn left(state: &ProgressState) -> String {
    let (elapsed, done) = (state.elapsed().as_secs_f64(), f64::from(state.fraction()));
    let left = Duration::try_from_secs_f64(elapsed * (1.0 - done) / done);
    match left {
        Ok(left) if elapsed > 1.0 && done > 0.0 => format!(", {} left", HumanDuration(left)),
        _ => String::new(),
    }
}

/// Seconds as hours, minutes and seconds.
pub(crate) fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
