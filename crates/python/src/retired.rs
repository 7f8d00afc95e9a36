//! Arrays of exchanges that have ended in a stream, until their work there is done.

use std::thread;
use std::time::Duration;

use haloport::AnyDevice;
use haloport::device::{Device as _, DeviceError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

use crate::arrays::described::Keep;
use crate::device::Device;
use crate::order::Order;
use crate::process;

/// The arrays of an exchange that has ended in a stream. When it is dropped, it waits for that work.
pub(crate) struct Retired {
    markers: Vec<Box<dyn Fn() -> bool + Send + Sync>>,
    kept: Option<Kept>,
}

/// The arrays of an exchange.
pub(crate) struct Kept {
    _arrays: Py<PyTuple>,
    _keep: SmallVec<[Keep; 2]>,
}

impl Kept {
    pub(crate) fn new(arrays: &Bound<'_, PyTuple>, keep: SmallVec<[Keep; 2]>) -> Kept {
        Kept { _arrays: arrays.clone().unbind(), _keep: keep }
    }
}

impl Retired {
    /// Marks the work that is in the streams of `order` now; `None` if no device works asynchronously.
    pub(crate) fn new(devices: &[Device], order: &Order, kept: Kept) -> Result<Option<Retired>, DeviceError> {
        let mut markers = Vec::new();
        for device in devices.iter().filter(|device| device.any.info().asynchronous) {
            markers.push(marker(&device.any, order)?);
        }
        Ok((!markers.is_empty()).then_some(Retired { markers, kept: Some(kept) }))
    }

    pub(crate) fn is_done(&self) -> bool {
        self.markers.iter().all(|is_done| is_done())
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        if process::is_ending() {
            std::mem::forget(self.kept.take());
            return;
        }
        let wait = || {
            while !process::is_forked() && !self.is_done() {
                thread::sleep(Duration::from_micros(50));
            }
        };
        // Other ranks, as threads of this process, may need Python before the work can end.
        if Python::try_attach(|py| py.detach(wait)).is_none() {
            wait();
        }
    }
}

/// A function that says whether the work that is in the stream of `order` now is done. Work that failed counts as done.
fn marker(device: &AnyDevice, order: &Order) -> Result<Box<dyn Fn() -> bool + Send + Sync>, DeviceError> {
    let event = device.create_event(false)?;
    device.record(&event, &order.stream(device))?;
    let device = device.clone();
    Ok(Box::new(move || device.query(&event).unwrap_or(true)))
}
