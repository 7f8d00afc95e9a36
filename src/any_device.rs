//! A device of any backend of this build, chosen at run time.

use enum_dispatch::enum_dispatch;
use haloport_core::device::{Device, DeviceError, DeviceInfo};
#[cfg(feature = "cpu")]
use haloport_cpu::CpuDevice;
#[cfg(feature = "cuda")]
use haloport_cuda::CudaDevice;
#[cfg(feature = "sycl")]
use haloport_sycl::SyclDevice;

/// A device of any backend of this build, chosen at run time.
///
/// It is not a [`Device`] itself: [`with_device!`](crate::with_device) passes the device within to generic code, which is
/// compiled for each backend.
///
/// ```
/// use haloport::AnyDevice;
///
/// let any = AnyDevice::select("cpu")?.with_threads(1)?;
/// assert_eq!(any.info().id.to_string(), "cpu:0");
/// # Ok::<(), haloport::device::SelectError>(())
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

impl<D: Device> Describe for D {
    fn describe(&self) -> &DeviceInfo {
        self.info()
    }
}

impl AnyDevice {
    /// The properties of the device.
    pub fn info(&self) -> &DeviceInfo {
        self.describe()
    }

    /// The name of its backend: `cpu`, `cuda` or `sycl`.
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

/// Evaluates an expression that is generic over the device, with the device inside an [`AnyDevice`].
///
/// The expression is compiled once for each backend of the build. Put it in the outermost function: nothing below it then
/// depends on the choice at run time.
///
/// ```
/// use haloport::device::Device;
/// use haloport::{AnyDevice, with_device};
///
/// fn threads(device: &impl Device) -> usize {
///     device.info().compute_units
/// }
///
/// let any = AnyDevice::select("cpu:threads=2")?;
/// assert_eq!(with_device!(&any, |device| threads(device)), 2);
/// # Ok::<(), haloport::device::SelectError>(())
/// ```
#[macro_export]
macro_rules! with_device {
    ($any:expr, |$device:ident| $body:expr) => {
        $crate::__with_cpu!([$any] $device [$body] [])
    };
}

// The features of this crate decide which arms there are, not those of the caller. So each backend has a macro, defined with
// its arm or without, which calls the macro of the next backend.
macro_rules! arm {
    ($d:tt $feature:literal $variant:ident $name:ident $next:ident) => {
        #[cfg(feature = $feature)]
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $name {
            ([$d any:expr] $d device:ident [$d body:expr] [$d($d arms:tt)*]) => {
                $d crate::$next!([$d any] $d device [$d body] [$d($d arms)* $d crate::AnyDevice::$variant($d device) => $d body,])
            };
        }

        #[cfg(not(feature = $feature))]
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $name {
            ($d($d all:tt)*) => {
                $d crate::$next!($d($d all)*)
            };
        }
    };
}

arm!($ "cpu" Cpu __with_cpu __with_cuda);
arm!($ "cuda" Cuda __with_cuda __with_sycl);
arm!($ "sycl" Sycl __with_sycl __with_all);

#[doc(hidden)]
#[macro_export]
macro_rules! __with_all {
    ([$any:expr] $device:ident [$body:expr] [$($arms:tt)*]) => {
        match $any {
            $($arms)*
        }
    };
}
