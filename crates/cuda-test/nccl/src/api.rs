//! The functions of NCCL, as `nccl.h` declares them.

#![allow(clippy::missing_safety_doc, reason = "the contracts are those of NCCL's functions of these names")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::communicator::{Communicator, current};
use crate::driver::driver;
use crate::exchange::Message;
use crate::groups;
use crate::settings::settings;
use crate::status::{INVALID_ARGUMENT, INVALID_USAGE, SUCCESS, Status, description};

/// `ncclUniqueId`: a text that ends with a zero byte.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Id([u8; 128]);

/// The first members of every version of `ncclConfig_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Config {
    bytes: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
}

/// `ncclInt8`.
const BYTES: u32 = 0;

/// The value of `magic` in a valid configuration.
const MAGIC: u32 = 0xcafe_beef;

/// Records a call among those of the driver.
fn note(call: impl FnOnce() -> String) {
    if let Ok(driver) = driver() {
        driver.note(&call());
    }
}

/// The communicator of a handle, which goes on living.
///
/// # Safety
/// It lives, or the handle is null.
unsafe fn communicator(handle: *const Communicator) -> Result<ManuallyDrop<Arc<Communicator>>, Status> {
    if handle.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: the handle was made of an `Arc`, which is not given back here.
    Ok(ManuallyDrop::new(unsafe { Arc::from_raw(handle) }))
}

fn status(done: Result<(), Status>) -> Status {
    done.err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> Status {
    // SAFETY: the caller's promise.
    unsafe { version.write(settings().version) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclGetUniqueId(id: *mut Id) -> Status {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("haloport-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut bytes = [0; 128];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the caller's promise.
    unsafe { id.write(Id(bytes)) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGetErrorString(status: Status) -> *const c_char {
    description(status).as_ptr()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommInitRankConfig(
    handle: *mut *const Communicator,
    ranks: c_int,
    id: Id,
    rank: c_int,
    config: *const Config,
) -> Status {
    note(|| format!("ncclCommInitRankConfig ranks={ranks} rank={rank}"));
    // SAFETY: the caller's promise.
    let config = unsafe { config.read() };
    let is_config = config.magic == MAGIC && config.bytes >= size_of::<Config>() && config.version >= 21_700;
    let is_rank = (0..ranks).contains(&rank);
    let name = String::from_utf8_lossy(&id.0).trim_end_matches('\0').to_string();
    // NCCL takes other tokens for an address of the network, and does not find it.
    if !is_config || config.blocking != 0 || !is_rank || !name.starts_with("haloport-") {
        return INVALID_ARGUMENT;
    }
    status(current().and_then(|device| {
        let begun = Communicator::begin(name, [rank as usize, ranks as usize], device)?;
        // SAFETY: the caller's promise.
        unsafe { handle.write(Arc::into_raw(begun)) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommGetAsyncError(
    handle: *const Communicator,
    state: *mut Status,
) -> Status {
    note(|| "ncclCommGetAsyncError".into());
    // SAFETY: the caller's promise.
    status(unsafe { communicator(handle) }.map(|own| unsafe { state.write(own.state()) }))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGroupStart() -> Status {
    note(|| "ncclGroupStart".into());
    groups::start();
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGroupEnd() -> Status {
    note(|| "ncclGroupEnd".into());
    groups::end()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclSend(
    address: *const c_void,
    count: usize,
    element: u32,
    peer: c_int,
    handle: *const Communicator,
    stream: usize,
) -> Status {
    note(|| format!("ncclSend bytes={count} peer={peer} stream={stream:#x}"));
    // SAFETY: the caller's promise.
    unsafe { message(true, address, [count, stream], element, peer, handle) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclRecv(
    address: *mut c_void,
    count: usize,
    element: u32,
    peer: c_int,
    handle: *const Communicator,
    stream: usize,
) -> Status {
    note(|| format!("ncclRecv bytes={count} peer={peer} stream={stream:#x}"));
    // SAFETY: the caller's promise.
    unsafe { message(false, address, [count, stream], element, peer, handle) }
}

/// Adds a message to the group of this thread.
///
/// # Safety
/// As for `ncclSend` and `ncclRecv`.
unsafe fn message(
    is_sent: bool,
    address: *const c_void,
    [bytes, stream]: [usize; 2],
    element: u32,
    peer: c_int,
    handle: *const Communicator,
) -> Status {
    // SAFETY: the caller's promise.
    let own = match unsafe { communicator(handle) } {
        Ok(own) => Arc::clone(&own),
        Err(status) => return status,
    };
    let peer = usize::try_from(peer).unwrap_or(usize::MAX);
    let is_fine = own.state() == SUCCESS && peer < own.ranks && peer != own.rank && element == BYTES;
    let in_context = current().is_ok_and(|(_, context)| context == own.context);
    let message = match (is_fine, in_context) {
        (true, true) => Ok(Message { is_sent, address: address.expose_provenance() as u64, bytes, peer }),
        (false, _) => Err(INVALID_ARGUMENT),
        (_, false) => Err(INVALID_USAGE),
    };
    groups::start();
    let added = groups::add(own, stream, message);
    let ended = groups::end();
    added.err().unwrap_or(ended)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommFinalize(handle: *const Communicator) -> Status {
    note(|| "ncclCommFinalize".into());
    // SAFETY: the caller's promise.
    status(unsafe { communicator(handle) }.map(|own| own.finalize()))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommDestroy(handle: *const Communicator) -> Status {
    note(|| "ncclCommDestroy".into());
    // SAFETY: the caller's promise.
    unsafe { end(handle, false) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommAbort(handle: *const Communicator) -> Status {
    note(|| "ncclCommAbort".into());
    // SAFETY: the caller's promise.
    unsafe { end(handle, true) }
}

/// Ends a communicator.
///
/// # Safety
/// It lives, or the handle is null; it is not used any more.
unsafe fn end(handle: *const Communicator, aborts: bool) -> Status {
    // SAFETY: the caller's promise.
    match unsafe { communicator(handle) } {
        Ok(own) => {
            let own = ManuallyDrop::into_inner(own);
            own.end(aborts);
            SUCCESS
        }
        // No communicator: nothing to end.
        Err(_) => SUCCESS,
    }
}
