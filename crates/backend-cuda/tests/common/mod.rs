//! The devices under test: the first ones of the CUDA driver.
#![allow(dead_code, reason = "each file of tests is a program of its own and uses a part of this")]

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use haloport_conformance::backend::device_under_test;
use haloport_core::device::Device;
use haloport_cuda::CudaDevice;

/// Held by the test that uses devices. Ranks of another test of this process would count as ranks that share the device: streams
/// of such ranks wait for no neighbour.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// The turn of the test that runs in this thread, until the thread ends.
    static OWN_TURN: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Waits until no other test of this process uses devices. For the thread of a test, not for those of its ranks.
fn wait_for_turn() {
    OWN_TURN.with_borrow_mut(|turn| {
        turn.get_or_insert_with(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    });
}

/// The device; `None` if it is missing and `HALOPORT_CUDA` does not require it. Other tests of this process wait until this one
/// has ended.
pub(crate) fn device() -> Option<CudaDevice> {
    wait_for_turn();
    device_under_test(CudaDevice::new(), "HALOPORT_CUDA")
}

/// The first `count` devices; `None`, with a line that says so, if there are fewer.
pub(crate) fn devices(count: usize) -> Option<Vec<CudaDevice>> {
    device()?;
    let found: Vec<_> =
        (0..count).map_while(|number| CudaDevice::select(&format!("cuda:{number}")).ok()).collect();
    if found.len() < count {
        eprintln!("skipped: {count} devices are needed, {} found", found.len());
        return None;
    }
    Some(found)
}

/// The device, if its streams can be held back by gates; otherwise says why not.
pub(crate) fn device_with_gates() -> Option<CudaDevice> {
    let device = device()?;
    if !device.info().capabilities.gates {
        println!("skipped: no gates, as CUDA_LAUNCH_BLOCKING is set, or streams write no words");
        return None;
    }
    Some(device)
}
