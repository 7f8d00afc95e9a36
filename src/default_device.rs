//! The device type that the features of the build choose.

use haloport_core::device::DeviceError;

/// A device of the type that the enabled features choose, for one rank: the first GPU; or the CPU with one thread, or as
/// many as the environment variable `RAYON_NUM_THREADS` says.
///
/// ```no_run
/// use haloport::{Pattern, default_device, run_ranks};
///
/// run_ranks(2, |comm| {
///     let pattern = Pattern::on_grid(&comm, [8, 6]).build()?;
///     let depth = pattern.field::<f64, _>(&default_device()?)?;
///     pattern.bind(depth)?.run()?;
///     Ok(())
/// })?;
/// # Ok::<(), haloport::comm::RanksError>(())
/// ```
///
/// # Errors
/// As for `new` of that device.
pub fn default_device() -> Result<DefaultDevice, DeviceError> {
    cfg_if::cfg_if! {
        if #[cfg(any(feature = "cuda", feature = "sycl"))] {
            DefaultDevice::new()
        } else {
            DefaultDevice::with_threads(haloport_cpu::threads_asked_for().unwrap_or(1))
        }
    }
}

cfg_if::cfg_if! {
    // The first backend of the build: accelerators come before the CPU.
    if #[cfg(feature = "cuda")] {
        /// The device type that the enabled features choose: here an NVIDIA GPU.
        ///
        /// If a program names no other device, a change of features alone moves it to another kind of machine.
        pub type DefaultDevice = haloport_cuda::CudaDevice;
    } else if #[cfg(feature = "sycl")] {
        /// The device type that the enabled features choose: here a device of OpenCL.
        ///
        /// If a program names no other device, a change of features alone moves it to another kind of machine.
        pub type DefaultDevice = haloport_sycl::SyclDevice;
    } else if #[cfg(feature = "cpu")] {
        /// The device type that the enabled features choose: here the CPU, the only backend of this build.
        ///
        /// If a program names no other device, a change of features alone moves it to another kind of machine.
        pub type DefaultDevice = haloport_cpu::CpuDevice;
    }
}
