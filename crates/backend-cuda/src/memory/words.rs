//! Numbers in pinned host memory, which the host writes and streams wait for.

use std::sync::{Arc, Mutex, PoisonError};

use haloport_core::device::{DeviceError, MemoryKind};

use crate::driver::device_context::DeviceContext;
use crate::driver::functions::{NOT_SUPPORTED, SUCCESS};
use crate::memory::allocation::Allocation;

/// The number of words of a device.
const WORDS: usize = 1024;

/// The words of a device. Their memory is allocated at first use and lives as long as the device is open.
#[derive(Debug, Default)]
pub(crate) struct WordPool(Mutex<Option<Words>>);

#[derive(Debug)]
struct Words {
    memory: Arc<Allocation>,
    /// The index of each free word, with the number in it.
    free: Vec<(usize, u32)>,
}

impl WordPool {
    /// Allocates the memory now, so that no later call does.
    pub(crate) fn prepare(&self, device: &DeviceContext) -> Result<(), DeviceError> {
        self.with_words(device, |_| Ok(()))
    }

    /// Whether streams write words. Some drivers refuse that; only an attempt shows it. Blocks until it is done.
    pub(crate) fn are_written_by_streams(&self, device: &DeviceContext) -> Result<bool, DeviceError> {
        self.with_words(device, |words| {
            let (context, word) = (&device.context, words.memory.pointer().as_ptr().addr() as u64);
            let _entered = context.enter()?;
            // SAFETY: the first word is in the memory of all words and is not taken, and the stream is live.
            match unsafe { (context.driver.cuStreamWriteValue32_v2)(device.setup.raw(), word, 0, 0) } {
                SUCCESS => device.setup.synchronize().map(|()| true),
                NOT_SUPPORTED => Ok(false),
                status => context.checked("cuStreamWriteValue32", status).map(|()| true),
            }
        })
    }

    /// Takes a free word: the memory of all words, its index there, and the number that its last user left.
    pub(crate) fn take(&self, device: &DeviceContext) -> Result<(Arc<Allocation>, usize, u32), DeviceError> {
        self.with_words(device, |words| {
            let (index, last) = words.free.pop().ok_or_else(|| {
                let most = format!("at most {WORDS}");
                DeviceError::invalid("the number of closed gates", most, WORDS + 1)
            })?;
            Ok((Arc::clone(&words.memory), index, last))
        })
    }

    /// Takes a word back, with the number in it.
    pub(crate) fn give_back(&self, index: usize, last: u32) {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = &mut *words {
            words.free.push((index, last));
        }
    }

    fn with_words<R>(
        &self,
        device: &DeviceContext,
        act: impl FnOnce(&mut Words) -> Result<R, DeviceError>,
    ) -> Result<R, DeviceError> {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *words {
            Some(words) => act(words),
            none => {
                let bytes = WORDS * size_of::<u32>();
                let memory = Arc::new(Allocation::new(device, bytes, MemoryKind::Pinned)?);
                let free = (0..WORDS).map(|index| (index, 0)).collect();
                act(none.insert(Words { memory, free }))
            }
        }
    }
}
