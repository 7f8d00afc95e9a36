//! The inputs of a job, read once for all ranks of a process.

use std::fmt::Display;
use std::path::Path;
use std::sync::OnceLock;

use crate::command::failure::Failure;

/// The inputs, or the reason why there are none.
pub(crate) type Inputs<P> = OnceLock<Result<P, String>>;

/// Returns the inputs; the first call reads them.
///
/// # Errors
/// [`Failure::BadInput`] with the error of `read`, at every call.
pub(crate) fn shared<P, E: Display>(
    inputs: &Inputs<P>,
    read: impl FnOnce() -> Result<P, E>,
) -> Result<&P, Failure> {
    let read = inputs.get_or_init(|| read().map_err(|error| error.to_string()));
    read.as_ref().map_err(|error| Failure::BadInput(error.clone()))
}

/// The text of an error about a file, with the file's path unless the error names it.
pub(crate) fn about_file(path: &Path, error: &impl Display) -> String {
    let (path, text) = (path.display().to_string(), error.to_string());
    if text.contains(&path) { text } else { format!("{path}: {text}") }
}
