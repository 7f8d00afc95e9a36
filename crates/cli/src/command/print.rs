//! Prints results as text or as one JSON object.

use std::io::{self, ErrorKind, Write};

use console::Term;
use serde::Serialize;

use crate::command::failure::Failure;
use crate::command::wrap::wrapped;

/// The results of a command.
pub(crate) trait Report: Serialize {
    /// Writes them as text.
    ///
    /// # Errors
    /// Errors of `out`.
    fn write(&self, out: &mut impl Write) -> io::Result<()>;

    /// Prints them to stdout, as one JSON object or as text. Lines for a terminal end between words.
    ///
    /// # Errors
    /// As for [`to_stdout`].
    fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            let object = serde_json::to_string(self)?;
            to_stdout(|out| writeln!(out, "{object}"))
        } else {
            let mut text = Vec::new();
            self.write(&mut text)?;
            let text = String::from_utf8_lossy(&text);
            to_stdout(|out| out.write_all(wrapped(&text, &Term::stdout()).as_bytes()))
        }
    }
}

/// Writes to stdout. If its reader has gone, as `head` does, the rest is dropped without an error.
///
/// # Errors
/// [`Failure::Run`] if stdout cannot be written.
pub(crate) fn to_stdout(
    write: impl FnOnce(&mut io::StdoutLock<'_>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Run(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
