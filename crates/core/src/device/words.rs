//! Words of host memory by which streams, also of other processes, and hosts hand work over to each other.

use super::Pointer;

/// An operation of a stream on a word: 32 bits at an address that is a multiple of 4.
///
/// A stream or a host that finds a number in a word also sees all work before the write: earlier work of the stream that
/// wrote the number, or of the host that stored it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordOperation {
    /// Writes the number when all earlier work of the stream is done.
    Write(Pointer, u32),
    /// Lets later work of the stream wait until the word holds exactly this number.
    Await(Pointer, u32),
}
