//! A device that is open: its context, a stream and the programs that were loaded, shared by all who open it.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::sys::CUdevice_attribute;
use haloport_core::device::{DeviceError, DeviceId, DeviceInfo, Priority};

use crate::context::Context;
use crate::handles::StreamHandle;
use crate::peers::Peers;
use crate::program::Program;
use crate::select::Candidate;
use crate::stream;
use crate::word::Words;

/// What all handles of one device share.
pub(crate) struct Opened {
    pub(crate) info: DeviceInfo,
    /// 10 times the major number and the minor of its compute capability.
    pub(crate) capability: c_int,
    pub(crate) has: Offers,
    pub(crate) programs: Mutex<HashMap<&'static str, Arc<Program>>>,
    pub(crate) words: Words,
    pub(crate) peers: Peers,
    /// For what the host waits for at once, apart from all streams.
    pub(crate) setup: StreamHandle,
    pub(crate) context: Arc<Context>,
}

/// What some devices have and others lack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offers {
    /// Memory that the host may use while the device computes.
    pub(crate) shared_memory: bool,
    /// Memory that is allocated and freed in the order of a stream.
    pub(crate) pools: bool,
    /// The two ends of the priorities of streams: the least urgent, and the most, which is the lower number.
    pub(crate) priorities: [c_int; 2],
}

impl Opened {
    /// Opens a device, or gives what it was opened as.
    pub(crate) fn new(candidate: Candidate) -> Result<Arc<Opened>, DeviceError> {
        static OPEN: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());

        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|opened| opened.strong_count() > 0);
        let id = candidate.info.id;
        if let Some(opened) = open.iter().filter_map(Weak::upgrade).find(|opened| opened.id() == id) {
            return Ok(opened);
        }
        let opened = Arc::new(Opened::with_context(candidate)?);
        open.push(Arc::downgrade(&opened));
        Ok(opened)
    }

    fn with_context(candidate: Candidate) -> Result<Opened, DeviceError> {
        use CUdevice_attribute as Of;

        let context = Arc::new(Context::new(candidate.driver, candidate.device, candidate.info.id)?);
        let has = Offers {
            shared_memory: candidate.has(Of::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)?,
            pools: candidate.has(Of::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)?,
            priorities: stream::priorities(&context)?,
        };
        let setup = stream::create(&context, Priority::Normal, has.priorities)?;
        let Candidate { info, capability, .. } = candidate;
        let (programs, words, peers) = (Mutex::default(), Words::default(), Peers::default());
        Ok(Opened { info, capability, has, programs, words, peers, setup, context })
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.info.id
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&self.info).finish()
    }
}
