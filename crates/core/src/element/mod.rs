//! The element types of fields.

mod sign_change;

use std::fmt;
use std::num::NonZeroU32;

use bytemuck::Pod;
use serde::{Deserialize, Serialize};

pub use sign_change::SignChange;

/// The type of an element, as plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant is named as the type it stands for")]
pub enum ElementType {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    F16,
    Bf16,
    F32,
    F64,
    Complex32,
    Complex64,
    /// A record of this many bytes, which travels as it is. It may lie at any address.
    Bytes(NonZeroU32),
}

impl ElementType {
    /// A record of `bytes` bytes, at most `u32::MAX`; `None` for 0 and for more.
    pub fn record(bytes: usize) -> Option<ElementType> {
        NonZeroU32::new(u32::try_from(bytes).ok()?).map(ElementType::Bytes)
    }

    /// The size of one element in bytes.
    pub fn bytes(self) -> usize {
        match self {
            ElementType::I8 | ElementType::U8 => 1,
            ElementType::I16 | ElementType::U16 | ElementType::F16 | ElementType::Bf16 => 2,
            ElementType::I32 | ElementType::U32 | ElementType::F32 => 4,
            ElementType::I64 | ElementType::U64 | ElementType::F64 | ElementType::Complex32 => 8,
            ElementType::I128 | ElementType::U128 | ElementType::Complex64 => 16,
            ElementType::Bytes(bytes) => bytes.get() as usize,
        }
    }

    /// The size in bytes of a number of which the element consists: of a part of complex ones, of records 1.
    pub(crate) fn part_bytes(self) -> usize {
        match self {
            ElementType::Complex32 => ElementType::F32.bytes(),
            ElementType::Complex64 => ElementType::F64.bytes(),
            ElementType::Bytes(_) => 1,
            scalar => scalar.bytes(),
        }
    }

    /// The elements in words that users of any language know, as `64-bit floats`: for texts of errors.
    pub fn in_words(self) -> String {
        let bits = 8 * self.bytes();
        match self {
            ElementType::Bytes(bytes) => format!("records of {bytes} bytes"),
            ElementType::Bf16 => "bfloat16 floats".into(),
            ElementType::F16 | ElementType::F32 | ElementType::F64 => format!("{bits}-bit floats"),
            ElementType::Complex32 | ElementType::Complex64 => {
                format!("complex numbers of {}-bit floats", bits / 2)
            }
            signed if signed.sign_change().is_some() => format!("{bits}-bit integers"),
            _ => format!("{bits}-bit unsigned integers"),
        }
    }

    /// The alignment of an element in bytes.
    pub fn alignment(self) -> usize {
        match self {
            ElementType::Complex32 => ElementType::F32.alignment(),
            ElementType::Complex64 => ElementType::F64.alignment(),
            ElementType::I128 | ElementType::U128 => align_of::<u128>(),
            ElementType::I64 | ElementType::U64 => align_of::<u64>(),
            ElementType::F64 => align_of::<f64>(),
            ElementType::Bytes(_) => 1,
            scalar => scalar.bytes(),
        }
    }

    /// A number of each type, from 0; that of all records is the same.
    pub(crate) fn number(self) -> u64 {
        use ElementType::*;
        const NUMBERS: [ElementType; 16] =
            [I8, I16, I32, I64, I128, U8, U16, U32, U64, U128, F16, Bf16, F32, F64, Complex32, Complex64];
        NUMBERS.iter().position(|number| *number == self).unwrap_or(NUMBERS.len()) as u64
    }

    /// The sign change that negates an element; `None` for unsigned integers and records.
    pub fn sign_change(self) -> Option<SignChange> {
        Some(match self {
            ElementType::I8 => SignChange::Int8,
            ElementType::I16 => SignChange::Int16,
            ElementType::I32 => SignChange::Int32,
            ElementType::I64 => SignChange::Int64,
            ElementType::I128 => SignChange::Int128,
            ElementType::F16 | ElementType::Bf16 => SignChange::Float16,
            ElementType::F32 | ElementType::Complex32 => SignChange::Float32,
            ElementType::F64 | ElementType::Complex64 => SignChange::Float64,
            ElementType::U8
            | ElementType::U16
            | ElementType::U32
            | ElementType::U64
            | ElementType::U128
            | ElementType::Bytes(_) => return None,
        })
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElementType::Bytes(bytes) => write!(f, "records of {bytes} bytes"),
            number => number.serialize(f),
        }
    }
}

/// A plain numeric type of 1 to 16 bytes that a [`Field`](crate::Field) may hold.
///
/// The trait is sealed, since sizes of memory are computed from [`TYPE`](Element::TYPE).
#[diagnostic::on_unimplemented(
    message = "a field cannot hold elements of `{Self}`",
    label = "not a numeric type of 1 to 16 bytes",
    note = "elements are integers of a fixed size, `half::f16` and `bf16`, `f32`, `f64` and `num_complex::Complex` of \
            these two",
    note = "instead of `bool` take `u8`; instead of `usize` and `isize` take `u64` and `i64`; instead of an array or a \
            vector take its number type and several components: \
            `Field::builder(&pattern).components(3, ComponentPlace::Slowest)`"
)]
pub trait Element: sealed::Sealed + Pod + Default + PartialEq + fmt::Debug + Send + Sync {
    /// The type as plain data.
    const TYPE: ElementType;
}

mod sealed {
    #[diagnostic::on_unimplemented(message = "`{Self}` is not one of the types that a field can hold")]
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty => $name:ident),* $(,)?) => {
        $(
            impl sealed::Sealed for $rust {}
            impl Element for $rust {
                const TYPE: ElementType = ElementType::$name;
            }
        )*

        #[cfg(test)]
        mod tests {
            #[test]
            fn sizes_and_alignments_are_those_of_the_rust_types() {
                $(assert_eq!(super::ElementType::$name.bytes(), size_of::<$rust>());)*
                $(assert_eq!(super::ElementType::$name.alignment(), align_of::<$rust>());)*
            }
        }
    };
}

elements! {
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, i128 => I128,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64, u128 => U128,
    half::f16 => F16, half::bf16 => Bf16, f32 => F32, f64 => F64,
    num_complex::Complex<f32> => Complex32, num_complex::Complex<f64> => Complex64,
}
