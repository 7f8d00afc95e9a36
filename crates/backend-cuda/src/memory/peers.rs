//! Other devices whose memory a device reaches.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use haloport_core::device::{DeviceError, DeviceId};

use crate::driver::context::Context;
use crate::driver::functions::{PEER_ACCESS_ALREADY_ENABLED, SUCCESS};
use crate::memory::readers::Reader;

/// Each device that was asked for, by its number; `None` if its memory is out of reach.
#[derive(Debug, Default)]
pub(crate) struct Peers(Mutex<HashMap<u32, Option<Peer>>>);

/// A device whose memory is reached.
#[derive(Debug)]
struct Peer {
    _reader: Reader,
    _context: Context,
}

impl Peers {
    /// Returns whether kernels and copies in the context `own` reach memory that `other` has allocated in its primary
    /// context. The first call for a device makes the driver enable the access.
    pub(crate) fn reach(&self, own: &Context, other: DeviceId) -> Result<bool, DeviceError> {
        if other == own.id {
            return Ok(true);
        }
        if (other.backend, other.context) != (own.id.backend, own.id.context) {
            return Ok(false);
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = known.get(&other.index) {
            return Ok(peer.is_some());
        }
        let reached = enable(own, other)?;
        Ok(known.entry(other.index).insert_entry(reached).get().is_some())
    }
}

/// Gives `context` access to the memory of another device: by one call to that of `cuMemAlloc`, and piece by piece to
/// that of `cuMemCreate`. Returns `None` if the driver does not offer the access.
fn enable(context: &Context, other: DeviceId) -> Result<Option<Peer>, DeviceError> {
    let driver = context.driver;
    let (mut device, mut can) = (0, 0);
    // SAFETY: the calls write to local variables, and both devices are the driver's.
    unsafe {
        let found = (driver.cuDeviceGet)(&raw mut device, other.index as i32);
        driver.checked("cuDeviceGet", found, other)?;
        let asked = (driver.cuDeviceCanAccessPeer)(&raw mut can, context.device, device);
        context.checked("cuDeviceCanAccessPeer", asked)?;
    }
    if can == 0 {
        return Ok(None);
    }
    let peer = Context::new(driver, device, other)?;
    let entered = context.enter()?;
    // SAFETY: the context is live and current, and the other one is live; there are no flags.
    let status = unsafe { (driver.cuCtxEnablePeerAccess)(peer.raw(), 0) };
    drop(entered);
    match status {
        SUCCESS | PEER_ACCESS_ALREADY_ENABLED => {
            let reader = Reader::new(context, other.index)?;
            Ok(Some(Peer { _reader: reader, _context: peer }))
        }
        status => Err(driver.failed("cuCtxEnablePeerAccess", status, context.id)),
    }
}
