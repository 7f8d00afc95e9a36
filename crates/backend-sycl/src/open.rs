//! A device that is open: one context, one default stream and the programs that were built, shared by all who open it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cl3::OpenClRuntime;
use cl3::device::{
    CL_DEVICE_DOUBLE_FP_CONFIG, CL_DEVICE_GLOBAL_MEM_SIZE, CL_DEVICE_MAX_COMPUTE_UNITS, CL_DEVICE_NAME,
    CL_DRIVER_VERSION, get_device_data,
};
use cl3::types::cl_device_id;
use haloport_core::device::{DeviceError, DeviceId, DeviceInfo, Priority};

use crate::driver::{failed, library, number, text};
use crate::handles::{Context, Program};
use crate::queue::WorkQueue;
use crate::select::{Candidate, Kind, has_extension, platform_name};
use crate::unified::Unified;

/// What all handles of one device share.
pub(crate) struct Opened {
    pub(crate) info: DeviceInfo,
    pub(crate) kind: Kind,
    pub(crate) library: &'static OpenClRuntime,
    pub(crate) device: cl_device_id,
    pub(crate) unified: Unified,
    pub(crate) programs: Mutex<HashMap<&'static str, Arc<Program>>>,
    pub(crate) default: Arc<WorkQueue>,
    /// All other streams that are alive.
    pub(crate) queues: Mutex<Vec<Weak<WorkQueue>>>,
    /// For what the host waits for at once, apart from all streams.
    pub(crate) setup: Arc<WorkQueue>,
    pub(crate) context: Context,
}

// SAFETY: the one raw pointer is the device, which belongs to no thread.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&self.info).finish()
    }
}

impl Opened {
    /// Opens a device in a context of ours, or gives what it was opened as: memory of one device can be used by all its
    /// handles.
    pub(crate) fn new(candidate: Candidate) -> Result<Arc<Opened>, DeviceError> {
        let device = candidate.device;
        let known = |opened: &Opened| opened.device == device && opened.id().context == 0;
        Opened::find_or(known, || {
            let context = own_context(&candidate)?;
            Opened::with_context(candidate, context, 0)
        })
    }

    /// Opens a device in a context that somebody else made, or gives what it was opened as in that one.
    pub(crate) fn in_context(candidate: Candidate, context: Context) -> Result<Arc<Opened>, DeviceError> {
        /// Numbers are not given again: who held one might take a later context for his.
        static CONTEXTS: AtomicU32 = AtomicU32::new(1);

        let (device, raw) = (candidate.device, context.raw());
        let known = |opened: &Opened| opened.device == device && opened.context.raw() == raw;
        Opened::find_or(known, || {
            Opened::with_context(candidate, context, CONTEXTS.fetch_add(1, Ordering::Relaxed))
        })
    }

    fn find_or(
        known: impl Fn(&Opened) -> bool,
        make: impl FnOnce() -> Result<Opened, DeviceError>,
    ) -> Result<Arc<Opened>, DeviceError> {
        static OPEN: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());

        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|opened| opened.strong_count() > 0);
        if let Some(opened) = open.iter().filter_map(Weak::upgrade).find(|opened| known(opened)) {
            return Ok(opened);
        }
        let opened = Arc::new(make()?);
        open.push(Arc::downgrade(&opened));
        Ok(opened)
    }

    fn with_context(candidate: Candidate, context: Context, number: u32) -> Result<Opened, DeviceError> {
        let library = library()?;
        let mut info = info_of(&candidate);
        info.id.context = number;
        let Candidate { device, kind, unified, .. } = candidate;
        let queue = || {
            WorkQueue::new(&context, device, info.id, Priority::Normal, info.stream_priorities).map(Arc::new)
        };
        let (default, setup) = (queue()?, queue()?);
        let (programs, queues) = (Mutex::default(), Mutex::default());
        Ok(Opened { info, kind, library, device, unified, programs, default, queues, setup, context })
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.info.id
    }
}

/// A context of ours.
fn own_context(candidate: &Candidate) -> Result<Context, DeviceError> {
    library()?;
    // CL_CONTEXT_PLATFORM
    let properties = [0x1084, candidate.platform.addr() as isize, 0];
    let context =
        cl3::context::create_context(&[candidate.device], properties.as_ptr(), None, std::ptr::null_mut())
            .map_err(failed("clCreateContext", info_of(candidate).id))?;
    // SAFETY: the context was just made, and is ours.
    Ok(unsafe { Context::own(context) })
}

/// The properties of a device.
pub(crate) fn info_of(candidate: &Candidate) -> DeviceInfo {
    let Candidate { platform, device, index, unified, .. } = candidate;
    let of = |name| get_device_data(*device, name);
    DeviceInfo {
        id: DeviceId { backend: "sycl", index: *index, context: 0 },
        name: text(of(CL_DEVICE_NAME)),
        driver: format!("{} {}, {}", platform_name(*platform), text(of(CL_DRIVER_VERSION)), unified.name()),
        compute_units: number(of(CL_DEVICE_MAX_COMPUTE_UNITS)) as usize,
        memory_bytes: Some(number(of(CL_DEVICE_GLOBAL_MEM_SIZE))),
        asynchronous: true,
        host_accessible: false,
        double_precision: number(of(CL_DEVICE_DOUBLE_FP_CONFIG)) != 0,
        half_precision: has_extension(*device, "cl_khr_fp16"),
        stream_priorities: has_extension(*device, "cl_khr_priority_hints"),
        exports_memory: false,
    }
}
