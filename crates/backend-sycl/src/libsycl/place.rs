//! A device in a context of SYCL.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use haloport_core::device::{Capabilities, DeviceError, DeviceId, DeviceInfo, MemoryKind, Pointer};

use super::gates::Gates;
use super::handles::{ExportHandle, Exported, PlaceHandle};
use super::level_zero::LevelZero;
use super::native;
use super::shim::{self, Functions, Object, PlaceInfo};
use crate::foreign::{Allocation, not_of_context};
use crate::kind::Kind;
use crate::opencl;
use crate::opencl::handles::Context;
use crate::opencl::library::ANY;

/// A device in a context of SYCL.
pub(crate) struct Place {
    /// For queues of Level Zero. Dropped before the context.
    pub(super) gates: Option<Gates>,
    level_zero: Option<Arc<LevelZero>>,
    found: Arc<Found>,
    kind: Kind,
    info: DeviceInfo,
    /// The same device and context in OpenCL, for a queue of SYCL's OpenCL backend: its compiler, its gates and the
    /// bounds of its allocations.
    pub(super) opencl: Option<Arc<opencl::place::Place>>,
    /// See [`byte_for_markers`](Place::byte_for_markers).
    byte: Option<Pointer>,
}

/// A place that is not open yet.
pub(crate) struct Found {
    functions: &'static Functions,
    raw: PlaceHandle,
}

/// The backends of DPC++: `sycl::backend`.
const OPENCL: i32 = 1;
const LEVEL_ZERO: i32 = 2;

impl Found {
    /// The device and context of a queue.
    ///
    /// # Safety
    /// `queue` is a live `sycl::queue` of the library that the process has loaded.
    pub(crate) unsafe fn of_queue(queue: *const c_void) -> Result<Found, DeviceError> {
        // SAFETY: the caller's promise.
        Found::made(shim::functions()?, "the place of a sycl::queue", |functions, out| unsafe {
            (functions.place_of_queue)(queue, out)
        })
    }

    /// The only device of a context.
    ///
    /// # Safety
    /// `context` is a live `sycl::context` of the library that the process has loaded.
    pub(crate) unsafe fn of_context(context: *const c_void) -> Result<Found, DeviceError> {
        // SAFETY: the caller's promise.
        Found::made(shim::functions()?, "the place of a sycl::context", |functions, out| unsafe {
            (functions.place_of_context)(context, out)
        })
    }

    /// The device that a filter string names, in the default context of its platform.
    pub(crate) fn of_filter(filter: &str) -> Result<Found, DeviceError> {
        let c_filter = CString::new(filter).map_err(|_| {
            DeviceError::invalid("a filter string of SYCL", "no zero byte", format!("{filter:?}"))
        })?;
        let functions = shim::functions_for_device()?;
        // SAFETY: the text ends with 0.
        let found = Found::made(functions, "sycl::ext::oneapi::filter_selector", |functions, out| unsafe {
            (functions.place_of_filter)(c_filter.as_ptr(), out)
        });
        found.map_err(|error| match error {
            DeviceError::Driver { message, .. } => DeviceError::NotFound {
                what: format!("the device `{filter}`"),
                looked_for: format!("it among the devices of SYCL ({message})"),
                advice: "see which devices `sycl-ls` lists, or choose one of OpenCL, such as `sycl:gpu`"
                    .into(),
            },
            other => other,
        })
    }

    /// The native context and device of SYCL's OpenCL backend; `None` for another one.
    pub(crate) fn opencl(&self) -> Result<Option<(Context, *mut c_void)>, DeviceError> {
        if about(self)?.backend != OPENCL {
            return Ok(None);
        }
        let Found { functions, raw } = self;
        let (mut context, mut device) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the place is live.
        let status = unsafe { (functions.place_opencl)(raw.raw(), &raw mut context, &raw mut device) };
        functions.checked(status, "the OpenCL context of a SYCL context", ANY)?;
        // SAFETY: the call has taken a reference to the context for its caller.
        Ok(Some((unsafe { Context::own(context) }, device)))
    }

    /// Level Zero itself in the context; `None` if that is of another backend, or the loader is another one.
    fn level_zero(&self, about: &PlaceInfo) -> Result<Option<Arc<LevelZero>>, DeviceError> {
        if about.backend != LEVEL_ZERO {
            return Ok(None);
        }
        let mut context = ptr::null_mut();
        // SAFETY: the place is live.
        let status = unsafe { (self.functions.place_level_zero)(self.raw.raw(), &raw mut context) };
        self.functions.checked(status, "the Level Zero context of a SYCL context", ANY)?;
        // SAFETY: the context lives as long as the place, which keeps this and which every opening of a gate keeps.
        Ok(unsafe { LevelZero::in_context(context) }.map(Arc::new))
    }

    fn made(
        functions: &'static Functions,
        call: &'static str,
        make: impl FnOnce(&Functions, *mut Object) -> c_int,
    ) -> Result<Found, DeviceError> {
        let mut raw = ptr::null_mut();
        functions.checked(make(functions, &raw mut raw), call, ANY)?;
        // SAFETY: the call has made the place for its caller.
        Ok(Found { functions, raw: unsafe { PlaceHandle::own(functions, raw) } })
    }
}

/// The devices of a backend, by their numbers, in the default contexts of their platforms.
pub(crate) fn list(backend: &'static str) -> Result<Vec<DeviceInfo>, DeviceError> {
    let mut devices = Vec::new();
    loop {
        let index = devices.len() as u32;
        match Found::of_filter(&format!("{backend}:{index}")) {
            Ok(found) => {
                let about = about(&found)?;
                let kind = kind_of(&about)?;
                let id = DeviceId { backend, index, context: 0 };
                let mut info = info_of(&about, kind, id, None);
                info.capabilities.gates |= found.level_zero(&about)?.is_some();
                devices.push(info);
            }
            Err(DeviceError::NotFound { .. }) if index > 0 => return Ok(devices),
            Err(error) => return Err(error),
        }
    }
}

impl Place {
    /// Opens a place, whose context gets this number.
    pub(crate) fn open(found: Arc<Found>, number: u32) -> Result<Place, DeviceError> {
        let about = about(&found)?;
        if !matches!(about.backend, OPENCL | LEVEL_ZERO) {
            let found = match about.backend {
                3 => "one of the CUDA backend: pass its native stream, and arrays of CUDA".into(),
                6 => "one of the HIP backend".into(),
                other => format!("one of the backend with the number {other}"),
            };
            return Err(DeviceError::invalid(
                "a sycl::queue",
                "one of the Level Zero or the OpenCL backend",
                found,
            ));
        }
        // Not if Haloport cannot use the device there.
        let opencl = match found.opencl()?.filter(|_| !native::leaves_opencl_alone()) {
            Some((context, device)) => opencl::select::candidate_of(device)
                .ok()
                .map(|candidate| opencl::place::Place::in_context(candidate, context, number))
                .transpose()?,
            None => None,
        };
        let level_zero = found.level_zero(&about)?;
        let kind = kind_of(&about)?;
        let id = match &opencl {
            _ if about.backend == LEVEL_ZERO => {
                let context = if about.default_context != 0 { 0 } else { number };
                DeviceId { backend: "level_zero", index: about.number.cast_unsigned(), context }
            }
            opencl => {
                let index = opencl.as_ref().map_or(0, |place| place.id().index);
                DeviceId { backend: "sycl", index, context: number }
            }
        };
        let mut info = info_of(&about, kind, id, opencl.as_deref());
        info.capabilities.gates |= level_zero.is_some();
        let gates = level_zero.clone().map(Gates::new);
        let mut place = Place { gates, level_zero, found, kind, info, opencl, byte: None };
        // The second adapter's platform has the name "… over Level-Zero V2".
        if about.backend == LEVEL_ZERO && !place.info.driver.contains("V2") {
            let memory = place.allocate(1, MemoryKind::Device);
            if memory.is_null() {
                return Err(DeviceError::OutOfMemory { bytes: 1, kind: MemoryKind::Device, device: id });
            }
            place.byte = Some(Pointer::new(memory.cast()));
        }
        Ok(place)
    }

    /// Whether it is the same device in the same context.
    pub(crate) fn is(&self, found: &Found) -> bool {
        // SAFETY: both are live.
        unsafe { (self.functions().place_equal)(self.raw(), found.raw.raw()) != 0 }
    }

    pub(super) fn functions(&self) -> &'static Functions {
        self.found.functions
    }

    pub(super) fn raw(&self) -> Object {
        self.found.raw.raw()
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

    /// The addresses of the `cl_context` and the `cl_device_id`, for SYCL's OpenCL backend, else zeros.
    pub(crate) fn native(&self) -> (usize, usize) {
        self.opencl.as_ref().map_or((0, 0), |place| place.native())
    }

    pub(crate) fn name(&self) -> String {
        format!("the SYCL context of {}", self.id())
    }

    /// Whether the driver compiles OpenCL C for certain.
    pub(crate) fn has_compiler(&self) -> bool {
        self.opencl.is_some()
    }

    pub(crate) fn offers(&self, kind: MemoryKind) -> bool {
        match kind {
            MemoryKind::Device => true,
            MemoryKind::Pinned => self.info.capabilities.pinned_memory,
            MemoryKind::Shared => self.info.capabilities.shared_memory,
        }
    }

    /// Allocates memory of a kind that the device has, not initialised; null if there is not enough.
    pub(crate) fn allocate(&self, bytes: usize, kind: MemoryKind) -> *mut c_void {
        // DPC++'s adapter for Level Zero rounds sizes up, and gives 64 KiB for the largest ones.
        if isize::try_from(bytes).is_err() {
            return ptr::null_mut();
        }
        let kind = match kind {
            MemoryKind::Device => 0,
            MemoryKind::Pinned => 1,
            MemoryKind::Shared => 2,
        };
        let mut memory = ptr::null_mut();
        // SAFETY: the place is live.
        let status = unsafe { (self.functions().allocate)(self.raw(), kind, bytes, &raw mut memory) };
        if status == shim::OK { memory } else { ptr::null_mut() }
    }

    /// # Safety
    /// `memory` came from [`allocate`](Place::allocate), is freed once, and no command uses it any more.
    pub(crate) unsafe fn free(&self, memory: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { (self.functions().free)(self.raw(), memory) };
    }

    /// Lets other processes map the device memory at an address.
    ///
    /// # Safety
    /// `memory` came from [`allocate`](Place::allocate), for the device, and is freed after the result is dropped.
    pub(crate) unsafe fn export(&self, memory: *mut c_void) -> Result<Exported, DeviceError> {
        let functions = self.functions();
        let mut raw = ptr::null_mut();
        // SAFETY: the place is live, and the memory is of it.
        let status = unsafe { (functions.export_create)(self.raw(), memory, &raw mut raw) };
        functions.checked(status, "sycl::ext::oneapi::experimental::ipc::memory::get", self.id())?;
        // SAFETY: the call has made the object for its caller.
        let handle = unsafe { ExportHandle::own(functions, raw) };
        let mut bytes = 0;
        // SAFETY: the object is live, and so are the bytes of its token as long.
        let token = unsafe {
            let first = (functions.export_token)(handle.raw(), &raw mut bytes);
            std::slice::from_raw_parts(first.cast::<u8>(), bytes).to_vec()
        };
        Ok(Exported { token, _handle: handle })
    }

    /// Maps memory of another process, by its token.
    ///
    /// # Safety
    /// That process keeps the memory until [`close`](Place::close).
    pub(crate) unsafe fn import(&self, token: &[u8]) -> Result<*mut c_void, DeviceError> {
        let mut memory = ptr::null_mut();
        // SAFETY: the place is live, and the token is as long as that.
        let status = unsafe {
            (self.functions().import_open)(self.raw(), token.as_ptr().cast(), token.len(), &raw mut memory)
        };
        let call = "sycl::ext::oneapi::experimental::ipc::memory::open";
        self.functions().checked(status, call, self.id())?;
        Ok(memory)
    }

    /// # Safety
    /// `memory` came from [`import`](Place::import), is closed once, and no command uses it any more.
    pub(crate) unsafe fn close(&self, memory: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { (self.functions().import_close)(self.raw(), memory) };
    }

    /// Memory whose fills stand for barriers of queues that are in order, where these do harm.
    ///
    /// DPC++'s first adapter for Level Zero (2026.2) clears the event of a completed barrier a second time after it has given the
    /// event away: another thread may have taken it for a command of its own by then.
    pub(super) fn byte_for_markers(&self) -> Option<Pointer> {
        self.byte
    }

    /// The allocation that an address points into.
    pub(crate) fn allocation(&self, pointer: Pointer) -> Result<Allocation, DeviceError> {
        if let Some(opencl) = &self.opencl {
            return opencl.allocation(pointer);
        }
        let (mut kind, mut here) = (0, 0);
        let address = pointer.as_ptr().cast::<c_void>().cast_const();
        // SAFETY: the place is live; the address is not followed.
        let status =
            unsafe { (self.functions().memory_at)(self.raw(), address, &raw mut kind, &raw mut here) };
        self.functions().checked(status, "the kind of memory at an address", self.id())?;
        let kind = match kind {
            0 => MemoryKind::Device,
            1 => MemoryKind::Pinned,
            2 => MemoryKind::Shared,
            _ => {
                let found = "one of another context, or not of unified shared memory";
                return Err(not_of_context(&self.name(), pointer, found));
            }
        };
        if kind == MemoryKind::Device && here == 0 {
            return Err(not_of_context(&self.name(), pointer, "one of another device of the context"));
        }
        let addresses = self.level_zero.as_ref().and_then(|driver| driver.addresses_around(address));
        Ok(Allocation { kind, addresses })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(byte) = self.byte {
            // SAFETY: it came from `allocate`. Queues keep their place, so that no command uses it any more.
            unsafe { self.free(byte.as_ptr().cast()) };
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.info).finish()
    }
}

fn about(found: &Found) -> Result<PlaceInfo, DeviceError> {
    let mut about = MaybeUninit::<PlaceInfo>::zeroed();
    // SAFETY: the place is live.
    let status = unsafe { (found.functions.place_about)(found.raw.raw(), about.as_mut_ptr()) };
    found.functions.checked(status, "the properties of a SYCL device", ANY)?;
    // SAFETY: zeros are valid, and the call has written the rest.
    Ok(unsafe { about.assume_init() })
}

fn kind_of(about: &PlaceInfo) -> Result<Kind, DeviceError> {
    match about.kind {
        0 => Ok(Kind::Gpu),
        1 => Ok(Kind::Accelerator),
        2 => Ok(Kind::Cpu),
        other => Err(DeviceError::invalid(
            "the device of a SYCL queue",
            "a GPU, an accelerator or a CPU",
            format!("type {other}"),
        )),
    }
}

fn info_of(about: &PlaceInfo, kind: Kind, id: DeviceId, opencl: Option<&opencl::place::Place>) -> DeviceInfo {
    let text = |text: &[c_char]| {
        let bytes: Vec<u8> = text.iter().map(|byte| byte.cast_unsigned()).collect();
        CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy().trim().to_string()
    };
    DeviceInfo {
        id,
        name: text(&about.name),
        driver: format!("{}, by SYCL", text(&about.driver)),
        compute_units: about.compute_units as usize,
        memory_bytes: Some(about.memory_bytes),
        asynchronous: true,
        host_accessible: false,
        separate_memory: kind != Kind::Cpu && about.integrated == 0,
        double_precision: about.double_precision != 0,
        half_precision: about.half_precision != 0,
        stream_priorities: opencl.is_none_or(|place| place.info().stream_priorities),
        shared_queues: false,
        capabilities: Capabilities {
            immediate_streams: opencl.is_some_and(|place| place.info().capabilities.immediate_streams),
            gates: opencl.is_some(),
            stream_words: false,
            pinned_memory: about.host_memory != 0,
            shared_memory: about.shared_memory != 0,
            combining: true,
            memory_export: about.memory_export != 0,
            stream_messages: false,
        },
    }
}
