//! A described array.

use haloport::device::DeviceId;
use haloport::interop::stream::StreamOrder;
use haloport::interop::{ArrayDescription, Protocol};
use pyo3::prelude::*;

use super::sycl_owner::Owner;
use crate::error::OrRaise;

/// An array, and what must live as long as its description is used.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) array: ArrayDescription,
    pub(crate) place: Place,
    /// Beside the array itself.
    pub(crate) keep: Option<Keep>,
}

/// Where an array lies, and where its last work is.
#[derive(Debug)]
pub(crate) enum Place {
    /// Memory of the host.
    Host,
    /// Memory of CUDA, and the stream in which its package works.
    Cuda(StreamOrder),
    /// Unified shared memory of SYCL, and the object that owns it.
    Sycl(Owner),
    /// Memory of Haloport on this device, which is not the CPU.
    Own(DeviceId),
}

/// The object that keeps the memory of an array alive.
#[derive(Debug)]
pub(crate) enum Keep {
    /// A tensor of DLPack, deleted when it is dropped.
    Tensor { _tensor: haloport::interop::dlpack::OwnedTensor },
    /// An object of Python.
    Object { _object: Py<PyAny> },
}

impl Described {
    /// The same array, which must not be written.
    pub(crate) fn for_reading(self) -> Described {
        Described { array: self.array.for_reading(), ..self }
    }

    /// Checks that halos can be written to the array.
    pub(crate) fn check_writable(&self) -> PyResult<()> {
        self.array.check_writable(Protocol::Description).or_raise()
    }

    /// Checks that the array can be used by exchanges, which only read it if `is_read`.
    pub(crate) fn check_use(&self, is_read: bool) -> PyResult<()> {
        match is_read {
            true => self.array.check_distinct(Protocol::Description).or_raise(),
            false => self.check_writable(),
        }
    }
}
