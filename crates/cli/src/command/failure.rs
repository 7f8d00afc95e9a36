//! Failures, and how they are reported.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use console::Term;
use haloport::comm::RanksError;

use crate::command::wrap::wrapped;

/// The reason why a command has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user's input cannot be used: exit code 2.
    BadInput(String),
    /// The work failed: exit code 1.
    Run(String),
    /// A check failed, as the printed report says, too: exit code 1.
    Check(String),
    /// A text of the argument parser: help, the version, or an error in an argument.
    Usage(clap::Error),
}

impl Failure {
    /// Prints the failure and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        ExitCode::from(u8::try_from(self.tell()).unwrap_or(1))
    }

    /// As [`report`](Failure::report), with the exit code as a number.
    pub(crate) fn tell(&self) -> i32 {
        match self {
            // If the text cannot be written, nothing is left to do.
            Failure::Usage(error) if is_help(error) => {
                let _ = error.print();
                error.exit_code()
            }
            Failure::Run(_) | Failure::Check(_) => self.tell_error(1),
            Failure::BadInput(_) | Failure::Usage(_) => self.tell_error(2),
        }
    }

    /// Writes the error as a line on stderr and, with `--json`, as the one object on stdout if there is none yet.
    fn tell_error(&self, code: i32) -> i32 {
        // If it cannot be written, nothing is left to do. One write, since a launcher mixes the lines of processes.
        let line = format!("error: {self}\n");
        let _ = io::stderr().write_all(wrapped(&line, &Term::stderr()).as_bytes());
        // Read here, since the arguments may not have been understood.
        let json = std::env::args_os().any(|argument| argument == "--json");
        if json && !matches!(self, Failure::Check(_)) {
            let object = serde_json::json!({ "error": self.to_string() });
            let _ = writeln!(io::stdout(), "{object}");
        }
        code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::BadInput(text) | Failure::Run(text) | Failure::Check(text) => f.write_str(text),
            Failure::Usage(error) => f.write_str(&one_line(&error.to_string())),
        }
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        Failure::Usage(error)
    }
}

impl std::error::Error for Failure {}

impl From<RanksError> for Failure {
    fn from(error: RanksError) -> Failure {
        let (rank, error) = match error {
            RanksError::Failed { rank, error } => (rank, error),
            other => return Failure::Run(other.to_string()),
        };
        match error.downcast::<Failure>() {
            Ok(failure) if !matches!(*failure, Failure::Run(_)) => *failure,
            Ok(failure) => Failure::Run(format!("rank {rank}: {failure}")),
            Err(error) => Failure::Run(format!("rank {rank}: {error}")),
        }
    }
}

/// Turns errors of the libraries into [`Failure::Run`].
macro_rules! run_failures {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for $crate::command::failure::Failure {
            fn from(error: $error) -> Self {
                Self::Run(error.to_string())
            }
        })*
    };
}

pub(crate) use run_failures;

run_failures!(
    haloport::Error,
    haloport::exchange::BindError,
    haloport::exchange::ExchangeError,
    haloport::field::FieldError,
    haloport::pattern::PatternError,
    haloport::sparse::SparseError,
    haloport::comm::TransportError,
    haloport::device::DeviceError,
    serde_json::Error,
    std::io::Error,
);

fn is_help(error: &clap::Error) -> bool {
    use clap::error::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// The message of a clap error, without the usage and the hint after it.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let told: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    told.join(" ").replace(" tip: ", "; ").trim_start_matches("error: ").to_string()
}
