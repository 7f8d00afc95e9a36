//! Copies that change signs.

/// How a copy changes the sign of every number that it moves, such as a component of a vector that points the other
/// way.
///
/// Numbers have the byte order of the machine and any alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignChange {
    /// Flips the highest bit of each 16-bit float, even of zeros, infinities and NaNs.
    Float16,
    /// The same for 32-bit floats. A complex number of 64 bits is two of them.
    Float32,
    /// The same for 64-bit floats. A complex number of 128 bits is two of them.
    Float64,
    /// The two's complement, 0 - x, of each 8-bit integer; the lowest number stays as it is.
    Int8,
    /// The same for 16-bit integers.
    Int16,
    /// The same for 32-bit integers.
    Int32,
    /// The same for 64-bit integers.
    Int64,
    /// The same for 128-bit integers.
    Int128,
}

impl SignChange {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            SignChange::Int8 => 1,
            SignChange::Float16 | SignChange::Int16 => 2,
            SignChange::Float32 | SignChange::Int32 => 4,
            SignChange::Float64 | SignChange::Int64 => 8,
            SignChange::Int128 => 16,
        }
    }
}
