//! The types of PTX, and registers as numbers of Rust.

/// A type of PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Predicate,
    /// Bits, and unsigned integers, of this many bytes: 1, 2, 4 or 8.
    Unsigned(u32),
    Signed(u32),
    F32,
    F64,
}

impl Kind {
    /// The type of this name, without the dot.
    pub(crate) fn named(name: &str) -> Option<Kind> {
        Some(match name {
            "pred" => Kind::Predicate,
            "f32" => Kind::F32,
            "f64" => Kind::F64,
            _ => {
                let bytes = match name.get(1..)? {
                    "8" => 1,
                    "16" => 2,
                    "32" => 4,
                    "64" => 8,
                    _ => return None,
                };
                match name.as_bytes()[0] {
                    b'b' | b'u' => Kind::Unsigned(bytes),
                    b's' => Kind::Signed(bytes),
                    _ => return None,
                }
            }
        })
    }

    /// The size in bytes.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Kind::Predicate => 1,
            Kind::Unsigned(bytes) | Kind::Signed(bytes) => bytes,
            Kind::F32 => 4,
            Kind::F64 => 8,
        }
    }
}

/// A value that a register holds: in its low bits, the others 0.
pub(crate) trait Value: Copy {
    fn of(register: u64) -> Self;
    fn register(self) -> u64;
}

/// A number of PTX, with the operations that integers and floating-point numbers have, each in its own way.
pub(crate) trait Number: Value + PartialOrd {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// By 0, an integer of all ones.
    fn div(self, other: Self) -> Self;
    /// If one of the two is not a number, the other.
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    /// The product and the sum, rounded once.
    fn mul_add(self, other: Self, third: Self) -> Self;
    /// Whether it is not a number.
    fn is_nan(self) -> bool;
    /// The nearest one.
    fn to_f64(self) -> f64;
    /// An integer as it is, or the one next to a floating-point number towards 0.
    fn to_i128(self) -> i128;
    /// The nearest one; of integers, the one next to it towards 0, or the end of the type.
    fn of_f64(value: f64) -> Self;
    /// An integer cut off, or the nearest floating-point number.
    fn of_i128(value: i128) -> Self;
    const IS_INTEGER: bool;

    /// As a number of another type.
    fn to<T: Number>(self) -> T {
        if Self::IS_INTEGER { T::of_i128(self.to_i128()) } else { T::of_f64(self.to_f64()) }
    }
}

/// An integer of PTX.
pub(crate) trait Integer: Number {
    /// By 0, the number itself.
    fn rem(self, other: Self) -> Self;
    /// By its size or more, 0, or of a negative number all ones.
    fn shr(self, by: u32) -> Self;
    /// The upper half of the product.
    fn mul_high(self, other: Self) -> Self;
}

impl Value for bool {
    fn of(register: u64) -> Self {
        register != 0
    }

    fn register(self) -> u64 {
        u64::from(self)
    }
}

macro_rules! integers {
    ($($type:ident $unsigned:ident $wide:ident;)+) => {
        $(impl Value for $type {
            fn of(register: u64) -> Self {
                register as $type
            }

            fn register(self) -> u64 {
                u64::from(self as $unsigned)
            }
        }

        impl Number for $type {
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            fn div(self, other: Self) -> Self {
                if other == 0 { $unsigned::MAX as $type } else { self.wrapping_div(other) }
            }

            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }

            fn neg(self) -> Self {
                self.wrapping_neg()
            }

            fn abs(self) -> Self {
                if i128::from(self) < 0 { self.wrapping_neg() } else { self }
            }

            fn mul_add(self, other: Self, third: Self) -> Self {
                self.wrapping_mul(other).wrapping_add(third)
            }

            fn is_nan(self) -> bool {
                false
            }

            fn to_f64(self) -> f64 {
                self as f64
            }

            fn to_i128(self) -> i128 {
                i128::from(self)
            }

            fn of_f64(value: f64) -> Self {
                value as $type
            }

            fn of_i128(value: i128) -> Self {
                value as $type
            }

            const IS_INTEGER: bool = true;
        }

        impl Integer for $type {
            fn rem(self, other: Self) -> Self {
                if other == 0 { self } else { self.wrapping_rem(other) }
            }

            fn shr(self, by: u32) -> Self {
                match self.checked_shr(by) {
                    Some(shifted) => shifted,
                    None if i128::from(self) < 0 => $unsigned::MAX as $type,
                    None => 0,
                }
            }

            fn mul_high(self, other: Self) -> Self {
                ((self as $wide * other as $wide) >> $type::BITS) as $type
            }
        })+
    };
}

integers! {
    u8 u8 u128;
    u16 u16 u128;
    u32 u32 u128;
    u64 u64 u128;
    i8 u8 i128;
    i16 u16 i128;
    i32 u32 i128;
    i64 u64 i128;
}

macro_rules! floats {
    ($($type:ident $bits:ident;)+) => {
        $(impl Value for $type {
            fn of(register: u64) -> Self {
                $type::from_bits(register as $bits)
            }

            fn register(self) -> u64 {
                u64::from(self.to_bits())
            }
        }

        impl Number for $type {
            fn add(self, other: Self) -> Self {
                self + other
            }

            fn sub(self, other: Self) -> Self {
                self - other
            }

            fn mul(self, other: Self) -> Self {
                self * other
            }

            fn div(self, other: Self) -> Self {
                self / other
            }

            fn min(self, other: Self) -> Self {
                // Of two zeros, the negative one.
                match self == other {
                    true => if self.is_sign_negative() { self } else { other },
                    false => $type::min(self, other),
                }
            }

            fn max(self, other: Self) -> Self {
                match self == other {
                    true => if self.is_sign_positive() { self } else { other },
                    false => $type::max(self, other),
                }
            }

            fn neg(self) -> Self {
                -self
            }

            fn abs(self) -> Self {
                $type::abs(self)
            }

            fn mul_add(self, other: Self, third: Self) -> Self {
                $type::mul_add(self, other, third)
            }

            fn is_nan(self) -> bool {
                $type::is_nan(self)
            }

            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            fn to_i128(self) -> i128 {
                self as i128
            }

            fn of_f64(value: f64) -> Self {
                value as $type
            }

            fn of_i128(value: i128) -> Self {
                value as $type
            }

            const IS_INTEGER: bool = false;
        })+
    };
}

floats! {
    f32 u32;
    f64 u64;
}
