//! Queues, and gates in them.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use haloport_core::device::{DeviceError, Pointer, Priority};

use super::event::Marker;
use super::gates::Gate;
use super::handles::QueueHandle;
use super::place::Place;
use super::program::Kernel;
use super::shim::{self, Functions, Object, QueueInfo};
use crate::driver::NdRange;
use crate::opencl;
use crate::opencl::event::Opening;
use crate::opencl::library::count_blocking_call;

/// A queue of Haloport, or one that shares the queue of the program.
#[derive(Debug)]
pub(crate) struct Queue {
    place: Arc<Place>,
    queue: QueueHandle,
    /// The address of the `sycl::queue`: the program's, if that outlives this, else its own.
    handle: usize,
    in_order: bool,
    /// The queue of OpenCL behind it, if each command is executed by the thread that puts it there: DPC++ (2026.2) takes no
    /// reference to it. Dropped after the `sycl::queue`.
    immediate: Option<opencl::queue::Queue>,
    /// Whether its events have a time.
    profiling: bool,
    /// A second queue with profiling, made for the first event with timing: queues with profiling are slower.
    clock: OnceLock<Box<Queue>>,
    /// Held for reading while a command is put there, and for writing while SYCL waits for the queue itself, which is empty then.
    settling: RwLock<()>,
}

/// Opens a gate when this is dropped.
struct Opens {
    gate: Arc<Gate>,
    /// Keeps the context of the gate.
    _place: Arc<Place>,
}

impl Queue {
    /// Makes an in-order queue.
    pub(crate) fn new(place: &Arc<Place>, priority: Priority) -> Result<Queue, DeviceError> {
        let priority = match priority {
            Priority::High => 1,
            Priority::Normal => 0,
            Priority::Low => -1,
        };
        Queue::create(place, priority, false)
    }

    /// Makes a queue whose commands are executed by the thread that puts them there, on a device of OpenCL that has such.
    pub(crate) fn immediate(place: &Arc<Place>) -> Result<Queue, DeviceError> {
        let Some(opencl) = &place.opencl else {
            return Err(DeviceError::Unsupported { what: "immediate streams", device: place.id() });
        };
        let native = opencl::queue::Queue::immediate(opencl)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the place is live, and the queue is one of its context and device.
        let status = unsafe {
            (place.functions().queue_of_opencl)(place.raw(), native.handle() as *mut c_void, &raw mut raw)
        };
        place.functions().checked(status, "sycl::make_queue", place.id())?;
        // SAFETY: the call has made the queue for its caller.
        let queue = unsafe { QueueHandle::own(place.functions(), raw) };
        Ok(Queue { immediate: Some(native), ..Queue::in_order_of(place, queue, false) })
    }

    fn in_order_of(place: &Arc<Place>, queue: QueueHandle, profiling: bool) -> Queue {
        // SAFETY: the queue is live.
        let handle = unsafe { (place.functions().queue_handle)(queue.raw()) }.addr();
        let (place, clock) = (Arc::clone(place), OnceLock::new());
        Queue {
            place,
            queue,
            handle,
            in_order: true,
            immediate: None,
            profiling,
            clock,
            settling: RwLock::default(),
        }
    }

    /// Makes an in-order queue. The priority is 0, or above or below.
    fn create(place: &Arc<Place>, priority: i32, profiling: bool) -> Result<Queue, DeviceError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the place is live.
        let status = unsafe {
            (place.functions().queue_create)(place.raw(), priority, i32::from(profiling), &raw mut raw)
        };
        place.functions().checked(status, "making a sycl::queue", place.id())?;
        // SAFETY: the call has made the queue for its caller.
        let queue = unsafe { QueueHandle::own(place.functions(), raw) };
        Ok(Queue::in_order_of(place, queue, profiling))
    }

    /// Shares a queue of the program, if it is of this place.
    ///
    /// # Safety
    /// `handle` is the address of a live `sycl::queue`; if `borrowed`, it outlives this one.
    pub(crate) unsafe fn foreign(
        place: &Arc<Place>,
        handle: usize,
        borrowed: bool,
    ) -> Result<Queue, DeviceError> {
        let functions = place.functions();
        let mut raw = ptr::null_mut();
        // SAFETY: the caller's promise.
        let status = unsafe { (functions.queue_adopt)(handle as *const c_void, &raw mut raw) };
        functions.checked(status, "sharing a sycl::queue", place.id())?;
        // SAFETY: the call has made the object for its caller.
        let queue = unsafe { QueueHandle::own(functions, raw) };
        let mut about = QueueInfo::default();
        // SAFETY: queue and place are live.
        let status = unsafe { (functions.queue_about)(queue.raw(), &raw mut about) };
        functions.checked(status, "the properties of a sycl::queue", place.id())?;
        // SAFETY: as above.
        if unsafe { (functions.queue_is_of)(queue.raw(), place.raw()) } == 0 {
            return Err(DeviceError::invalid(
                "the handle of a SYCL stream",
                format!("a queue of {}", place.name()),
                "one of another context or device",
            ));
        }
        let native = place.opencl.as_ref().map(|opencl| native_of(functions, &queue, opencl)).transpose()?;
        let immediate = native.filter(opencl::queue::Queue::is_immediate);
        let (in_order, profiling) = (about.in_order != 0 || immediate.is_some(), about.profiling != 0);
        // SAFETY: as above.
        let own = unsafe { (functions.queue_handle)(queue.raw()) }.addr();
        let handle = if borrowed { handle } else { own };
        let (place, clock) = (Arc::clone(place), OnceLock::new());
        Ok(Queue { place, queue, handle, in_order, immediate, profiling, clock, settling: RwLock::default() })
    }

    /// The address of the `sycl::queue`.
    pub(crate) fn handle(&self) -> usize {
        self.handle
    }

    pub(crate) fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// Whether each command is executed by the thread that puts it there, before the call returns.
    pub(crate) fn is_immediate(&self) -> bool {
        self.immediate.is_some()
    }

    /// Puts a copy into the queue. If `blocking`, it is complete when the call returns.
    ///
    /// # Safety
    /// As for [`Device::copy`](haloport_core::device::Device::copy), on this queue.
    pub(crate) unsafe fn copy(
        &self,
        (source, target): (Pointer, Pointer),
        bytes: usize,
        blocking: bool,
    ) -> Result<(), DeviceError> {
        let (from, to) = (source.as_ptr().cast::<c_void>(), target.as_ptr().cast::<c_void>());
        let putting = self.putting();
        // SAFETY: the caller's promise.
        let status = unsafe { (self.functions().copy)(self.queue.raw(), to, from, bytes) };
        drop(putting);
        let put = self.checked(status, "sycl::queue::memcpy");
        // Wait even after an error: when this returns the caller may reuse the memory.
        let done = if blocking { self.finish() } else { Ok(()) };
        put.and(done)
    }

    /// Whether [`fill`](Queue::fill) takes elements of this value: SYCL fills with bytes alone on all backends.
    pub(crate) fn fills(&self, _target: Pointer, element: &[u8]) -> bool {
        element.iter().all(|byte| *byte == element[0])
    }

    /// Puts a fill of `bytes` bytes into the queue.
    ///
    /// # Safety
    /// As for [`Device::fill`](haloport_core::device::Device::fill), on this queue, which [`fills`](Queue::fills) so.
    pub(crate) unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        bytes: usize,
    ) -> Result<(), DeviceError> {
        let byte = element.first().map_or(0, |byte| i32::from(*byte));
        let _putting = self.putting();
        // SAFETY: the caller's promise.
        let status =
            unsafe { (self.functions().fill)(self.queue.raw(), target.as_ptr().cast(), byte, bytes) };
        self.checked(status, "sycl::queue::memset")
    }

    /// Puts a kernel into the queue, whose arguments are all set.
    ///
    /// # Safety
    /// As for [`Device::launch`](haloport_core::device::Device::launch), on this queue.
    pub(crate) unsafe fn launch(&self, kernel: &Kernel, range: NdRange) -> Result<(), DeviceError> {
        let arguments = kernel.arguments();
        let (global, group) = (range.global.as_ptr(), range.group.as_ptr());
        let _putting = self.putting();
        // SAFETY: queue and kernel are live, the sizes have three numbers each, the arguments' values live as long as the
        // kernel, and the caller promised that it may run.
        let status = unsafe {
            (self.functions().launch)(
                self.queue.raw(),
                kernel.raw(),
                global,
                group,
                arguments.as_ptr(),
                arguments.len(),
            )
        };
        self.checked(status, "launching a kernel of SYCL")
    }

    /// Makes later commands wait for all earlier ones, and for `event` if there is one.
    pub(crate) fn barrier(&self, event: Option<&Marker>) -> Result<(), DeviceError> {
        let status = self.put_barrier(event, ptr::null_mut());
        self.checked(status, "a barrier in a sycl::queue")
    }

    /// Puts a marker into the queue, which is reached when all earlier commands are complete.
    pub(crate) fn marker(&self) -> Result<Marker, DeviceError> {
        self.marker_behind(None)
    }

    /// A marker of a queue with profiling that is reached together with `reached`, a marker of this queue.
    pub(crate) fn time_of(&self, reached: &Marker) -> Result<Marker, DeviceError> {
        let clock = match self.clock.get() {
            _ if self.profiling => self,
            Some(clock) => clock,
            None => {
                let clock = Box::new(Queue::create(&self.place, 0, true)?);
                self.clock.get_or_init(|| clock)
            }
        };
        // In the queue of the marker, everything before it is before this one.
        clock.marker_behind((!self.profiling).then_some(reached))
    }

    /// Makes the driver begin with the commands in the queue.
    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        // SAFETY: the queue is live.
        let status = unsafe { (self.functions().queue_flush)(self.queue.raw()) };
        self.checked(status, "sycl::queue::ext_oneapi_prod")
    }

    /// Blocks until all commands in the queue are complete.
    ///
    /// For a queue that is out of order, the thread polls, as [`Marker::wait`] does. While DPC++'s adapters for Level Zero wait for a
    /// queue itself, no other thread can put commands into it; but the second one keeps the kernels of a queue until somebody does.
    /// So the thread waits for a marker first, and then for the queue if that is empty, while nothing that waits for another thread
    /// can be put there.
    pub(crate) fn finish(&self) -> Result<(), DeviceError> {
        let by_marker = !self.in_order || self.place.opencl.is_none();
        let marker = if by_marker { self.marker().ok() } else { None };
        if let Some(marker) = marker {
            marker.wait()?;
            // Where another thread puts a command there, a later call settles.
            let settling = self.settling.try_write();
            // SAFETY: the queue is live, and no other thread puts commands there while the lock is held.
            let status =
                unsafe { (self.functions().queue_settle)(self.queue.raw(), i32::from(settling.is_ok())) };
            return self.checked(status, "a command of a sycl::queue");
        }
        count_blocking_call();
        // SAFETY: the queue is live.
        let status = unsafe { (self.functions().queue_wait)(self.queue.raw()) };
        self.checked(status, "sycl::queue::wait")
    }

    /// Holds later commands back until the function is called or dropped.
    pub(crate) fn gate(&self) -> Result<Opening, DeviceError> {
        let (functions, id) = (self.functions(), self.place.id());
        if let Some(opencl) = &self.place.opencl {
            let (reached, open) = opencl.gate()?;
            let reached = Marker::made(functions, true, id, "sycl::make_event", |out| {
                // SAFETY: the event is live and of the place's context.
                unsafe { (functions.event_of_opencl)(self.place.raw(), reached.raw(), out) }
            })?;
            self.barrier(Some(&reached))?;
            return Ok(open);
        }
        let Some(gates) = &self.place.gates else {
            return Err(DeviceError::Unsupported { what: "gates", device: id });
        };
        let gate = gates.closed()?;
        let opens = Opens { gate: Arc::clone(&gate), _place: Arc::clone(&self.place) };
        let reached = Marker::made(functions, true, id, "sycl::make_event", |out| {
            // SAFETY: the event is live and of the place's context.
            unsafe { (functions.event_of_level_zero)(self.place.raw(), gate.event(), out) }
        })?;
        match self.marker_behind(Some(&reached)) {
            Ok(behind) => gates.put(gate, behind),
            Err(error) => {
                // A part of the commands may be in the queue and wait for the event, which is never destroyed.
                std::mem::forget(gate);
                return Err(error);
            }
        }
        Ok(Box::new(move || drop(opens)))
    }

    /// A marker that is reached after all earlier commands and after `event`.
    fn marker_behind(&self, event: Option<&Marker>) -> Result<Marker, DeviceError> {
        Marker::made(self.functions(), self.in_order, self.place.id(), "a barrier in a sycl::queue", |out| {
            match self.place.byte_for_markers() {
                Some(byte) if !self.in_order => match self.put_barrier(event, ptr::null_mut()) {
                    shim::OK => self.put_mark(byte, None, out),
                    status => status,
                },
                _ => self.put_barrier(event, out),
            }
        })
    }

    /// Puts a barrier into the queue, and returns the status. `out` is null, or becomes its event.
    fn put_barrier(&self, event: Option<&Marker>, out: *mut Object) -> c_int {
        let _putting = self.putting();
        if let Some(byte) = self.place.byte_for_markers().filter(|_| self.in_order) {
            return self.put_mark(byte, event, out);
        }
        let event = event.map(Marker::raw);
        let list = event.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: queue and event are live.
        unsafe { (self.functions().barrier)(self.queue.raw(), list, usize::from(event.is_some()), out) }
    }

    /// The same, as a fill of this byte of the place.
    fn put_mark(&self, byte: Pointer, event: Option<&Marker>, out: *mut Object) -> c_int {
        let event = event.map(Marker::raw);
        let (list, count) = (event.as_ref().map_or(ptr::null(), ptr::from_ref), usize::from(event.is_some()));
        // SAFETY: queue and event are live, and the queue keeps its place.
        unsafe { (self.functions().mark)(self.queue.raw(), byte.as_ptr().cast(), list, count, out) }
    }

    /// Keeps SYCL from waiting for the queue itself while a command is put there.
    fn putting(&self) -> RwLockReadGuard<'_, ()> {
        self.settling.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn functions(&self) -> &'static Functions {
        self.place.functions()
    }

    fn checked(&self, status: c_int, call: &'static str) -> Result<(), DeviceError> {
        self.functions().checked(status, call, self.place.id())
    }
}

/// The queue of OpenCL behind one of SYCL.
fn native_of(
    functions: &Functions,
    queue: &QueueHandle,
    place: &Arc<opencl::place::Place>,
) -> Result<opencl::queue::Queue, DeviceError> {
    let mut native = ptr::null_mut();
    // SAFETY: the queue is live.
    let status = unsafe { (functions.queue_opencl)(queue.raw(), &raw mut native) };
    functions.checked(status, "the OpenCL queue of a sycl::queue", place.id())?;
    // SAFETY: the call has taken a reference for its caller.
    opencl::queue::Queue::foreign(place, unsafe { opencl::handles::QueueHandle::own(native) })
}

impl Drop for Opens {
    fn drop(&mut self) {
        self.gate.open();
    }
}
