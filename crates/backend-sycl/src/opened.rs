//! An open device: one context, one default stream and the programs that were built, shared by all handles of the
//! device.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use haloport_core::device::{DeviceError, DeviceId, DeviceInfo, Priority};

use crate::driver::{Place, Program, Queue};

/// The state that all handles of one device share.
pub(crate) struct Opened {
    pub(crate) place: Place,
    pub(crate) programs: Mutex<HashMap<&'static str, Arc<Program>>>,
    pub(crate) default: Arc<Queue>,
    /// All other queues that are alive.
    pub(crate) queues: Mutex<Vec<Weak<Queue>>>,
    /// For commands that the host waits for at once, apart from all streams.
    pub(crate) setup: Arc<Queue>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(self.info()).finish()
    }
}

impl Opened {
    /// The open device that `known` accepts; if there is none, the one of the place that `make` makes, which is given a
    /// number for a context of another program. All handles of a device can use its memory.
    pub(crate) fn find_or(
        known: impl Fn(&Place) -> bool,
        make: impl FnOnce(&dyn Fn() -> u32) -> Result<Place, DeviceError>,
    ) -> Result<Arc<Opened>, DeviceError> {
        static OPEN: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());
        /// Numbers are not used again: the holder of an old one could take a later context for its own.
        static CONTEXTS: AtomicU32 = AtomicU32::new(1);

        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|opened| opened.strong_count() > 0);
        if let Some(opened) = open.iter().filter_map(Weak::upgrade).find(|opened| known(&opened.place)) {
            return Ok(opened);
        }
        let place = make(&|| CONTEXTS.fetch_add(1, Ordering::Relaxed))?;
        let queue = || place.queue(Priority::Normal).map(Arc::new);
        let (default, setup) = (queue()?, queue()?);
        let (programs, queues) = (Mutex::default(), Mutex::default());
        let opened = Arc::new(Opened { place, programs, default, queues, setup });
        open.push(Arc::downgrade(&opened));
        Ok(opened)
    }

    pub(crate) fn info(&self) -> &DeviceInfo {
        self.place.info()
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.info().id
    }
}
