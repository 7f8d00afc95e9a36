//! The primary context of a device, and how it becomes current.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr};
use haloport_core::device::{Attached, Detach, DeviceError, DeviceId, Pointer};

use crate::driver::frees::Frees;
use crate::driver::functions::{Driver, Status};

thread_local! {
    /// The context that is known to be current in this thread, because the thread is attached to its device; otherwise
    /// null. Null as well while another context is current.
    static ATTACHED: Cell<CUcontext> = const { Cell::new(ptr::null_mut()) };
}

/// The primary context of a device, shared with programs of CUDA's runtime; retained until this is dropped.
pub(crate) struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) id: DeviceId,
    pub(crate) device: CUdevice,
    pub(crate) frees: Frees,
    raw: CUcontext,
}

// SAFETY: a context belongs to no thread.
unsafe impl Send for Context {}
// SAFETY: several threads may call the driver's functions at once.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn new(
        driver: &'static Driver,
        device: CUdevice,
        id: DeviceId,
    ) -> Result<Context, DeviceError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the device is the driver's; the context is written to a local variable.
        let status = unsafe { (driver.cuDevicePrimaryCtxRetain)(&raw mut raw, device) };
        driver.checked("cuDevicePrimaryCtxRetain", status, id)?;
        Ok(Context { driver, id, device, frees: Frees::default(), raw })
    }

    /// Makes this the current context of the thread until the result is dropped; then the caller's is current again.
    pub(crate) fn enter(&self) -> Result<Entered<'_>, DeviceError> {
        let pushed = ATTACHED.get() != self.raw && self.push_unless_current()?;
        Ok(Entered { context: pushed.then_some(self), of_this_thread: PhantomData })
    }

    /// As [`enter`](Context::enter), and until the result is dropped, `enter` in this thread makes no call of the
    /// driver.
    pub(crate) fn attach(self: &Arc<Context>) -> Result<Attached, DeviceError> {
        if ATTACHED.get() == self.raw {
            return Ok(Attached::default());
        }
        let pushed = self.push_unless_current()?;
        ATTACHED.set(self.raw);
        Ok(Attached::new(Arc::clone(self) as _, pushed.into()))
    }

    /// Makes this context current if it is not. Returns whether it was pushed: then `pop` must follow.
    fn push_unless_current(&self) -> Result<bool, DeviceError> {
        let mut current = ptr::null_mut();
        // SAFETY: the call writes to a local variable.
        let status = unsafe { (self.driver.cuCtxGetCurrent)(&raw mut current) };
        self.checked("cuCtxGetCurrent", status)?;
        if current == self.raw {
            return Ok(false);
        }
        // SAFETY: the context is live.
        let status = unsafe { (self.driver.cuCtxPushCurrent_v2)(self.raw) };
        self.checked("cuCtxPushCurrent", status)?;
        // Another context is current now.
        ATTACHED.set(ptr::null_mut());
        Ok(true)
    }

    /// Makes the caller's context current again.
    fn pop(&self) {
        ATTACHED.set(ptr::null_mut());
        let mut popped = ptr::null_mut();
        // SAFETY: this thread has pushed the context; the call writes to a local variable. An error needs no action.
        unsafe { (self.driver.cuCtxPopCurrent_v2)(&raw mut popped) };
    }

    /// Blocks until all work in all streams of the context is done, including those of other programs in the process.
    pub(crate) fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: the context is current during the call.
        unsafe { call!(self, cuCtxSynchronize()) }
    }

    /// Calls `free` once, with this context as the current one: now, or when no [exchange](Frees) is under way for whose
    /// neighbours streams may wait.
    pub(crate) fn free(self: &Arc<Context>, free: impl FnOnce(&Driver) + Send + 'static) {
        let context = Arc::clone(self);
        self.frees.free(move || context.free_now(free));
    }

    /// As [`free`](Context::free), for a call that waits for no work.
    pub(crate) fn free_now(&self, free: impl FnOnce(&Driver)) {
        // On a lost device the context cannot be made current; the memory is freed all the same.
        let _entered = self.enter();
        free(self.driver);
    }

    /// Turns the status of a call into a result.
    pub(crate) fn checked(&self, call: &'static str, status: Status) -> Result<(), DeviceError> {
        self.driver.checked(call, status, self.id)
    }

    pub(crate) fn raw(&self) -> CUcontext {
        self.raw
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context was retained once, and everything made in it is gone. An error needs no action.
        unsafe { (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}

impl Detach for Context {
    /// `state`: 1 if the context was pushed, otherwise 0.
    fn detach(&self, state: usize) {
        ATTACHED.set(ptr::null_mut());
        if state != 0 {
            self.pop();
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({:p} of {})", self.raw, self.id)
    }
}

/// Keeps a context current while it lives.
pub(crate) struct Entered<'a> {
    /// `None` if the context was current before.
    context: Option<&'a Context>,
    /// Not `Send`: each thread has its own current context.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(context) = self.context {
            context.pop();
        }
    }
}

/// Calls a function of the driver in a context and turns its status into a result. Used in an `unsafe` block.
macro_rules! call {
    ($context:expr, $function:ident($($argument:expr),* $(,)?)) => {{
        let context: &$crate::driver::context::Context = $context;
        match context.enter() {
            Ok(_entered) => {
                context.checked(stringify!($function), (context.driver.$function)($($argument),*))
            }
            Err(error) => Err(error),
        }
    }};
}

pub(crate) use call;

/// An address in the driver's form.
pub(crate) fn address(pointer: Pointer) -> CUdeviceptr {
    pointer.as_ptr().expose_provenance() as CUdeviceptr
}
