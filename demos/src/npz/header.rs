//! The header of an array: a Python dictionary with the type, the order and the shape.

use std::io::Read;

use super::wanted::{NpyType, NpzError, Wanted};

/// The longest header that is read, in bytes, as in NumPy.
const MOST_BYTES: usize = 10_000;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The content of a header.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) shape: Vec<usize>,
    /// Whether the highest byte of an element comes first.
    pub(super) big_endian: bool,
    /// NumPy's name of the type.
    descr: String,
    /// Whether the first axis is the fastest.
    fortran: bool,
}

impl Header {
    /// Reads a header, and returns its length in bytes, too.
    pub(super) fn read(reader: &mut impl Read) -> Result<(Header, u64), String> {
        let mut take = |bytes: usize| {
            let mut taken = vec![0; bytes];
            reader.read_exact(&mut taken).map(|()| taken).map_err(|_| "its header is cut off".to_string())
        };
        let begin = take(8)?;
        if !begin.starts_with(MAGIC) {
            return Err("it is no array of NumPy".into());
        }
        let (length, before) = match begin[6] {
            1 => (take(2)?, 10),
            2 | 3 => (take(4)?, 12),
            version => return Err(format!("it has version {version} of the format, expected 1 to 3")),
        };
        let length = length.iter().rev().fold(0, |length, &byte| length << 8 | usize::from(byte));
        if length > MOST_BYTES {
            return Err(format!("its header has {length} bytes, expected at most {MOST_BYTES}"));
        }
        let text = take(length)?;
        let text = std::str::from_utf8(&text).map_err(|_| "its header is no text")?;
        let header = Parser { rest: text }.header().ok_or_else(|| {
            let found: String =
                text.trim_end().chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect();
            format!("its header is not a description of an array: {found}")
        })?;
        Ok((header, (before + length) as u64))
    }

    /// The type of the elements and their total bytes, if the array is as wanted.
    pub(super) fn check(&self, wanted: Wanted<'_>) -> Result<(NpyType, usize), NpzError> {
        let element = match self.descr.trim_start_matches(['<', '>', '=']) {
            "i2" => Some(NpyType::I16),
            "i4" => Some(NpyType::I32),
            "i8" => Some(NpyType::I64),
            "f4" => Some(NpyType::F32),
            "f8" => Some(NpyType::F64),
            _ => None,
        };
        let element = element.filter(|element| wanted.types.contains(element));
        let element = element.ok_or_else(|| NpzError::ElementType { found: self.descr.clone() })?;
        if self.shape.len() != wanted.axes {
            return Err(NpzError::Axes { expected: wanted.axes, found: self.shape.len() });
        }
        let elements = self.shape.iter().try_fold(1usize, |elements, &extent| elements.checked_mul(extent));
        let elements = elements.filter(|elements| *elements <= wanted.most);
        let bytes = elements.and_then(|elements| elements.checked_mul(element.bytes()));
        let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or_else(|| {
            let (shape, most) = (&self.shape, wanted.most);
            NpzError::Damaged(format!(
                "its header promises the shape {shape:?}, expected at most {most} elements"
            ))
        })?;
        Ok((element, bytes))
    }

    /// The index in the file of element number `index` in the order with the last axis fastest.
    pub(super) fn index_in_file(&self, index: usize) -> usize {
        if !self.fortran {
            return index;
        }
        let (mut rest, mut found, mut stride) = (index, 0, self.shape.iter().product::<usize>());
        for &extent in self.shape.iter().rev() {
            stride /= extent;
            found += rest % extent * stride;
            rest /= extent;
        }
        found
    }
}

/// Reads the dictionary; refuses all but the three known entries.
struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn header(mut self) -> Option<Header> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.mark('{')?;
        while self.mark('}').is_none() {
            let key = self.string()?;
            self.mark(':')?;
            match key {
                "descr" => descr = Some(self.string()?),
                "fortran_order" => fortran = Some(self.truth()?),
                "shape" => shape = Some(self.shape()?),
                _ => return None,
            }
            if self.mark(',').is_none() {
                self.mark('}')?;
                break;
            }
        }
        let descr = descr?;
        let big_endian = descr.starts_with('>') || descr.starts_with('=') && cfg!(target_endian = "big");
        let descr = descr.chars().take(40).flat_map(char::escape_debug).collect();
        let header = Header { shape: shape?, big_endian, descr, fortran: fortran? };
        self.rest.trim().is_empty().then_some(header)
    }

    /// Takes a character, skipping blanks before it.
    fn mark(&mut self, mark: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(mark)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'t str> {
        let quote = ['\'', '"'].into_iter().find(|&quote| self.mark(quote).is_some())?;
        let (text, rest) = self.rest.split_once(quote)?;
        self.rest = rest;
        Some(text)
    }

    fn truth(&mut self) -> Option<bool> {
        let rest = self.rest.trim_start();
        let (truth, rest) = match rest.strip_prefix("True") {
            Some(rest) => (true, rest),
            None => (false, rest.strip_prefix("False")?),
        };
        self.rest = rest;
        Some(truth)
    }

    /// Numbers in parentheses; a comma follows a single one.
    fn shape(&mut self) -> Option<Vec<usize>> {
        let mut shape = Vec::new();
        self.mark('(')?;
        while self.mark(')').is_none() {
            let rest = self.rest.trim_start();
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            shape.push(rest[..digits].parse().ok()?);
            // Python 2 wrote `L` after large numbers.
            self.rest = rest[digits..].trim_start_matches('L');
            if self.mark(',').is_none() {
                self.mark(')')?;
                break;
            }
        }
        Some(shape)
    }
}
