//! An open device: what all its handles share.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use haloport_core::device::DeviceError;

use crate::driver::device_context::DeviceContext;
use crate::driver::select::Candidate;
use crate::memory::peers::Peers;
use crate::memory::words::WordPool;
use crate::program::portable::Programs;

/// A device that is open, with what is made once for all its handles. It stays open as long as one of them lives.
pub(crate) struct Opened {
    pub(crate) programs: Programs,
    pub(crate) words: WordPool,
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
        let (programs, words, peers) = (Programs::default(), WordPool::default(), Peers::default());
        let opened = Arc::new(Opened { programs, words, peers, device: DeviceContext::new(candidate)? });
        open.push(Arc::downgrade(&opened));
        Ok(opened)
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
