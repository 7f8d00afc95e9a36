//! The endings of the names of written files: one rule for all commands.
//!
//! A file is written in one format alone, and may have any name that does not end in another format.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

/// Endings that stand for a format.
const FORMATS: [&str; 14] =
    ["csv", "gif", "gz", "jpeg", "jpg", "json", "msh", "npz", "pdf", "png", "svg", "txt", "webp", "zip"];

/// Reads the name of a file that is written in the format which the ending `own` stands for.
pub(crate) fn named(own: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(move |path| match other_format(&path, own) {
        None => Ok(path),
        Some(other) => Err(format!("expected a name that ends in .{own}, found .{}", other.display())),
    })
}

/// The ending of the name, if it stands for a format other than that of the ending `own`.
fn other_format<'p>(path: &'p Path, own: &str) -> Option<&'p OsStr> {
    let is = |ending: &OsStr, format: &str| ending.eq_ignore_ascii_case(format);
    let other = path.extension().filter(|ending| !is(ending, own))?;
    FORMATS.iter().any(|format| is(other, format)).then_some(other)
}
