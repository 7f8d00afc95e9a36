//! Log lines on standard error: plain sentences, in colour if the terminal shows colours.

use std::env::{self, VarError};
use std::fmt::{self, Write as _};

use console::{Term, style};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::command::failure::Failure;
use crate::command::wrap::wrapped;

/// The variable that chooses log lines.
const VARIABLE: &str = "RUST_LOG";

/// Starts to write log lines: warnings and errors, or those that `RUST_LOG` chooses.
///
/// # Errors
/// [`Failure::BadInput`] if `RUST_LOG` cannot be read.
pub(crate) fn start() -> Result<(), Failure> {
    let filter = filter(env::var(VARIABLE)).map_err(Failure::BadInput)?;
    let fields = debug_fn(|writer, field, value| match field.name() {
        "message" => write!(writer, "{value:?}"),
        name => write!(writer, "{name}: {value:?}"),
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false) // of the fields; `Sentence` colours the level
        .fmt_fields(fields.delimited("; "))
        .event_format(Sentence)
        .init();
    Ok(())
}

/// Reads `RUST_LOG`: a level (`debug`), or levels of parts of the program (`haloport_core=debug`).
fn filter(value: Result<String, VarError>) -> Result<EnvFilter, String> {
    let refuse = |found: &dyn fmt::Display| {
        format!(
            "{VARIABLE}: expected off, error, warn, info, debug or trace, or such levels of parts of the program \
             (warn,haloport_core=debug), found {found}"
        )
    };
    let text = match value {
        Ok(text) => text,
        Err(VarError::NotPresent) => String::new(),
        Err(error @ VarError::NotUnicode(_)) => return Err(refuse(&error)),
    };
    // Any other word would be taken for a part of the program, and hide every warning.
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok() || word.starts_with("haloport");
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let unknown = words.filter(|word| !word.contains(['=', '['])).find(|word| !is_level(word));
    if let Some(word) = unknown {
        return Err(refuse(&format!("`{word}`")));
    }
    match text.trim() {
        "" => Ok(EnvFilter::new("warn")),
        text => EnvFilter::builder().parse(text).map_err(|error| refuse(&format!("`{text}`: {error}"))),
    }
}

/// `warning: there are more ranks than cores; ranks: 8; cores: 2`. Lines for developers name their module, too.
struct Sentence;

impl<S, N> FormatEvent<S, N> for Sentence
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = match *event.metadata().level() {
            Level::ERROR => style("error").red(),
            Level::WARN => style("warning").yellow(),
            Level::INFO => style("info").green(),
            Level::DEBUG => style("debug").blue(),
            Level::TRACE => style("trace").magenta(),
        };
        let mut line = format!("{}: ", level.bold().for_stderr());
        if *event.metadata().level() > Level::INFO {
            write!(line, "{}: ", event.metadata().target())?;
        }
        context.field_format().format_fields(Writer::new(&mut line), event)?;
        writeln!(writer, "{}", wrapped(&line, &Term::stderr()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_parts_are_understood_and_the_rest_is_refused() {
        let of = |text: &str| filter(Ok(text.into())).map(|filter| filter.to_string());
        assert_eq!(of("").unwrap(), "warn");
        for good in
            ["debug", "warn,haloport_core=debug", "haloport", "INFO", "off", "error,haloport_cli=trace"]
        {
            assert!(of(good).is_ok(), "{good}");
        }
        for (bad, part) in
            [("warning", "`warning`"), ("haloport=loud", "`haloport=loud`"), ("warn,all", "`all`")]
        {
            let refusal = of(bad).unwrap_err();
            assert!(refusal.starts_with("RUST_LOG: expected off, ") && refusal.contains(part), "{refusal}");
        }
    }
}
