//! Opens the file of a time line.

use std::fs;
use std::path::Path;

pub(super) use crate::trace::time_line::{RankLine, Span, TimeLine};

use crate::command::failure::Failure;

/// Reads a time line.
///
/// # Errors
/// [`Failure::BadInput`] if there is no file, or it is no time line.
pub(super) fn read(path: &Path) -> Result<TimeLine, Failure> {
    let bad = |problem: String| Failure::BadInput(format!("{}: {problem}", path.display()));
    let bytes = fs::read(path).map_err(|error| {
        bad(format!(
            "expected a time line that a command of haloport has written with --trace, found no file that can be read: \
             {error}"
        ))
    })?;
    TimeLine::from_bytes(&bytes).map_err(|error| bad(error.to_string()))
}
