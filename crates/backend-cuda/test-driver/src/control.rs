//! The functions through which tests control the driver.

use std::ffi::c_void;

use crate::memory::blocks::{Kind, allocate, blocks};
use crate::objects::Object;
use crate::state::{CONTEXTS, Failure, current, state, thread};

/// A function that receives a text, its length in bytes, and the pointer that the caller passed.
pub type Receiver = unsafe extern "C" fn(*const u8, usize, *mut c_void);

/// Passes on the calls of this thread since the last call of this function, one per line (`NAME ARGUMENTS`), and
/// forgets them.
///
/// # Safety
/// `receiver` can be called with any text and `with`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_take_calls(receiver: Receiver, with: *mut c_void) {
    let own = thread();
    let calls: Vec<String> =
        state().calls.extract_if(.., |(of, _)| *of == own).map(|(_, call)| call).collect();
    let calls = calls.join("\n");
    // SAFETY: the caller's promise.
    unsafe { receiver(calls.as_ptr(), calls.len(), with) };
}

/// As [`driver_take_calls`], for the calls of all threads.
///
/// # Safety
/// As for [`driver_take_calls`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_take_all_calls(receiver: Receiver, with: *mut c_void) {
    let calls: Vec<String> = state().calls.drain(..).map(|(_, call)| call).collect();
    let calls = calls.join("\n");
    // SAFETY: the caller's promise.
    unsafe { receiver(calls.as_ptr(), calls.len(), with) };
}

/// Passes on what lives, one item per line.
///
/// # Safety
/// As for [`driver_take_calls`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_living(receiver: Receiver, with: *mut c_void) {
    let living = {
        let state = state();
        // Functions belong to their modules.
        let objects = state
            .objects
            .iter()
            .filter(|(_, object)| !matches!(object, Object::Function { .. } | Object::Foreign));
        let objects = objects.map(|(handle, object)| format!("{} {handle:#x}", object.kind()));
        let blocks = blocks();
        let blocks =
            blocks.iter().map(|block| format!("{:#x} for {}", block.mapping.address, block.kind.freed_by()));
        objects.chain(blocks).collect::<Vec<_>>().join("\n")
    };
    // SAFETY: the caller's promise.
    unsafe { receiver(living.as_ptr(), living.len(), with) };
}

/// Makes one call fail with `status`, after `after` more calls. If `for_ever` is not 0, all later calls fail, too.
#[unsafe(no_mangle)]
pub extern "C" fn driver_fail(after: u64, status: u32, for_ever: u32) {
    state().failure = Some(Failure { after, status, for_ever: for_ever != 0, has_happened: false });
}

/// Makes no call fail any more. Returns 1 if the call that was to fail has failed, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn driver_fail_no_more() -> u32 {
    u32::from(state().failure.take().is_some_and(|failure| failure.has_happened))
}

/// Puts a mark among the calls of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn driver_mark() {
    state().calls.push((thread(), "mark".into()));
}

/// The current context of this thread; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn driver_current() -> usize {
    current()
}

/// Makes a context of another program current in this thread, and returns its handle.
#[unsafe(no_mangle)]
pub extern "C" fn driver_enter_foreign() -> usize {
    let context = state().make(Object::Foreign);
    CONTEXTS.with_borrow_mut(|contexts| contexts.push(context));
    context
}

/// Allocates device memory in a context of another program, and returns its address, or 0. It is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn driver_allocate_foreign(bytes: usize) -> usize {
    let context = state().make(Object::Foreign);
    allocate(bytes, Kind::Device, context).unwrap_or(0) as usize
}
