//! A device of any backend of this build, chosen at run time.

mod device;
mod roles;
mod values;

use enum_dispatch::enum_dispatch;
use haloport_core::device::{Device, DeviceError, DeviceInfo};
#[cfg(feature = "cpu")]
use haloport_cpu::CpuDevice;
#[cfg(feature = "cuda")]
use haloport_cuda::CudaDevice;
#[cfg(feature = "sycl")]
use haloport_sycl::SyclDevice;

pub use values::{Buffer, Copies, Event, Kernel, Launch, Stream};

/// A device of any backend of this build, chosen at run time.
///
/// It is a [`Device`] as well: code that is generic over the device, fields and exchanges take it, and are compiled once for
/// all backends. Each call branches on the backend. What the device of one backend has made is an error for that of
/// another.
///
/// ```
/// use haloport::{AnyDevice, Pattern, run_ranks};
///
/// let device = AnyDevice::select("cpu:threads=1")?;
/// run_ranks(2, |comm| {
///     let pattern = Pattern::on_grid(&comm, [8, 6]).build()?;
///     pattern.bind(pattern.field::<f64, _>(&device)?)?.run()?;
///     Ok(())
/// })?;
/// # Ok::<(), haloport::Error>(())
/// ```
#[enum_dispatch(Describe)]
#[derive(Debug, Clone)]
pub enum AnyDevice {
    /// The CPU.
    #[cfg(feature = "cpu")]
    Cpu(CpuDevice),
    /// An NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda(CudaDevice),
    /// A device of OpenCL.
    #[cfg(feature = "sycl")]
    Sycl(SyclDevice),
}

/// The properties of any device.
#[enum_dispatch]
trait Describe {
    fn describe(&self) -> &DeviceInfo;
}

impl<D: Backend> Describe for D {
    fn describe(&self) -> &DeviceInfo {
        self.info()
    }
}

/// The devices that an [`AnyDevice`] may hold.
trait Backend: Device {}

#[cfg(feature = "cpu")]
impl Backend for CpuDevice {}
#[cfg(feature = "cuda")]
impl Backend for CudaDevice {}
#[cfg(feature = "sycl")]
impl Backend for SyclDevice {}

impl AnyDevice {
    /// The properties of the device.
    pub fn info(&self) -> &DeviceInfo {
        self.describe()
    }

    /// The name of its backend: `cpu`, `cuda`, `sycl`, or `level_zero` for a device of that by SYCL.
    pub fn backend(&self) -> &'static str {
        self.info().id.backend
    }

    /// The same device, with `threads` threads if it is the CPU. Ranks that are threads of one process take 1 each.
    ///
    /// # Errors
    /// [`DeviceError`] for 0 threads, and if the threads cannot be started.
    #[cfg_attr(not(feature = "cpu"), allow(unused_variables, reason = "no device of this build has threads"))]
    pub fn with_threads(self, threads: usize) -> Result<AnyDevice, DeviceError> {
        match self {
            #[cfg(feature = "cpu")]
            AnyDevice::Cpu(_) => Ok(CpuDevice::with_threads(threads)?.into()),
            #[cfg(feature = "cuda")]
            AnyDevice::Cuda(_) => Ok(self),
            #[cfg(feature = "sycl")]
            AnyDevice::Sycl(_) => Ok(self),
        }
    }
}
