//! C functions by which a SYCL program in Python calls the SYCL backend, for the tests in `program.py`.
//!
//! Every function that can fail returns null on success, else a text with the error, which the caller passes to
//! [`haloport_forget`].

mod arrays;
mod session;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use haloport_core::{Communicator, Error, run_ranks};

use arrays::{Array, described};
use session::Session;

/// A rank of the test program: returns 0, or another number if it has failed.
type Rank = unsafe extern "C" fn(comm: *const c_void, rank: c_int) -> c_int;

/// Part of the test program.
type Between = unsafe extern "C" fn();

/// Runs `body` on `ranks` ranks, each a thread.
///
/// # Safety
/// Any thread may call `body`, which uses the communicator of its rank only until it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haloport_ranks(ranks: c_int, body: Rank) -> *mut c_char {
    answer(|| {
        run_ranks(ranks as usize, |comm| {
            // SAFETY: the caller's promise.
            match unsafe { body((&raw const comm).cast(), comm.rank() as c_int) } {
                0 => Ok(()),
                code => Err(format!("the test program returned {code}").into()),
            }
        })?;
        Ok(())
    })
}

/// Checks an array, and puts the results into `found` as JSON: the members of `interface` made again from the array,
/// and its allocation in the context that `syclobj` names.
///
/// # Safety
/// `interface` is a text that ends with 0, and `syclobj` in it names a live object; an address can be written to
/// `found`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haloport_describe(interface: *const c_char, found: *mut *mut c_char) -> *mut c_char {
    answer(|| {
        // SAFETY: the caller's promise.
        let array: Array = serde_json::from_slice(unsafe { CStr::from_ptr(interface) }.to_bytes())?;
        // SAFETY: the caller's promise.
        let text = CString::new(unsafe { described(&array) }?.to_string())?;
        // SAFETY: the caller's promise.
        unsafe { *found = text.into_raw() };
        Ok(())
    })
}

/// Collective: binds fields in arrays of the test program, and puts the session into `session`. `request` is JSON, see
/// [`session::Request`].
///
/// # Safety
/// `comm` is the communicator passed to a rank; `request` is a text that ends with 0, of live objects and correct
/// descriptions of memory that outlives the session; an address can be written to `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haloport_bind(
    comm: *const c_void,
    request: *const c_char,
    session: *mut *mut c_void,
) -> *mut c_char {
    answer(|| {
        // SAFETY: the caller's promise.
        let (comm, request) = unsafe { (&*comm.cast::<Communicator>(), CStr::from_ptr(request).to_bytes()) };
        // SAFETY: the caller's promise.
        let made = unsafe { Session::new(comm, &serde_json::from_slice(request)?) }?;
        // SAFETY: the caller's promise.
        unsafe { *session = Box::into_raw(Box::new(made)).cast() };
        Ok(())
    })
}

/// Starts an exchange on the queue of the session, calls `between`, and finishes the exchange on the queue.
///
/// # Safety
/// `session` came from [`haloport_bind`], and no other thread uses it meanwhile; `between` can be called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haloport_exchange(session: *mut c_void, between: Between) -> *mut c_char {
    // SAFETY: the caller's promise.
    answer(|| unsafe { &mut *session.cast::<Session>() }.exchange(|| unsafe { between() }))
}

/// Ends a session.
///
/// # Safety
/// `session` came from [`haloport_bind`], and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haloport_end(session: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(session.cast::<Session>()) });
}

/// Frees a text.
///
/// # Safety
/// `text` came from one of these functions, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haloport_forget(text: *mut c_char) {
    // SAFETY: the caller's promise.
    drop(unsafe { CString::from_raw(text) });
}

/// Null, or the text of an error; a panic must not reach the program.
fn answer(call: impl FnOnce() -> Result<(), Error>) -> *mut c_char {
    let failed = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return std::ptr::null_mut(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it panicked".into(),
    };
    CString::new(failed.replace('\0', " ")).map_or(std::ptr::null_mut(), CString::into_raw)
}
