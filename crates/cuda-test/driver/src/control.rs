//! The functions through which tests control the driver.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use crate::lane::{Context, RemoteWrite};
use crate::memory::blocks::{Found, Kind, allocate, blocks, map};
use crate::memory::pages::{Addresses, GRANULARITY, Physical};
use crate::objects::Object;
use crate::order::{host, host_follows, line_after};
use crate::settings::{RemoteWrites, settings};
use crate::state::{CONTEXTS, Failure, current, state, thread};
use crate::status::{CAPTURE_UNSUPPORTED, INVALID_VALUE, SUCCESS, Status};
use crate::work::access::place;
use crate::work::job::{Served, Service, Work};

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

/// Passes on the objects and allocations that exist, one per line.
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

/// Allocates device memory of a pool of the first device, as another program does, and returns its address, or 0. It is never
/// freed, and belongs to no context: no work in streams reaches it.
#[unsafe(no_mangle)]
pub extern "C" fn driver_allocate_in_pool(bytes: usize) -> usize {
    allocate(bytes, Kind::Pool, 0).unwrap_or(0) as usize
}

/// Reads device memory as a network adapter does, for a library that finds the device by the current context.
///
/// # Safety
/// `to` points to `bytes` bytes that nothing else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_network_read(address: u64, to: *mut u8, bytes: usize) -> Status {
    let context = match state().in_context() {
        Ok(context) => context,
        Err(status) => return status,
    };
    match blocks().find(address, bytes) {
        Found::Inside(block, offset) => {
            access_by_network(&context, address, bytes, false);
            // SAFETY: the caller's promise; the block is that long from there on.
            unsafe { to.copy_from_nonoverlapping(block.mapping.at(offset), bytes) };
            SUCCESS
        }
        _ => INVALID_VALUE,
    }
}

/// As [`driver_network_read`], writes device memory. `HALOPORT_DRIVER_RDMA` determines which work sees that, and when.
///
/// # Safety
/// `from` points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_network_write(address: u64, from: *const u8, bytes: usize) -> Status {
    let context = match state().in_context() {
        Ok(context) => context,
        Err(status) => return status,
    };
    if !matches!(blocks().find(address, bytes), Found::Inside(..)) {
        return INVALID_VALUE;
    }
    access_by_network(&context, address, bytes, true);
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec();
    context.take_remote_write(RemoteWrite { address, bytes });
    if settings().remote_writes == RemoteWrites::Ordered {
        context.see_remote_writes();
    }
    SUCCESS
}

/// Looks for a race of a network adapter with work in streams. The access comes after all that the host has seen, and
/// the host sees its end.
fn access_by_network(context: &Context, address: u64, bytes: usize, writes: bool) {
    let mut line = line_after(&host());
    let work = line.work(format!("a network adapter, {bytes} bytes"));
    if let Err((status, what)) = place(&blocks(), address, bytes, writes, (context, &work)) {
        context.fail(status, &what);
    }
    host_follows(line.clock());
}

/// The number of the device of the current context; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn driver_device() -> i32 {
    state().in_context().map_or(-1, |context| context.device)
}

/// Records a call of another library among those of this thread: its name and its arguments, which end with a zero byte.
///
/// # Safety
/// `call` is such a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_note(call: *const c_char) {
    if settings().records {
        // SAFETY: the caller's promise.
        let call = unsafe { CStr::from_ptr(call) }.to_string_lossy().into_owned();
        state().calls.push((thread(), call));
    }
}

/// Puts work of another library into a stream of the current context: calls `function` until it returns something else
/// than 1, with a pointer for [`driver_memory`] and with `with`. The function returns soon and calls nothing else of the
/// driver. It is called once more after a fault of the device, and then gives its work up.
///
/// # Safety
/// `function` can be called so, from any thread, until it returns something else than 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_serve(stream: usize, function: Service, with: *mut c_void) -> Status {
    let mut state = state();
    if state.is_captured(stream) {
        return CAPTURE_UNSUPPORTED;
    }
    let put = state.put(stream, Work::Serve { function, with: with.expose_provenance() });
    // Not even where calls are recorded: others might have to call first.
    state.awaited.clear();
    put.err().unwrap_or(SUCCESS)
}

/// Where the driver finds this many bytes at an address, to be read, or written if `writes` is not 0, before the function
/// returns; null after a fault.
///
/// # Safety
/// `served` is the pointer that the driver has passed to a function of [`driver_serve`], which has not returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_memory(
    served: *mut c_void,
    address: u64,
    bytes: usize,
    writes: u32,
) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { &mut *served.cast::<Served<'_>>() }.memory(address, bytes, writes != 0)
}

/// Reserves the addresses of `pages` pages of 2 MiB, and returns their first, or 0. At those whose bits are set it maps memory
/// of the first device, or of the second one. They are never freed.
#[unsafe(no_mangle)]
pub extern "C" fn driver_reserve_foreign(pages: usize, of_first: u64, of_second: u64) -> usize {
    let make = || {
        let addresses = Addresses::new(pages * GRANULARITY, 0)?;
        let begin = addresses.range().start;
        for page in 0..pages {
            for (device, bits) in [(0, of_first), (1, of_second)] {
                if bits >> page & 1 == 1 {
                    let memory = Arc::new(Physical::new(GRANULARITY, device, 0)?);
                    map(&addresses, begin + page * GRANULARITY, &memory)?;
                }
            }
        }
        state().objects.insert(begin, Object::Addresses(addresses));
        Ok::<usize, Status>(begin)
    };
    make().unwrap_or(0)
}
