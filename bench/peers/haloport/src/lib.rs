//! Haloport among the contestants of `bench/peers`: the interface of `peers.h` in Rust.
//!
//! - this file: what C sees, and the list of entries, a line for each;
//! - `problem`: the pattern of a case, and how its fields lie in memory;
//! - `bound`: the fields of an entry bound to an exchange.

mod bound;
mod problem;

use std::ffi::{c_char, c_int, c_void};

use haloport::{BindOptions, DataPath};

use bound::{Bound, Memory};
use problem::{Boxes, Mesh, Problem};

/// `struct peers_strategy`.
#[repr(C)]
pub struct Strategy {
    name: *const c_char,
    create: Option<extern "C" fn(c_int, *const c_void) -> *mut c_void>,
    run: Option<unsafe extern "C" fn(*mut c_void, c_int) -> c_int>,
    field: Option<unsafe extern "C" fn(*mut c_void, c_int) -> *mut f64>,
    load: Option<unsafe extern "C" fn(*mut c_void)>,
    store: Option<unsafe extern "C" fn(*mut c_void)>,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    stand_in: c_int,
}

// SAFETY: the names are constants; the rest is addresses of functions.
unsafe impl Sync for Strategy {}

/// The end of a list.
const END: Strategy = Strategy {
    name: std::ptr::null(),
    create: None,
    run: None,
    field: None,
    load: None,
    store: None,
    destroy: None,
    stand_in: 0,
};

/// An entry: its name, where its fields lie, and what it is bound with.
macro_rules! entry {
    ($problem:ty, $name:literal, $memory:expr, $options:expr) => {{
        extern "C" fn create(comm: c_int, problem: *const c_void) -> *mut c_void {
            create_bound::<$problem>(comm, problem, $memory, $options)
        }
        Strategy {
            name: $name.as_ptr(),
            create: Some(create),
            run: Some(run),
            field: Some(field),
            load: None,
            store: None,
            destroy: Some(destroy),
            stand_in: 0,
        }
    }};
}

macro_rules! entries {
    ($problem:ty) => {
        [
            entry!($problem, c"Haloport: its own fields", Memory::Own, BindOptions::default()),
            entry!($problem, c"Haloport: the caller's memory", Memory::Callers, BindOptions::default()),
            entry!($problem, c"Haloport: its own fields, private", Memory::Private, BindOptions::default()),
            entry!(
                $problem,
                c"Haloport: its own fields, MPI messages",
                Memory::Own,
                BindOptions::default().path(DataPath::Messages)
            ),
            entry!(
                $problem,
                c"Haloport: the caller's memory, MPI messages",
                Memory::Callers,
                BindOptions::default().path(DataPath::Messages)
            ),
            END,
        ]
    };
}

/// The contestants for boxes.
#[unsafe(no_mangle)]
pub extern "C" fn peers_strategies() -> *const Strategy {
    static LIST: &[Strategy] = &entries!(Boxes);
    LIST.as_ptr()
}

/// The contestants for meshes.
#[unsafe(no_mangle)]
pub extern "C" fn peers_mesh_strategies() -> *const Strategy {
    static LIST: &[Strategy] = &entries!(Mesh);
    LIST.as_ptr()
}

/// How the data of an entry travels, in words, into `room` bytes at `text`, ended by 0.
///
/// # Safety
/// `state` was made by `create`, and there is that much room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peers_haloport_path(state: *mut c_void, text: *mut c_char, room: usize) {
    // SAFETY: the caller's promise.
    let path = unsafe { (*state.cast::<Bound>()).path() };
    let length = path.len().min(room.saturating_sub(1));
    // SAFETY: the caller's promise; the length is cut to the room.
    unsafe {
        std::ptr::copy_nonoverlapping(path.as_ptr().cast(), text, length);
        text.add(length).write(0);
    }
}

fn create_bound<P: Problem>(
    comm: c_int,
    problem: *const c_void,
    memory: Memory,
    options: BindOptions,
) -> *mut c_void {
    // SAFETY: by the contract of `create` in peers.h the pointer is to a problem of this kind and the communicator is
    // that of the job.
    let made = unsafe { Bound::new::<P>(comm, &*problem.cast::<P>(), memory, options) };
    match made {
        Ok(bound) => Box::into_raw(Box::new(bound)).cast(),
        Err(error) => {
            eprintln!("Haloport takes no part: {error}");
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// `state` was made by `create`, and no other call uses it meanwhile. The same holds for the functions below.
unsafe extern "C" fn run(state: *mut c_void, batch: c_int) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { (*state.cast::<Bound>()).run(batch) } {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("Haloport: {error}");
            1
        }
    }
}

/// # Safety
/// As for [`run`].
unsafe extern "C" fn field(state: *mut c_void, number: c_int) -> *mut f64 {
    // SAFETY: the caller's promise.
    unsafe { (*state.cast::<Bound>()).field(number as usize) }
}

/// # Safety
/// As for [`run`], and no call uses `state` afterwards.
unsafe extern "C" fn destroy(state: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(state.cast::<Bound>()) });
}
