//! The endings of the names of written files: one rule for all commands.
//!
//! A picture is written in the format that its name ends in; another ending is refused. A file that has one format only
//! may have any name that does not end in another format.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::command::output;
use haloport_demos::drawing::PictureFormat;

/// A file for a picture, and its format.
#[derive(Debug, Clone)]
pub(crate) struct PictureFile {
    pub(crate) path: PathBuf,
    pub(crate) format: PictureFormat,
}

/// Endings that stand for a format.
const FORMATS: [&str; 14] =
    ["csv", "gif", "gz", "jpeg", "jpg", "json", "msh", "npz", "pdf", "png", "svg", "txt", "webp", "zip"];

/// Reads the name of a picture.
pub(crate) fn picture() -> impl TypedValueParser<Value = PictureFile> {
    PathBufValueParser::new().try_map(|path| {
        let format = picture_format(&path)?;
        Ok::<_, String>(PictureFile { path, format })
    })
}

/// Reads the name of a file that is written in one format alone, which the ending `own` stands for.
pub(crate) fn named(own: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(move |path| match other_format(&path, own) {
        false => Ok(path),
        true => Err(format!("expected a name that ends in .{own}, {}", found(&path))),
    })
}

/// The format that the name of a picture ends in; SVG for a pipe or a device whose name has no ending.
fn picture_format(path: &Path) -> Result<PictureFormat, String> {
    match path.extension() {
        Some(ending) if ending.eq_ignore_ascii_case("svg") => Ok(PictureFormat::Svg),
        Some(ending) if ending.eq_ignore_ascii_case("png") => Ok(PictureFormat::Png),
        None if output::is_stream(path) => Ok(PictureFormat::Svg),
        _ => Err(format!("expected a name that ends in .svg or .png, {}", found(path))),
    }
}

/// Whether the name ends in a format other than that of the ending `own`.
fn other_format(path: &Path, own: &str) -> bool {
    let is = |ending: &OsStr, format: &str| ending.eq_ignore_ascii_case(format);
    let ending = path.extension().filter(|ending| !is(ending, own));
    ending.is_some_and(|ending| FORMATS.iter().any(|format| is(ending, format)))
}

fn found(path: &Path) -> String {
    match path.extension() {
        Some(ending) => format!("found .{}", ending.display()),
        None => "found no ending".into(),
    }
}
