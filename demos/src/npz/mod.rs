//! Reads archives of NumPy arrays (`.npz`).
//!
//! The format of an array: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>. Sizes in the
//! archive are checked against its length before memory is allocated for them.

mod header;
mod wanted;

use std::io::{self, Read, Seek, SeekFrom};

use zip::ZipArchive;
use zip::read::ZipFile;
use zip::result::ZipError;

use header::Header;
pub use wanted::{NpyType, NpzError, Wanted};

/// The most bytes that one byte of a deflated member can become.
const MOST_INFLATED: u64 = 1032;

/// An archive of arrays. Arrays are looked up by name, without `.npy`.
#[derive(Debug)]
pub struct Npz<R> {
    archive: ZipArchive<R>,
    bytes: u64,
}

/// An array of an archive.
#[derive(Debug)]
pub struct NpyArray {
    header: Header,
    element: NpyType,
    data: Vec<u8>,
}

impl<R: Read + Seek> Npz<R> {
    /// Opens the archive that fills `reader`.
    ///
    /// # Errors
    /// [`NpzError::NotNpz`].
    pub fn new(mut reader: R) -> Result<Npz<R>, NpzError> {
        let bytes = check_end(&mut reader).map_err(|error| NpzError::NotNpz(one_line(&error)))?;
        let archive = ZipArchive::new(reader).map_err(|error| NpzError::NotNpz(one_line(&error)))?;
        Ok(Npz { archive, bytes })
    }

    /// The names of the arrays, in the order of the archive.
    pub fn names(&self) -> Vec<String> {
        let name = |file: &str| one_line(&file.strip_suffix(".npy").unwrap_or(file));
        self.archive.file_names().map(name).collect()
    }

    /// Reads an array.
    ///
    /// # Errors
    /// [`NpzError`].
    pub fn array(&mut self, name: &str, wanted: Wanted<'_>) -> Result<NpyArray, NpzError> {
        let bytes = self.bytes;
        let mut member = self.archive.by_name(&format!("{name}.npy")).map_err(|error| match error {
            ZipError::FileNotFound => NpzError::Missing,
            error => damaged(&error),
        })?;
        let (header, header_bytes) = Header::read(&mut member).map_err(NpzError::Damaged)?;
        let (element, data_bytes) = header.check(wanted)?;
        let said = header_bytes + data_bytes as u64;
        check_member(&member, bytes, said)?;
        let mut data = Vec::with_capacity(data_bytes);
        // One byte more reaches the end, where the archive's checksum is verified.
        let read = member.take(data_bytes as u64 + 1).read_to_end(&mut data);
        read.map_err(|error| damaged(&error))?;
        if data.len() != data_bytes {
            let found = if data.len() > data_bytes { "more" } else { "fewer" };
            let text = format!("its header promises {data_bytes} bytes of elements, and there are {found}");
            return Err(NpzError::Damaged(text));
        }
        Ok(NpyArray { header, element, data })
    }
}

impl NpyArray {
    /// The extent of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.header.shape
    }

    /// The elements with the last axis fastest; 64-bit integers are rounded.
    pub fn floats(&self) -> Vec<f64> {
        match self.element {
            NpyType::I16 => self.elements(|bytes| i16::from_le_bytes(bytes).into()),
            NpyType::I32 => self.elements(|bytes| i32::from_le_bytes(bytes).into()),
            NpyType::I64 => self.elements(|bytes| i64::from_le_bytes(bytes) as f64),
            NpyType::F32 => self.elements(|bytes| f32::from_le_bytes(bytes).into()),
            NpyType::F64 => self.elements(f64::from_le_bytes),
        }
    }

    /// The elements with the last axis fastest; `None` unless they are integers.
    pub fn integers(&self) -> Option<Vec<i64>> {
        Some(match self.element {
            NpyType::I16 => self.elements(|bytes| i16::from_le_bytes(bytes).into()),
            NpyType::I32 => self.elements(|bytes| i32::from_le_bytes(bytes).into()),
            NpyType::I64 => self.elements(i64::from_le_bytes),
            NpyType::F32 | NpyType::F64 => return None,
        })
    }

    /// Converts each element; `value` is passed its bytes, lowest first.
    fn elements<const N: usize, T>(&self, value: impl Fn([u8; N]) -> T) -> Vec<T> {
        let (stored, _) = self.data.as_chunks::<N>();
        let one = |at: usize| {
            let mut bytes = stored[at];
            if self.header.big_endian {
                bytes.reverse();
            }
            value(bytes)
        };
        (0..stored.len()).map(|index| one(self.header.index_in_file(index))).collect()
    }
}

/// Checks that the archive ends as those below 4 GiB do, and returns its length. Its number of members then has 16
/// bits; `zip` allocates memory for that number before it looks for them.
///
/// The format: <https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>, section 4.3.
fn check_end(reader: &mut (impl Read + Seek)) -> io::Result<u64> {
    const END: usize = 22;
    const LOCATOR: usize = 20;
    let bytes = reader.seek(SeekFrom::End(0))?;
    let length = bytes.min((LOCATOR + END) as u64 + u64::from(u16::MAX));
    reader.seek(SeekFrom::Start(bytes - length))?;
    let mut tail = Vec::with_capacity(length as usize);
    reader.take(length).read_to_end(&mut tail)?;
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let end = tail.windows(4).rposition(|mark| mark == b"PK\x05\x06");
    let end = end.ok_or_else(|| wrong("it does not end as an archive does"))?;
    let comment = tail.get(end + END - 2..end + END).map(|it| usize::from(it[0]) | usize::from(it[1]) << 8);
    if comment.is_none_or(|comment| end + END + comment != tail.len()) {
        return Err(wrong("its end is cut off"));
    }
    if end.checked_sub(LOCATOR).is_some_and(|at| tail[at..].starts_with(b"PK\x06\x07")) {
        return Err(wrong("an archive for more than 4 GiB or 65,535 arrays, which is not read"));
    }
    Ok(bytes)
}

/// Checks that a member has `said` bytes by the archive's own account, and that they fit into the `bytes` of the
/// archive.
fn check_member<R: Read>(member: &ZipFile<'_, R>, bytes: u64, said: u64) -> Result<(), NpzError> {
    let (size, packed) = (member.size(), member.compressed_size());
    if size != said {
        let text = format!("its header promises {said} bytes in all, and the archive has {size}");
        return Err(NpzError::Damaged(text));
    }
    if packed > bytes || size > packed.saturating_mul(MOST_INFLATED) {
        let text = format!("{size} bytes cannot be in {packed} of an archive of {bytes}");
        return Err(NpzError::Damaged(text));
    }
    Ok(())
}

fn damaged(error: &dyn std::fmt::Display) -> NpzError {
    NpzError::Damaged(one_line(error))
}

/// A text from a file or another crate on one line.
fn one_line(text: &dyn std::fmt::Display) -> String {
    text.to_string().replace(char::is_control, " ")
}
