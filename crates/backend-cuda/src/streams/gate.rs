//! Gates: points in streams that the host opens.
//!
//! A gate is a number in pinned host memory, which the stream waits for and the host writes. CUDA does not
//! see that order among streams: so nothing but the host opens a gate, what the gate holds back stands behind
//! it in the same stream or waits for an event there, and while one is closed, the caller makes no call that
//! waits, allocates, frees or loads.

use haloport_core::device::DeviceError;

use crate::stream::CudaStream;
use crate::word::Word;

/// Puts a gate into `stream`, which holds later work back until what this returns is called or dropped.
pub(crate) fn gate(stream: &CudaStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
    let (word, last) = Word::new(&stream.opened)?;
    // The wait is for this number or a later one. So a stream that looks at the place late, when it already
    // serves another gate, goes through too.
    let number = last.wrapping_add(1);
    let gate = Gate { word, number };
    gate.word.wait_in(number, stream)?;
    Ok(Box::new(move || drop(gate)))
}

/// A gate that is closed; opened when it is dropped.
struct Gate {
    word: Word,
    number: u32,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.word.write(self.number);
    }
}
