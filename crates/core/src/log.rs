//! Warnings, and errors that no call returns: where they go.
//!
//! If the program has set a subscriber of `tracing`, they are events like all others of the library, which the subscriber
//! filters. Otherwise they go to the function that [`set_sink`] has set, or to standard error, one line each; there,
//! the environment variable `HALOPORT_LOG` chooses: `warn` (the default), `error` for errors alone, or `off`.

use std::fmt;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed that no call reports.
    Error,
    /// Work goes on, but differently from what the program may expect, or later.
    Warning,
}

/// Takes lines. It is called on any thread, even while locks of the library are held: it must not call the library, and
/// must not wait for a thread that does.
pub type Sink = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// Takes the lines in place of standard error; `None` for standard error again.
pub fn set_sink(sink: Option<Sink>) {
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = sink;
}

/// Writes a warning.
pub fn warning(text: fmt::Arguments<'_>) {
    if tracing::dispatcher::has_been_set() { tracing::warn!("{text}") } else { write(Level::Warning, text) }
}

/// Writes an error.
pub fn error(text: fmt::Arguments<'_>) {
    if tracing::dispatcher::has_been_set() { tracing::error!("{text}") } else { write(Level::Error, text) }
}

const VARIABLE: &str = "HALOPORT_LOG";

static SINK: RwLock<Option<Sink>> = RwLock::new(None);

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Error => "error",
            Level::Warning => "warning",
        })
    }
}

fn write(level: Level, text: fmt::Arguments<'_>) {
    static LEAST: OnceLock<Option<Level>> = OnceLock::new();
    let least = LEAST.get_or_init(|| {
        let found = std::env::var(VARIABLE).unwrap_or_default();
        read(&found).unwrap_or_else(|| {
            to_stderr(
                Level::Warning,
                format_args!("{VARIABLE}: expected warn, error or off, found `{found}`"),
            );
            Some(Level::Warning)
        })
    });
    if least.is_none_or(|least| level > least) {
        return;
    }
    let sink = SINK.read().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(sink) = sink else { return to_stderr(level, text) };
    let line = text.to_string();
    if catch_unwind(AssertUnwindSafe(|| sink(level, &line))).is_err() {
        to_stderr(level, text);
    }
}

/// The least severe level that is written, `Some(None)` for none; `None` if the text is none of those expected.
fn read(text: &str) -> Option<Option<Level>> {
    match text {
        "" | "warn" => Some(Some(Level::Warning)),
        "error" => Some(Some(Level::Error)),
        "off" => Some(None),
        _ => None,
    }
}

/// Writes a line to standard error; does nothing if that is closed.
fn to_stderr(level: Level, text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "haloport: {level}: {text}");
}
