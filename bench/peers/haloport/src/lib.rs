//! Haloport among the contestants of `bench/peers`: the interface of `peers.h` in Rust.
//!
//! - this file: what C sees, and the list of entries, a line for each;
//! - `problem`: the pattern of a case, and how its fields lie in memory;
//! - `bound`: the fields of an entry bound to an exchange, or to one that adds halos to their owners;
//! - `transposed`: the fields of an entry that go from one decomposition to another.

mod bound;
mod problem;
mod transposed;

use std::ffi::{c_char, c_int, c_void};

use haloport::exchange::Combine;
use haloport::{BindOptions, DataPath};

use bound::{Bound, Memory};
use problem::{Boxes, Failure, Mesh};
use transposed::Transposed;

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

/// What the functions of a strategy call.
trait Contestant {
    /// Collective: exchanges `batch` times.
    ///
    /// # Errors
    /// Where an exchange fails.
    fn run(&mut self, batch: c_int) -> Result<(), Failure>;

    /// Where field `number` begins.
    fn field(&self, number: usize) -> *mut f64;

    /// How the data travels, in words.
    fn path(&self) -> String;
}

/// What `state` points to.
type State = Box<dyn Contestant>;

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

/// An entry: its name, and what makes it: `Kind::new::<problem>`, with where its fields lie and what it is bound with.
macro_rules! entry {
    ($make:path, $name:literal, $memory:expr, $options:expr) => {{
        extern "C" fn create(comm: c_int, problem: *const c_void) -> *mut c_void {
            // SAFETY: by the contract of `create` in peers.h the pointer is to a problem of this kind and the communicator is
            // that of the job.
            created(unsafe { $make(comm, &*problem.cast(), $memory, $options) })
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

/// Entries with halos of a problem, bound with options.
macro_rules! halos {
    ($problem:ty, $options:expr) => {
        [
            entry!(Bound::new::<$problem>, c"Haloport: its own fields", Memory::Own, $options),
            entry!(Bound::new::<$problem>, c"Haloport: the caller's memory", Memory::Callers, $options),
            entry!(
                Bound::new::<$problem>,
                c"Haloport: the caller's memory, shared",
                Memory::Shared,
                $options
            ),
            entry!(Bound::new::<$problem>, c"Haloport: its own fields, private", Memory::Private, $options),
            entry!(
                Bound::new::<$problem>,
                c"Haloport: its own fields, MPI messages",
                Memory::Own,
                $options.path(DataPath::Messages)
            ),
            entry!(
                Bound::new::<$problem>,
                c"Haloport: the caller's memory, MPI messages",
                Memory::Callers,
                $options.path(DataPath::Messages)
            ),
            END,
        ]
    };
}

/// The contestants for boxes.
#[unsafe(no_mangle)]
pub extern "C" fn peers_strategies() -> *const Strategy {
    static LIST: &[Strategy] = &halos!(Boxes, BindOptions::default());
    LIST.as_ptr()
}

/// The contestants for meshes.
#[unsafe(no_mangle)]
pub extern "C" fn peers_mesh_strategies() -> *const Strategy {
    static LIST: &[Strategy] = &halos!(Mesh, BindOptions::default());
    LIST.as_ptr()
}

/// The contestants for halos of meshes that are added to their owners.
#[unsafe(no_mangle)]
pub extern "C" fn peers_sum_strategies() -> *const Strategy {
    static LIST: &[Strategy] = &halos!(Mesh, BindOptions::default().accumulate(Combine::Sum));
    LIST.as_ptr()
}

/// The contestants for transposes.
#[unsafe(no_mangle)]
pub extern "C" fn peers_transpose_strategies() -> *const Strategy {
    static LIST: &[Strategy] = &[
        entry!(Transposed::new, c"Haloport: its own fields", true, BindOptions::default()),
        entry!(Transposed::new, c"Haloport: its own fields, private", false, BindOptions::default()),
        entry!(
            Transposed::new,
            c"Haloport: its own fields, MPI messages",
            true,
            BindOptions::default().path(DataPath::Messages)
        ),
        END,
    ];
    LIST.as_ptr()
}

/// How the data of an entry travels, in words, into `room` bytes at `text`, ended by 0.
///
/// # Safety
/// `state` was made by `create`, and there is that much room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peers_haloport_path(state: *mut c_void, text: *mut c_char, room: usize) {
    // SAFETY: the caller's promise.
    let path = unsafe { (*state.cast::<State>()).path() };
    let length = path.len().min(room.saturating_sub(1));
    // SAFETY: the caller's promise; the length is cut to the room.
    unsafe {
        std::ptr::copy_nonoverlapping(path.as_ptr().cast(), text, length);
        text.add(length).write(0);
    }
}

/// The state of a contestant that was made; null, and a reason in the output, of one that was not.
fn created(made: Result<impl Contestant + 'static, Failure>) -> *mut c_void {
    match made {
        Ok(made) => Box::into_raw(Box::new(Box::new(made) as State)).cast(),
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
    match unsafe { (*state.cast::<State>()).run(batch) } {
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
    unsafe { (*state.cast::<State>()).field(number as usize) }
}

/// # Safety
/// As for [`run`], and no call uses `state` afterwards.
unsafe extern "C" fn destroy(state: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(state.cast::<State>()) });
}
