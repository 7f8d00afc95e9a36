//! A program beside Haloport, with contexts and queues of its own: of OpenCL, or of SYCL if the device under test is one of SYCL.
//! Those of SYCL are made by dpctl's library for C, which `HALOPORT_DPCTL` names.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use cl3::command_queue::{
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROPERTIES, create_command_queue_with_properties,
    enqueue_svm_mem_cpy, flush, release_command_queue,
};
use cl3::context::{create_context, release_context};
use cl3::event::release_event;
use haloport_core::device::{Device, DeviceError, Pointer};
use haloport_sycl::{SyclDevice, SyclStream};
use libloading::Library;

type Object = *mut c_void;

/// A queue of the program, released when it is dropped.
pub(crate) struct Queue {
    raw: Object,
    sycl: Option<&'static Dpctl>,
}

/// A context of the program on the device under test, other than Haloport's, with a queue.
pub(crate) struct Context {
    raw: Object,
    pub(crate) queue: Queue,
}

/// A device in a context, as the program names it: no object of Haloport.
struct Place {
    context: Object,
    device: Object,
}

/// Functions of dpctl's library.
struct Dpctl {
    selector: unsafe extern "C" fn(*const c_char) -> Object,
    device: unsafe extern "C" fn(Object) -> Object,
    context: unsafe extern "C" fn(Object, Object, c_int) -> Object,
    queue_for_device: unsafe extern "C" fn(Object, Object, c_int) -> Object,
    queue: unsafe extern "C" fn(Object, Object, Object, c_int) -> Object,
    copy: unsafe extern "C" fn(Object, Object, *const c_void, usize, *const Object, usize) -> Object,
    delete_selector: unsafe extern "C" fn(Object),
    delete_device: unsafe extern "C" fn(Object),
    delete_context: unsafe extern "C" fn(Object),
    delete_queue: unsafe extern "C" fn(Object),
    delete_event: unsafe extern "C" fn(Object),
}

/// `DPCTL_IN_ORDER`.
const IN_ORDER: c_int = 1 << 1;

impl Queue {
    /// A queue that is out of order, in Haloport's context.
    pub(crate) fn out_of_order(device: &SyclDevice) -> Queue {
        match Dpctl::of(device) {
            // SAFETY: a null handler is none.
            Some(dpctl) => dpctl.on_device(|of| unsafe {
                Queue { raw: made((dpctl.queue_for_device)(of, ptr::null_mut(), 0)), sycl: Some(dpctl) }
            }),
            None => {
                let (context, device) = device.native();
                Queue::of_opencl(Place { context: context as Object, device: device as Object }, true)
            }
        }
    }

    fn of_opencl(Place { context, device }: Place, out_of_order: bool) -> Queue {
        let mode = if out_of_order { CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE } else { 0 };
        let properties = [CL_QUEUE_PROPERTIES as u64, mode, 0];
        // SAFETY: the handles are live; the queue is released when this is dropped.
        let queue =
            unsafe { create_command_queue_with_properties(context, device, properties.as_ptr().cast()) };
        Queue { raw: queue.unwrap(), sycl: None }
    }

    /// The `cl_command_queue`, or the address of the `sycl::queue`.
    pub(crate) fn handle(&self) -> usize {
        self.raw.addr()
    }

    /// Puts a copy into the queue. `behind`: the handle of an event that it waits for.
    ///
    /// # Safety
    /// Both ends are memory of the device's context or of the host, alive until the queue is empty.
    pub(crate) unsafe fn copy(&self, from: Pointer, to: Pointer, bytes: usize, behind: Option<usize>) {
        let (from, to) = (from.as_ptr().cast_const().cast(), to.as_ptr().cast());
        let event = behind.map(|event| event as Object);
        let list = event.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the caller's promise; the reference to the new event has no other owner.
        unsafe {
            match self.sycl {
                Some(dpctl) => {
                    let count = usize::from(event.is_some());
                    (dpctl.delete_event)(made((dpctl.copy)(self.raw, to, from, bytes, list, count)));
                }
                None => {
                    let count = u32::from(event.is_some());
                    let event = enqueue_svm_mem_cpy(self.raw, 0, to, from, bytes, count, list).unwrap();
                    release_event(event).unwrap();
                    flush(self.raw).unwrap();
                }
            }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: a stream that borrows the queue has not released this reference.
        unsafe {
            match self.sycl {
                Some(dpctl) => (dpctl.delete_queue)(self.raw),
                None => release_command_queue(self.raw).unwrap(),
            }
        }
    }
}

impl Context {
    pub(crate) fn new(device: &SyclDevice, out_of_order: bool) -> Context {
        let mode = if out_of_order { 0 } else { IN_ORDER };
        match Dpctl::of(device) {
            // SAFETY: a null handler is none.
            Some(dpctl) => dpctl.on_device(|of| unsafe {
                let raw = made((dpctl.context)(of, ptr::null_mut(), 0));
                let queue = made((dpctl.queue)(raw, of, ptr::null_mut(), mode));
                Context { raw, queue: Queue { raw: queue, sycl: Some(dpctl) } }
            }),
            None => {
                let id = device.native().1 as Object;
                let raw = create_context(&[id], ptr::null(), None, ptr::null_mut()).unwrap();
                Context { raw, queue: Queue::of_opencl(Place { context: raw, device: id }, out_of_order) }
            }
        }
    }

    /// The device in this context, and the queue as its stream.
    pub(crate) fn open(&self) -> (SyclDevice, SyclStream) {
        let queue = self.queue.handle();
        // SAFETY: the queue is live.
        let opened = unsafe {
            match self.queue.sycl {
                Some(_) => SyclDevice::from_sycl_queue(queue),
                None => SyclDevice::from_queue(queue),
            }
        };
        opened.unwrap()
    }

    /// The device that Haloport opens by the context alone.
    pub(crate) fn device(&self, id: Option<usize>) -> Result<SyclDevice, DeviceError> {
        // SAFETY: the context is live.
        unsafe {
            match self.queue.sycl {
                Some(_) => SyclDevice::from_sycl_context(self.handle(), id),
                None => SyclDevice::from_context(self.handle(), id),
            }
        }
    }

    /// The `cl_context`, or the address of the `sycl::context`.
    pub(crate) fn handle(&self) -> usize {
        self.raw.addr()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this owns the reference.
        unsafe {
            match self.queue.sycl {
                Some(dpctl) => (dpctl.delete_context)(self.raw),
                None => release_context(self.raw).unwrap(),
            }
        }
    }
}

/// Whether Haloport uses the device through SYCL.
pub(crate) fn is_of_sycl(device: &SyclDevice) -> bool {
    device.info().driver.ends_with("by SYCL")
}

/// Whether the program can be one of SYCL, if the device under test is; prints a line if not.
pub(crate) fn can_be_made(device: &SyclDevice) -> bool {
    let can = !is_of_sycl(device) || named().is_some();
    if !can {
        eprintln!("skipped: HALOPORT_DPCTL does not name a libDPCTLSyclInterface.so");
    }
    can
}

fn named() -> Option<std::ffi::OsString> {
    std::env::var_os("HALOPORT_DPCTL").filter(|path| !path.is_empty())
}

fn made(object: Object) -> Object {
    assert!(!object.is_null(), "dpctl made no object");
    object
}

impl Dpctl {
    /// dpctl's library, for a device of SYCL.
    fn of(device: &SyclDevice) -> Option<&'static Dpctl> {
        static LOADED: OnceLock<Dpctl> = OnceLock::new();

        is_of_sycl(device).then(|| LOADED.get_or_init(Dpctl::loaded))
    }

    fn loaded() -> Dpctl {
        // SAFETY: the library may be loaded at any time, and stays so.
        let library: &'static Library =
            Box::leak(Box::new(unsafe { Library::new(named().unwrap()) }.unwrap()));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the library exports the function of this name, whose type is that of its field.
                *unsafe { library.get($name) }.unwrap()
            };
        }
        Dpctl {
            selector: function!(b"DPCTLFilterSelector_Create"),
            device: function!(b"DPCTLDevice_CreateFromSelector"),
            context: function!(b"DPCTLContext_Create"),
            queue_for_device: function!(b"DPCTLQueue_CreateForDevice"),
            queue: function!(b"DPCTLQueue_Create"),
            copy: function!(b"DPCTLQueue_MemcpyWithEvents"),
            delete_selector: function!(b"DPCTLDeviceSelector_Delete"),
            delete_device: function!(b"DPCTLDevice_Delete"),
            delete_context: function!(b"DPCTLContext_Delete"),
            delete_queue: function!(b"DPCTLQueue_Delete"),
            delete_event: function!(b"DPCTLEvent_Delete"),
        }
    }

    /// Calls a function with dpctl's object for the device under test.
    fn on_device<T>(&self, act: impl FnOnce(Object) -> T) -> T {
        let filter = CString::new(super::sycl_filter()).unwrap();
        // SAFETY: the text ends with 0; each object is deleted once, when it is not used any more.
        unsafe {
            let selector = made((self.selector)(filter.as_ptr()));
            let device = made((self.device)(selector));
            let result = act(device);
            (self.delete_device)(device);
            (self.delete_selector)(selector);
            result
        }
    }
}
