//! Writes the files of all commands.
//!
//! A regular file appears complete or not at all: it gets its name when all of it is written. A device or a pipe is
//! written to directly. A link stays a link: the file that it names is written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// The longest chain of links that is followed, as in Linux.
const MOST_LINKS: usize = 40;

/// Writes a whole file.
///
/// # Errors
/// Errors of the system.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(bytes)?;
    output.finish()
}

/// Checks that a file can be written there. Changes nothing, and opens no pipe, since its reader would see its end.
///
/// # Errors
/// Errors of the system.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    match Target::of(path)? {
        Target::Named(path) => new_file(folder_of(&path)).map(drop),
        Target::AsItIs(_) => Ok(()),
    }
}

/// A file that is being written. If it is dropped unfinished, the file of that name stays as it was.
#[derive(Debug)]
pub(crate) enum Output {
    Named { file: BufWriter<NamedTempFile>, path: PathBuf },
    AsItIs(BufWriter<File>),
}

impl Output {
    /// Opens a file. If the path names a pipe, blocks until it has a reader.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn create(path: &Path) -> io::Result<Output> {
        match Target::of(path)? {
            Target::Named(path) => {
                let file = new_file(folder_of(&path))?;
                if let Ok(found) = fs::metadata(&path) {
                    file.as_file().set_permissions(found.permissions())?;
                }
                Ok(Output::Named { file: BufWriter::new(file), path })
            }
            Target::AsItIs(path) => {
                let file = OpenOptions::new().append(true).open(path)?;
                Ok(Output::AsItIs(BufWriter::new(file)))
            }
        }
    }

    /// Writes what is left, and gives the file its name.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Output::Named { file, path } => {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.persist(path).map(drop).map_err(|error| error.error)
            }
            Output::AsItIs(mut file) => file.flush(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Named { file, .. } => file.write(bytes),
            Output::AsItIs(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Named { file, .. } => file.flush(),
            Output::AsItIs(file) => file.flush(),
        }
    }
}

/// A file that is deleted unless it gets its name.
///
/// # Errors
/// Errors of the system.
pub(crate) fn new_file(folder: &Path) -> io::Result<NamedTempFile> {
    // With the permissions of any other file; temporary files are for the user alone.
    Builder::new().prefix(".unfinished-").make_in(folder, |path| File::create_new(path))
}

/// The kind of file that a path leads to.
enum Target {
    /// A regular file that may be written, or none yet.
    Named(PathBuf),
    /// A device, a pipe, or a file that is open in this process.
    AsItIs(PathBuf),
}

impl Target {
    fn of(path: &Path) -> io::Result<Target> {
        let path = behind_links(path)?;
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder")),
            Ok(found) if !found.is_file() || is_descriptor(&path) => Ok(Target::AsItIs(path)),
            // A write-protected file is not replaced.
            Ok(_) => OpenOptions::new().append(true).open(&path).map(|_| Target::Named(path)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Target::Named(path)),
            Err(error) => Err(error),
        }
    }
}

/// The file that a link names, which may not exist yet. Paths such as `/dev/stdout` are left as they are: they lead to
/// open files, which may have no name.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(named) if !is_descriptor(&path) => path = folder_of(&path).join(named),
            _ => return Ok(path),
        }
    }
    Err(io::Error::other(format!("more than {MOST_LINKS} links, one after the other")))
}

fn is_descriptor(path: &Path) -> bool {
    path.starts_with("/proc") || path.starts_with("/dev/fd")
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
