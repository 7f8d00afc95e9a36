//! A device in a context.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use cl3::OpenClRuntime;
use cl3::context::{CL_CONTEXT_PLATFORM, create_context};
use cl3::event::create_user_event;
use haloport_core::device::{Capabilities, DeviceError, DeviceId, DeviceInfo, MemoryKind};
use opencl3::device::Device;

use super::event::{Gate, Marker, Opening};
use super::handles::{Context, EventHandle};
use super::library::{failed, has_extension, library, text};
use super::select::Candidate;
use super::unified::Unified;
use crate::kind::Kind;

/// The extension for queues whose commands are executed by the thread that puts them there.
const IMMEDIATE_QUEUES: &str = "cl_intel_exec_by_local_thread";

/// A device in a context of OpenCL.
pub(crate) struct Place {
    pub(super) library: &'static OpenClRuntime,
    pub(super) device: Device,
    pub(super) unified: Unified,
    pub(super) context: Context,
    pub(super) kind: Kind,
    pub(super) info: DeviceInfo,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.info).finish()
    }
}

impl Place {
    /// A device in a context of its own.
    pub(crate) fn new(candidate: Candidate) -> Result<Arc<Place>, DeviceError> {
        library()?;
        let properties = [CL_CONTEXT_PLATFORM, candidate.platform.id().addr() as isize, 0];
        let devices = [candidate.device.id()];
        let context = create_context(&devices, properties.as_ptr(), None, std::ptr::null_mut())
            .map_err(failed("clCreateContext", info_of(&candidate).id))?;
        // SAFETY: the context is new, and its reference has no other owner.
        Place::in_context(candidate, unsafe { Context::own(context) }, 0)
    }

    /// A device in a context of another program, which gets this number.
    pub(crate) fn in_context(
        candidate: Candidate,
        context: Context,
        number: u32,
    ) -> Result<Arc<Place>, DeviceError> {
        let library = library()?;
        let mut info = info_of(&candidate);
        info.id.context = number;
        let Candidate { device, kind, unified, .. } = candidate;
        Ok(Arc::new(Place { library, device, unified, context, kind, info }))
    }

    pub(crate) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.info.id
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it is this device in a context of Haloport.
    pub(crate) fn is_own(&self, device: usize) -> bool {
        self.device.id().addr() == device && self.id().context == 0
    }

    /// The addresses of the context and of the device.
    pub(crate) fn native(&self) -> (usize, usize) {
        (self.context.raw().addr(), self.device.id().addr())
    }

    pub(crate) fn name(&self) -> String {
        format!("the context {:p} of {}", self.context.raw(), self.id())
    }

    /// Whether the device has memory of this kind.
    pub(crate) fn offers(&self, kind: MemoryKind) -> bool {
        self.unified.offers(kind)
    }

    /// Allocates memory of a kind that the device has, not initialised; null if there is not enough.
    pub(crate) fn allocate(&self, bytes: usize, kind: MemoryKind) -> *mut c_void {
        self.unified.allocate(self.context.raw(), self.device.id(), bytes, kind)
    }

    /// # Safety
    /// `memory` came from [`allocate`](Place::allocate), is freed once, and no command uses it any more.
    pub(crate) unsafe fn free(&self, memory: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { self.unified.free(self.context.raw(), memory) };
    }

    /// A marker that is reached when the function is called or dropped.
    pub(crate) fn gate(&self) -> Result<(Marker, Opening), DeviceError> {
        let call = "clCreateUserEvent";
        let event = create_user_event(self.context.raw()).map_err(failed(call, self.id()))?;
        // SAFETY: the event is new, and its reference has no other owner.
        let event = unsafe { EventHandle::own(event) };
        // SAFETY: the event is alive.
        let gate = Gate(unsafe { EventHandle::retain(event.raw()) }.map_err(failed(call, self.id()))?);
        Ok((Marker::new(event, true, self.id()), Box::new(move || drop(gate))))
    }

    /// Whether the driver is Intel's runtime for CPUs, the only one with immediate streams.
    pub(super) fn is_intels_cpu_runtime(&self) -> bool {
        self.info.capabilities.immediate_streams
    }
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
