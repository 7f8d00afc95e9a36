//! An open device: what all its handles share.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use haloport_core::device::DeviceError;

use crate::driver::device_context::DeviceContext;
use crate::driver::raw_stream::RawStream;
use crate::driver::select::Candidate;
use crate::memory::peers::Peers;
use crate::memory::pieces::PinnedPieces;
use crate::memory::words::WordPool;
use crate::program::fill_kernel::FillKernel;
use crate::program::loaded::Function;
use crate::program::portable::Programs;

/// A device that is open, with what is made once for all its handles. It stays open as long as one of them lives.
pub(crate) struct Opened {
    fill_kernel: FillKernel,
    pub(crate) programs: Programs,
    pub(crate) words: WordPool,
    pub(crate) pieces: PinnedPieces,
    pub(crate) peers: Peers,
    /// Last, since all of the above is in its context.
    device: DeviceContext,
}

impl Opened {
    /// Opens a device, or returns it if it is open.
    pub(crate) fn new(candidate: Candidate) -> Result<Arc<Opened>, DeviceError> {
        static OPEN: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());

        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|opened| opened.strong_count() > 0);
        let id = candidate.info.id;
        if let Some(opened) = open.iter().filter_map(Weak::upgrade).find(|opened| opened.id() == id) {
            return Ok(opened);
        }
        let (mut device, words) = (DeviceContext::new(candidate)?, WordPool::default());
        if device.info.capabilities.stream_words && !words.are_written_by_streams(&device)? {
            let of = &mut device.info.capabilities;
            (of.gates, of.stream_words) = (false, false);
        }
        let opened = Arc::new(Opened {
            fill_kernel: FillKernel::default(),
            programs: Programs::default(),
            words,
            pieces: PinnedPieces::new(&device)?,
            peers: Peers::default(),
            device,
        });
        open.push(Arc::downgrade(&opened));
        Ok(opened)
    }

    /// Makes what later calls need, so that none of them allocates or loads while a gate is closed.
    pub(crate) fn prepare(&self) -> Result<(), DeviceError> {
        self.words.prepare(&self.device)?;
        self.fill_kernel.prepare(&self.programs, &self.device)
    }

    /// Returns the kernel `fill`, for work in `stream`.
    pub(crate) fn fill_kernel(&self, stream: &RawStream) -> Result<&Function, DeviceError> {
        self.fill_kernel.get(&self.programs, &self.device, stream)
    }
}

impl Deref for Opened {
    type Target = DeviceContext;

    fn deref(&self) -> &DeviceContext {
        &self.device
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&self.info).finish()
    }
}
