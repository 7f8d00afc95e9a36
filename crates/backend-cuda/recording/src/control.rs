//! What tests ask of the driver.

use std::ffi::c_void;

use crate::objects::Object;
use crate::state::{CONTEXTS, Failure, current, state, thread};

/// Takes a text of so many bytes, and what the caller gave with it.
pub type Taker = unsafe extern "C" fn(*const u8, usize, *mut c_void);

/// Gives the calls of this thread since it last asked, one on a line (`NAME ARGUMENTS`), and forgets them.
///
/// # Safety
/// `taker` can be called with any text and `with`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recording_take_calls(taker: Taker, with: *mut c_void) {
    let own = thread();
    let calls: Vec<String> =
        state().calls.extract_if(.., |(of, _)| *of == own).map(|(_, call)| call).collect();
    let calls = calls.join("\n");
    // SAFETY: the caller's promise.
    unsafe { taker(calls.as_ptr(), calls.len(), with) };
}

/// As [`recording_take_calls`], those of all threads, and forgets them all.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recording_take_all_calls(taker: Taker, with: *mut c_void) {
    let calls: Vec<String> = state().calls.drain(..).map(|(_, call)| call).collect();
    let calls = calls.join("\n");
    // SAFETY: the caller's promise.
    unsafe { taker(calls.as_ptr(), calls.len(), with) };
}

/// Gives what lives, one on a line.
///
/// # Safety
/// As for [`recording_take_calls`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recording_living(taker: Taker, with: *mut c_void) {
    let living = {
        let state = state();
        // Functions are their modules'.
        let objects = state
            .objects
            .iter()
            .filter(|(_, object)| !matches!(object, Object::Function { .. } | Object::Foreign));
        let objects = objects.map(|(handle, object)| format!("{} {handle:#x}", object.kind()));
        let blocks =
            state.blocks.iter().map(|(address, block)| format!("{address:#x} for {}", block.freed_by));
        objects.chain(blocks).collect::<Vec<_>>().join("\n")
    };
    // SAFETY: the caller's promise.
    unsafe { taker(living.as_ptr(), living.len(), with) };
}

/// Has the call fail that comes `after` so many, with `status`; with `for_ever` other than 0, all that follow it, too.
#[unsafe(no_mangle)]
pub extern "C" fn recording_fail(after: u64, status: u32, for_ever: u32) {
    state().failure = Some(Failure { after, status, for_ever: for_ever != 0, has_happened: false });
}

/// Has no call fail; 1 if the one that was to fail has.
#[unsafe(no_mangle)]
pub extern "C" fn recording_fail_no_more() -> u32 {
    u32::from(state().failure.take().is_some_and(|failure| failure.has_happened))
}

/// Puts a mark among the calls of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn recording_mark() {
    state().calls.push((thread(), "mark".into()));
}

/// The current context of this thread; 0 where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn recording_current() -> usize {
    current()
}

/// Makes a context current in this thread that is somebody else's, and gives its handle.
#[unsafe(no_mangle)]
pub extern "C" fn recording_enter_foreign() -> usize {
    let context = state().make(Object::Foreign);
    CONTEXTS.with_borrow_mut(|contexts| contexts.push(context));
    context
}
