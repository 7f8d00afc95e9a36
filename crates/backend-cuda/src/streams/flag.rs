//! Flags: numbers in pinned host memory that streams and the host set and wait for.

use std::sync::Arc;

use haloport_core::device::{DeviceError, Flag};

use crate::open::Opened;
use crate::stream::CudaStream;
use crate::word::Word;

/// A flag: set where its number stands in the word.
#[derive(Debug)]
pub(crate) struct CudaFlag {
    word: Word,
    number: u32,
}

impl CudaFlag {
    pub(crate) fn new(opened: &Arc<Opened>) -> Result<CudaFlag, DeviceError> {
        let (word, last) = Word::new(opened)?;
        Ok(CudaFlag { word, number: last.wrapping_add(1) })
    }
}

impl Flag<CudaStream> for CudaFlag {
    fn is_set(&self) -> bool {
        self.word.read() == self.number
    }

    fn set(&self) {
        self.word.write(self.number);
    }

    fn clear(&self) {
        self.word.write(self.number.wrapping_sub(1));
    }

    fn set_in(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        self.word.write_in(self.number, stream)
    }

    fn wait_in(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        self.word.wait_in(self.number, stream)
    }
}

impl Drop for CudaFlag {
    fn drop(&mut self) {
        // The next user of the word counts from here: a stream that looks at it late goes through.
        self.set();
    }
}
