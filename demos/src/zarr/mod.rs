//! Arrays of 64-bit floats in a folder, in the format Zarr 3, which xarray and many other programs open.
//!
//! An array is cut into chunks of one size; each is a file with its elements, the last axis fastest, lowest byte first,
//! uncompressed. A chunk that reaches beyond the ends of its array is whole. The specification:
//! <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>.
//!
//! A file gets its name when all of it is written. To append, write the new chunks and then the larger shape: readers
//! see all of it or none.

mod metadata;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

pub use metadata::Array;
use metadata::{ArrayFile, GroupFile};

/// The file that describes a folder.
const METADATA: &str = "zarr.json";

/// A folder of arrays. Several processes may use it at once, if no two write the same file.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// The error of a store that cannot be read or written.
#[derive(Debug, Error)]
pub enum ZarrError {
    /// The file system refuses.
    #[error("cannot {what} {}: {error}", path.display())]
    Io {
        /// "read", "write", "create".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Its reason.
        error: io::Error,
    },
    /// A description is not one that can be read here.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What can be read.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A chunk has another length than its array says.
    #[error("{}: expected {expected} bytes, found {found}; is the file cut off?", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The bytes of a chunk.
        expected: usize,
        /// The bytes of the file.
        found: usize,
    },
}

impl Store {
    /// The store in `folder`, which is not looked at yet.
    pub fn new(folder: impl Into<PathBuf>) -> Store {
        Store { folder: folder.into() }
    }

    /// Creates the folder, and describes it with these attributes, a JSON object.
    ///
    /// # Errors
    /// [`ZarrError::Io`], also if there is a file or folder of that name.
    pub fn create(&self, attributes: &Value) -> Result<(), ZarrError> {
        let refused = |error| ZarrError::Io { what: "create", path: self.folder.clone(), error };
        if let Some(parent) = self.folder.parent() {
            fs::create_dir_all(parent).map_err(refused)?;
        }
        fs::create_dir(&self.folder).map_err(refused)?;
        self.write_file(Path::new(METADATA), GroupFile::of(attributes).as_bytes())
    }

    /// The attributes of the store.
    ///
    /// # Errors
    /// [`ZarrError`]: the file system's, or a folder that is no such store.
    pub fn attributes<A: DeserializeOwned>(&self) -> Result<A, ZarrError> {
        let (path, bytes) = self.read_file(Path::new(METADATA))?;
        GroupFile::attributes(&bytes).map_err(|found| ZarrError::Metadata {
            path,
            expected: "a group of Zarr 3 with the attributes of such a run",
            found,
        })
    }

    /// Describes an array. Its chunks may be there already.
    ///
    /// # Errors
    /// [`ZarrError::Io`].
    pub fn set_array(&self, name: &str, array: &Array) -> Result<(), ZarrError> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).map_err(|error| ZarrError::Io {
            what: "create",
            path: folder.clone(),
            error,
        })?;
        self.write_file(&Path::new(name).join(METADATA), ArrayFile::of(array).as_bytes())
    }

    /// The description of an array.
    ///
    /// # Errors
    /// [`ZarrError`]: the file system's, or an array that is not stored as this module stores arrays.
    pub fn array(&self, name: &str) -> Result<Array, ZarrError> {
        let (path, bytes) = self.read_file(&Path::new(name).join(METADATA))?;
        ArrayFile::array(&bytes).map_err(|found| ZarrError::Metadata {
            path,
            expected: "an array of Zarr 3 with elements of float64 in regular chunks, uncompressed, lowest byte first",
            found,
        })
    }

    /// Writes the chunk number `chunk` along each axis. If there are fewer values than elements of the chunk, the rest of it
    /// lies beyond the end of the array along the slowest axis.
    ///
    /// # Errors
    /// [`ZarrError::Io`].
    pub fn write(&self, name: &str, array: &Array, chunk: &[usize], values: &[f64]) -> Result<(), ZarrError> {
        let beyond = array.chunk_elements().saturating_sub(values.len());
        let values = values.iter().copied().chain(std::iter::repeat_n(f64::NAN, beyond));
        let bytes: Vec<u8> = values.flat_map(f64::to_le_bytes).collect();
        self.write_file(&file_of(name, chunk), &bytes)
    }

    /// Reads a chunk: all its elements, also those beyond the ends of the array.
    ///
    /// # Errors
    /// [`ZarrError::Io`], also for a chunk that was never written; [`ZarrError::Length`].
    pub fn read(&self, name: &str, array: &Array, chunk: &[usize]) -> Result<Vec<f64>, ZarrError> {
        let (path, bytes) = self.read_file(&file_of(name, chunk))?;
        let expected = array.chunk_elements() * size_of::<f64>();
        if bytes.len() != expected {
            return Err(ZarrError::Length { path, expected, found: bytes.len() });
        }
        let (values, _) = bytes.as_chunks();
        Ok(values.iter().map(|&value| f64::from_le_bytes(value)).collect())
    }

    fn read_file(&self, name: &Path) -> Result<(PathBuf, Vec<u8>), ZarrError> {
        let path = self.folder.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok((path, bytes)),
            Err(error) => Err(ZarrError::Io { what: "read", path, error }),
        }
    }

    /// Writes a file, complete or not at all, with the folders that it is in.
    fn write_file(&self, name: &Path, bytes: &[u8]) -> Result<(), ZarrError> {
        let path = self.folder.join(name);
        let new = path.with_extension("new");
        let write = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let mut file = File::create(&new)?;
            file.write_all(bytes)?;
            // A name without its bytes would survive a loss of power.
            file.sync_data()?;
            fs::rename(&new, &path)
        };
        write().map_err(|error| ZarrError::Io { what: "write", path: path.clone(), error })
    }
}

/// The file of a chunk, in the store's folder.
fn file_of(name: &str, chunk: &[usize]) -> PathBuf {
    chunk.iter().fold(Path::new(name).join("c"), |path, index| path.join(index.to_string()))
}
