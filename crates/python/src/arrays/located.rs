//! The devices that arrays are in.

use haloport::AnyDevice;
use haloport::device::DeviceError;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::described::{Described, Place};
use crate::comm::Communicator;
use crate::device::Device;
use crate::error::IntoException;

impl Device {
    /// The device whose memory an array is in; `comm` is the rank that uses it.
    pub(crate) fn of_array(described: &Described, comm: &Communicator) -> PyResult<Device> {
        let any = match &described.place {
            Place::Host => comm.cpu()?.into(),
            Place::Cuda(_) => {
                haloport::cuda::CudaDevice::of_array(&described.array).map_err(wrong_memory)?.into()
            }
            Place::Sycl(owner) => owner.device()?.into(),
            Place::Own(id) => {
                return Err(PyBufferError::new_err(format!(
                    "expected an array of another package, found one of {id}"
                )));
            }
        };
        let device = Device::of_any(any);
        device.check_memory(described)?;
        Ok(device)
    }

    /// Checks that an array is in memory of this device, and returns whether the host reaches it.
    pub(crate) fn check_memory(&self, described: &Described) -> PyResult<bool> {
        let array = &described.array;
        match (&self.any, &described.place) {
            (AnyDevice::Cpu(_), Place::Host) => Ok(true),
            (_, Place::Own(id)) if *id == self.id() => Ok(true),
            (AnyDevice::Sycl(device), Place::Sycl(_)) => {
                let found = device.allocation_of(array).map_err(wrong_memory)?;
                Ok(found.is_none_or(|allocation| allocation.host_accessible()))
            }
            (AnyDevice::Cuda(device), Place::Cuda(_)) => {
                let found = device.memory_of(array).map_err(wrong_memory)?;
                Ok(found.is_none_or(|memory| memory.host_accessible()))
            }
            _ => Err(PyBufferError::new_err(format!(
                "expected memory of {}, found {}; copy the array, or make another plan",
                self.name(),
                array.device()
            ))),
        }
    }
}

/// Memory that a device does not have is an array that cannot be shared.
fn wrong_memory(error: DeviceError) -> PyErr {
    match error {
        DeviceError::InvalidArgument { .. } => PyBufferError::new_err(error.to_string()),
        error => error.exception(),
    }
}
