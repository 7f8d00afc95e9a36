//! How results are printed: for people, or as one JSON object.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// The results of a command.
pub(crate) trait Report: Serialize {
    /// Writes them as text.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    fn write(&self, out: &mut impl Write) -> io::Result<()>;

    /// Prints them to stdout, as one JSON object or as text.
    ///
    /// # Errors
    /// [`Failure::Run`] where stdout cannot be written.
    fn print(&self, json: bool) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if json {
            writeln!(out, "{}", serde_json::to_string(self)?)?;
        } else {
            self.write(&mut out)?;
        }
        Ok(())
    }
}
