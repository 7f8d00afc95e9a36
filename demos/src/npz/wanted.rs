//! The demands on an array, and the errors if it does not meet them.

use thiserror::Error;

/// The demands on an array.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The types that its elements may have.
    pub types: &'a [NpyType],
    /// The number of its axes.
    pub axes: usize,
    /// The most elements that it may have.
    pub most: usize,
}

/// The types of elements that are read, of either byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NpyType {
    /// `i2`.
    I16,
    /// `i4`.
    I32,
    /// `i8`.
    I64,
    /// `f4`.
    F32,
    /// `f8`.
    F64,
}

/// The error of an array that cannot be read.
#[derive(Debug, Error)]
pub enum NpzError {
    /// The bytes are no archive.
    #[error("{0}")]
    NotNpz(String),
    /// There is no such array.
    #[error("there is no such array")]
    Missing,
    /// The elements are of another type than those asked for.
    #[error("its elements are of the type {found}")]
    ElementType {
        /// NumPy's name of the type.
        found: String,
    },
    /// There is another number of axes than asked for.
    #[error("it has {found} axes, expected {expected}")]
    Axes {
        /// The number asked for.
        expected: usize,
        /// That of the array.
        found: usize,
    },
    /// The array is incomplete, or contradicts itself.
    #[error("{0}")]
    Damaged(String),
}

impl NpyType {
    pub(super) fn bytes(self) -> usize {
        match self {
            NpyType::I16 => 2,
            NpyType::I32 | NpyType::F32 => 4,
            NpyType::I64 | NpyType::F64 => 8,
        }
    }
}
