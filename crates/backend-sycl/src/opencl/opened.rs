//! An open device: one context, one default stream and the programs that were built, shared by all handles of the
//! device.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cl3::OpenClRuntime;
use cl3::context::{CL_CONTEXT_PLATFORM, create_context};
use haloport_core::device::{Capabilities, DeviceError, DeviceId, DeviceInfo, MemoryKind, Priority};
use opencl3::device::Device;

use super::handles::{Context, Program};
use super::library::{failed, has_extension, library, text};
use super::queue::{IMMEDIATE_QUEUES, WorkQueue};
use super::select::{Candidate, Kind};
use super::unified::Unified;

/// The state that all handles of one device share.
pub(crate) struct Opened {
    pub(crate) info: DeviceInfo,
    pub(crate) kind: Kind,
    pub(crate) library: &'static OpenClRuntime,
    pub(crate) device: Device,
    pub(crate) unified: Unified,
    pub(crate) programs: Mutex<HashMap<&'static str, Arc<Program>>>,
    pub(crate) default: Arc<WorkQueue>,
    /// All other queues that are alive.
    pub(crate) queues: Mutex<Vec<Weak<WorkQueue>>>,
    /// For commands that the host waits for at once, apart from all streams.
    pub(crate) setup: Arc<WorkQueue>,
    pub(crate) context: Context,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&self.info).finish()
    }
}

impl Opened {
    /// Opens a device in a context of Haloport, or returns it if it is open there: all handles of a device can use its
    /// memory.
    pub(crate) fn new(candidate: Candidate) -> Result<Arc<Opened>, DeviceError> {
        let device = candidate.device.id();
        let known = |opened: &Opened| opened.device.id() == device && opened.id().context == 0;
        Opened::find_or(known, || {
            let context = new_context(&candidate)?;
            Opened::with_context(candidate, context, 0)
        })
    }

    /// Opens a device in a context of another program, or returns it if it is open there.
    pub(crate) fn in_context(candidate: Candidate, context: Context) -> Result<Arc<Opened>, DeviceError> {
        /// Numbers are not used again: the holder of an old one could take a later context for its own.
        static CONTEXTS: AtomicU32 = AtomicU32::new(1);

        let (device, raw) = (candidate.device.id(), context.raw());
        let known = |opened: &Opened| opened.device.id() == device && opened.context.raw() == raw;
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
        let queue = || WorkQueue::new(&context, device, &info, Priority::Normal).map(Arc::new);
        let (default, setup) = (queue()?, queue()?);
        let (programs, queues) = (Mutex::default(), Mutex::default());
        Ok(Opened { info, kind, library, device, unified, programs, default, queues, setup, context })
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.info.id
    }

    /// Whether the driver is Intel's runtime for CPUs, the only one with immediate streams.
    pub(crate) fn is_intels_cpu_runtime(&self) -> bool {
        self.info.capabilities.immediate_streams
    }
}

fn new_context(candidate: &Candidate) -> Result<Context, DeviceError> {
    library()?;
    let properties = [CL_CONTEXT_PLATFORM, candidate.platform.id().addr() as isize, 0];
    let context = create_context(&[candidate.device.id()], properties.as_ptr(), None, std::ptr::null_mut())
        .map_err(failed("clCreateContext", info_of(candidate).id))?;
    // SAFETY: the context is new, and its reference has no other owner.
    Ok(unsafe { Context::own(context) })
}

/// The properties of a device.
pub(crate) fn info_of(candidate: &Candidate) -> DeviceInfo {
    let Candidate { platform, device, kind, index, unified } = candidate;
    DeviceInfo {
        id: DeviceId { backend: "sycl", index: *index, context: 0 },
        name: text(device.name()),
        driver: format!("{} {}, {}", text(platform.name()), text(device.driver_version()), unified.name()),
        compute_units: device.max_compute_units().unwrap_or(0) as usize,
        memory_bytes: Some(device.global_mem_size().unwrap_or(0)),
        asynchronous: true,
        host_accessible: false,
        separate_memory: *kind != Kind::Cpu && !device.host_unified_memory().unwrap_or(true),
        double_precision: device.double_fp_config().is_ok_and(|config| config != 0),
        half_precision: has_extension(*device, "cl_khr_fp16"),
        stream_priorities: has_extension(*device, "cl_khr_priority_hints"),
        shared_queues: false,
        capabilities: Capabilities {
            immediate_streams: *kind == Kind::Cpu && has_extension(*device, IMMEDIATE_QUEUES),
            gates: true,
            stream_words: false,
            pinned_memory: unified.offers(MemoryKind::Pinned),
            shared_memory: unified.offers(MemoryKind::Shared),
            combining: true,
            memory_export: false,
            stream_messages: false,
        },
    }
}
