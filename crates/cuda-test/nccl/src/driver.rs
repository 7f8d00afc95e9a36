//! The functions of the CUDA driver for tests.

use std::ffi::{CString, c_char, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::status::{CUDA_ERROR, Status};

/// A function that a stream calls until it returns something else than 1.
pub(crate) type Service = unsafe extern "C" fn(*mut c_void, *mut c_void) -> u32;

/// The functions that are called.
pub(crate) struct Driver {
    serve: unsafe extern "C" fn(usize, Service, *mut c_void) -> u32,
    memory: unsafe extern "C" fn(*mut c_void, u64, usize, u32) -> *mut u8,
    device: extern "C" fn() -> i32,
    current: extern "C" fn() -> usize,
    note: unsafe extern "C" fn(*const c_char),
    push: unsafe extern "C" fn(usize) -> u32,
    pop: unsafe extern "C" fn(*mut usize) -> u32,
    _library: Library,
}

/// The driver, loaded once.
pub(crate) fn driver() -> Result<&'static Driver, Status> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    DRIVER.get_or_init(|| Driver::load().ok()).as_ref().ok_or(CUDA_ERROR)
}

impl Driver {
    fn load() -> Result<Driver, libloading::Error> {
        // SAFETY: the driver for tests does nothing when it is loaded, and declares its functions with these types.
        unsafe {
            let library = Library::new("libcuda.so.1")?;
            Ok(Driver {
                serve: *library.get(b"driver_serve\0")?,
                memory: *library.get(b"driver_memory\0")?,
                device: *library.get(b"driver_device\0")?,
                current: *library.get(b"driver_current\0")?,
                note: *library.get(b"driver_note\0")?,
                push: *library.get(b"cuCtxPushCurrent_v2\0")?,
                pop: *library.get(b"cuCtxPopCurrent_v2\0")?,
                _library: library,
            })
        }
    }

    /// The device of the current context, and the context.
    pub(crate) fn current(&self) -> Result<(i32, usize), Status> {
        match ((self.device)(), (self.current)()) {
            (..0, _) => Err(CUDA_ERROR),
            found => Ok(found),
        }
    }

    /// Records a call.
    pub(crate) fn note(&self, call: &str) {
        if let Ok(call) = CString::new(call) {
            // SAFETY: the text ends with a zero.
            unsafe { (self.note)(call.as_ptr()) };
        }
    }

    /// Puts a function into a stream of a context.
    ///
    /// # Safety
    /// The function can be called with `with` until it is done.
    pub(crate) unsafe fn serve(
        &self,
        context: usize,
        stream: usize,
        function: Service,
        with: *mut c_void,
    ) -> Result<(), Status> {
        let mut popped = 0;
        // SAFETY: the driver refuses contexts and streams that are none; the function is the caller's promise; the last
        // call writes to a local variable.
        let done = unsafe {
            if (self.push)(context) != 0 {
                return Err(CUDA_ERROR);
            }
            let done = (self.serve)(stream, function, with);
            (self.pop)(&raw mut popped);
            done
        };
        if done == 0 { Ok(()) } else { Err(CUDA_ERROR) }
    }

    /// Where the driver finds memory of a message; null after a fault.
    ///
    /// # Safety
    /// `served` is what the driver has passed to a function that runs.
    pub(crate) unsafe fn memory(
        &self,
        served: *mut c_void,
        address: u64,
        bytes: usize,
        writes: bool,
    ) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { (self.memory)(served, address, bytes, writes.into()) }
    }
}
