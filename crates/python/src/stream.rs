//! Streams.

use haloport::device::{AnyStream, Device as _, DeviceId, Priority, Stream as _};
use haloport::{AnyDevice, cpu, cuda, sycl};
use pyo3::prelude::*;

use crate::device::Device;
use crate::error::OrRaise;
use crate::process;

/// A queue of work on a device, in order. On the CPU, whose work is done when a call returns, a stream with handle 0.
///
/// As a context manager it waits at the end for its work.
///
/// Parameters
/// ----------
/// device : str, Device or dpctl.SyclQueue
///     The device; by default the CPU.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct Stream {
    device: Device,
    stream: OwnStream,
}

/// A stream of any backend.
#[derive(Debug, Clone)]
enum OwnStream {
    Cpu(cpu::CpuStream),
    Cuda(cuda::CudaStream),
    Sycl(sycl::SyclStream),
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (device=None), text_signature = "(device='cpu')")]
    fn py_new(device: Option<&Bound<'_, PyAny>>) -> PyResult<Stream> {
        let device = device.map_or_else(Device::plain_cpu, Device::of)?;
        let stream = match &device.any {
            AnyDevice::Cpu(device) => OwnStream::Cpu(device.create_stream(Priority::Normal).or_raise()?),
            AnyDevice::Cuda(device) => OwnStream::Cuda(device.create_stream(Priority::Normal).or_raise()?),
            AnyDevice::Sycl(device) => OwnStream::Sycl(device.create_stream(Priority::Normal).or_raise()?),
        };
        Ok(Stream { device, stream })
    }

    /// The device.
    #[getter]
    fn device(&self) -> Device {
        self.device.clone()
    }

    /// The native handle as an integer: a ``cudaStream_t``, a ``cl_command_queue``, 0 on the CPU.
    #[getter]
    fn handle(&self) -> usize {
        match &self.stream {
            OwnStream::Cpu(stream) => stream.handle(),
            OwnStream::Cuda(stream) => stream.handle(),
            OwnStream::Sycl(stream) => stream.handle(),
        }
    }

    /// Waits until all work in the stream is done.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        process::check()?;
        py.detach(|| match (&self.device.any, &self.stream) {
            (AnyDevice::Cpu(device), OwnStream::Cpu(stream)) => device.synchronize(stream),
            (AnyDevice::Cuda(device), OwnStream::Cuda(stream)) => device.synchronize(stream),
            (AnyDevice::Sycl(device), OwnStream::Sycl(stream)) => device.synchronize(stream),
            // A stream is made on its device.
            _ => Ok(()),
        })
        .or_raise()
    }

    /// The handle for packages of CUDA.
    fn __cuda_stream__(&self) -> PyResult<(i64, usize)> {
        match &self.stream {
            OwnStream::Cuda(stream) => Ok((0, stream.handle())),
            _ => Err(pyo3::exceptions::PyTypeError::new_err(format!(
                "expected a stream of CUDA, found one of {}",
                self.device.name()
            ))),
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.synchronize(py)?;
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("<haloport.Stream: {}, handle {:#x}>", self.device.name(), self.handle())
    }
}

impl Stream {
    pub(crate) fn device_id(&self) -> DeviceId {
        self.device.id()
    }

    /// Another handle to the stream.
    pub(crate) fn any(&self) -> Box<dyn AnyStream> {
        match &self.stream {
            OwnStream::Cpu(stream) => Box::new(*stream),
            OwnStream::Cuda(stream) => Box::new(stream.clone()),
            OwnStream::Sycl(stream) => Box::new(stream.clone()),
        }
    }
}
