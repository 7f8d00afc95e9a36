//! Other devices whose memory a device reaches.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use haloport_core::device::{DeviceError, DeviceId};

use crate::context::Context;
use crate::driver::{PEER_ACCESS_ALREADY_ENABLED, SUCCESS};
use crate::open::Opened;

/// The context of each device that was asked for, by its number; `None` where its memory is not reached.
#[derive(Debug, Default)]
pub(crate) struct Peers(Mutex<HashMap<u32, Option<Context>>>);

/// Whether kernels and copies of the device reach memory that `other` has allocated in its primary context. Has the driver
/// see to it, the first time.
pub(crate) fn reaches(opened: &Opened, other: DeviceId) -> Result<bool, DeviceError> {
    let own = opened.id();
    if other == own {
        return Ok(true);
    }
    if (other.backend, other.context) != (own.backend, own.context) {
        return Ok(false);
    }
    let mut known = opened.peers.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = known.get(&other.index) {
        return Ok(context.is_some());
    }
    let reached = enable(&opened.context, other)?;
    Ok(known.entry(other.index).insert_entry(reached).get().is_some())
}

/// The other device's context, which that of this one reaches from now on; `None` where it cannot.
fn enable(context: &Context, other: DeviceId) -> Result<Option<Context>, DeviceError> {
    let driver = context.driver;
    let (mut device, mut can) = (0, 0);
    // SAFETY: the calls write to places of ours, and both devices are the driver's.
    unsafe {
        let found = (driver.cuDeviceGet)(&raw mut device, other.index as i32);
        driver.checked("cuDeviceGet", found, other)?;
        let asked = (driver.cuDeviceCanAccessPeer)(&raw mut can, context.device(), device);
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
        SUCCESS | PEER_ACCESS_ALREADY_ENABLED => Ok(Some(peer)),
        status => Err(driver.failed("cuCtxEnablePeerAccess", status, context.id)),
    }
}
