//! How a command ends when it does not end well.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use haloport::RanksError;

/// Why a command ends without its result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What the user asked for cannot be done: exit code 2.
    BadInput(String),
    /// It was tried and failed: exit code 1.
    Run(String),
    /// A check failed, which the printed report says as well: exit code 1.
    Check(String),
    /// The command line's own text: help, the version, or what is wrong with an argument.
    Usage(clap::Error),
}

impl Failure {
    /// Tells the user, and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        ExitCode::from(u8::try_from(self.tell()).unwrap_or(1))
    }

    /// As [`report`](Failure::report), with the exit code as a number.
    pub(crate) fn tell(&self) -> i32 {
        match self {
            // If the text cannot be shown either, nobody is there to be told.
            Failure::Usage(error) if is_help(error) => {
                let _ = error.print();
                error.exit_code()
            }
            Failure::Run(_) | Failure::Check(_) => self.tell_error(1),
            Failure::BadInput(_) | Failure::Usage(_) => self.tell_error(2),
        }
    }

    /// Writes the error: a line on stderr, and with `--json` also the one object on stdout, where there is none yet.
    fn tell_error(&self, code: i32) -> i32 {
        // If nobody reads it, there is nothing else to be done. In one piece: a launcher mixes the lines of processes.
        let _ = io::stderr().write_all(format!("error: {self}\n").as_bytes());
        // Also where the arguments could not be understood.
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

/// What the libraries below report is a failed run, unless the command says otherwise.
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
    haloport::BindError,
    haloport::ExchangeError,
    haloport::FieldError,
    haloport::PatternError,
    haloport::SparseError,
    haloport::TransportError,
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

/// The message of a clap error without the usage and the hint after it.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let told: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    told.join(" ").replace(" tip: ", "; ").trim_start_matches("error: ").to_string()
}
