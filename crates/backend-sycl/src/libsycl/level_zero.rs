//! What SYCL does not offer and Level Zero does: events that the host signals, and the bounds of allocations.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use haloport_core::device::DeviceError;
use libloading::os::unix::{Library, RTLD_NOW};

use crate::opencl::library::ANY;

/// The functions of Level Zero's loader, which DPC++ has loaded, in a context.
pub(super) struct LevelZero {
    functions: Functions,
    /// A `ze_context_handle_t`.
    context: *mut c_void,
    _library: Library,
}

/// An event that the host signals.
pub(super) struct HostEvent {
    driver: Arc<LevelZero>,
    pool: *mut c_void,
    event: *mut c_void,
}

/// `ze_event_pool_desc_t`.
#[repr(C)]
struct PoolDescription {
    kind: u32,
    next: *const c_void,
    flags: u32,
    count: u32,
}

/// `ze_event_desc_t`.
#[repr(C)]
struct EventDescription {
    kind: u32,
    next: *const c_void,
    index: u32,
    signal: u32,
    wait: u32,
}

/// A handle of Level Zero.
type Handle = *mut c_void;

struct Functions {
    pool_create: unsafe extern "C" fn(Handle, *const PoolDescription, u32, *mut Handle, *mut Handle) -> c_int,
    pool_destroy: unsafe extern "C" fn(Handle) -> c_int,
    event_create: unsafe extern "C" fn(Handle, *const EventDescription, *mut Handle) -> c_int,
    event_destroy: unsafe extern "C" fn(Handle) -> c_int,
    event_signal: unsafe extern "C" fn(Handle) -> c_int,
    event_reset: unsafe extern "C" fn(Handle) -> c_int,
    address_range: unsafe extern "C" fn(Handle, *const c_void, *mut *mut c_void, *mut usize) -> c_int,
}

/// The library that DPC++'s adapters for Level Zero load.
const LOADER: &str = "libze_loader.so.1";

/// `ZE_STRUCTURE_TYPE_EVENT_POOL_DESC` and `ZE_STRUCTURE_TYPE_EVENT_DESC`.
const POOL: u32 = 0x10;
const EVENT: u32 = 0x11;
/// `ZE_EVENT_POOL_FLAG_HOST_VISIBLE`: the host may signal the events.
const HOST_VISIBLE: u32 = 1;
/// `ZE_EVENT_SCOPE_FLAG_HOST`: what the host has written before it signals is visible to commands behind the event.
const HOST_SCOPE: u32 = 4;

impl LevelZero {
    /// The loader in a context; `None` if the process has loaded none that has all functions.
    ///
    /// # Safety
    /// `context` is a `ze_context_handle_t`, which lives as long as this and all of its events are used.
    pub(super) unsafe fn in_context(context: Handle) -> Option<LevelZero> {
        // SAFETY: with RTLD_NOLOAD nothing is loaded, so no code of the library runs.
        let library = unsafe { Library::open(Some(LOADER), RTLD_NOW | libc::RTLD_NOLOAD) }.ok()?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the loader exports the function of this name, whose type is that of its field.
                *unsafe { library.get($name) }.ok()?
            };
        }
        let functions = Functions {
            pool_create: function!(b"zeEventPoolCreate"),
            pool_destroy: function!(b"zeEventPoolDestroy"),
            event_create: function!(b"zeEventCreate"),
            event_destroy: function!(b"zeEventDestroy"),
            event_signal: function!(b"zeEventHostSignal"),
            event_reset: function!(b"zeEventHostReset"),
            address_range: function!(b"zeMemGetAddressRange"),
        };
        Some(LevelZero { functions, context, _library: library })
    }

    /// The addresses of the allocation that `address` points into; `None` if Level Zero knows none.
    pub(super) fn addresses_around(&self, address: *const c_void) -> Option<Range<usize>> {
        let (mut start, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: the context is live; the address is not followed.
        let status =
            unsafe { (self.functions.address_range)(self.context, address, &raw mut start, &raw mut bytes) };
        (status == 0 && !start.is_null()).then(|| start.addr()..start.addr() + bytes)
    }
}

impl HostEvent {
    /// An event that is not signalled.
    pub(super) fn new(driver: &Arc<LevelZero>) -> Result<HostEvent, DeviceError> {
        let (mut pool, mut event) = (ptr::null_mut(), ptr::null_mut());
        let description = PoolDescription { kind: POOL, next: ptr::null(), flags: HOST_VISIBLE, count: 1 };
        let functions = &driver.functions;
        // SAFETY: the context is live; no devices means all of the context.
        let status = unsafe {
            (functions.pool_create)(driver.context, &raw const description, 0, ptr::null_mut(), &raw mut pool)
        };
        checked("zeEventPoolCreate", status)?;
        let (signal, wait) = (HOST_SCOPE, HOST_SCOPE);
        let description = EventDescription { kind: EVENT, next: ptr::null(), index: 0, signal, wait };
        // SAFETY: the pool is live and holds one event.
        let status = unsafe { (functions.event_create)(pool, &raw const description, &raw mut event) };
        if let Err(error) = checked("zeEventCreate", status) {
            // SAFETY: the pool holds no event.
            unsafe { (functions.pool_destroy)(pool) };
            return Err(error);
        }
        Ok(HostEvent { driver: Arc::clone(driver), pool, event })
    }

    /// The `ze_event_handle_t`.
    pub(super) fn handle(&self) -> *mut c_void {
        self.event
    }

    pub(super) fn signal(&self) -> Result<(), DeviceError> {
        // SAFETY: the event is live.
        checked("zeEventHostSignal", unsafe { (self.driver.functions.event_signal)(self.event) })
    }

    /// Makes it one that is not signalled. No command waits for it.
    pub(super) fn reset(&self) -> Result<(), DeviceError> {
        // SAFETY: the event is live.
        checked("zeEventHostReset", unsafe { (self.driver.functions.event_reset)(self.event) })
    }
}

impl Drop for HostEvent {
    fn drop(&mut self) {
        // SAFETY: this owns both, and its owner has made sure that no command waits for the event.
        unsafe {
            (self.driver.functions.event_destroy)(self.event);
            (self.driver.functions.pool_destroy)(self.pool);
        }
    }
}

fn checked(call: &'static str, status: c_int) -> Result<(), DeviceError> {
    let message = || format!("status {:#x} of Level Zero", status.cast_unsigned());
    if status == 0 { Ok(()) } else { Err(DeviceError::Driver { call, device: ANY, message: message() }) }
}

// SAFETY: any thread may call the functions, and use the context.
unsafe impl Send for LevelZero {}
// SAFETY: as above.
unsafe impl Sync for LevelZero {}
// SAFETY: any thread may signal an event, and look at it.
unsafe impl Send for HostEvent {}
// SAFETY: as above.
unsafe impl Sync for HostEvent {}

impl fmt::Debug for LevelZero {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LevelZero({:p})", self.context)
    }
}

impl fmt::Debug for HostEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostEvent({:p})", self.event)
    }
}
