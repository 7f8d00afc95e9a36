//! The device that the features of the build choose.

cfg_if::cfg_if! {
    // The first backend that is built: accelerators come before the CPU.
    if #[cfg(feature = "cuda")] {
        /// The device type that the enabled features choose: here an NVIDIA GPU.
        ///
        /// Code that names no other device changes machines by a change of features alone.
        pub type DefaultDevice = haloport_cuda::CudaDevice;
    } else if #[cfg(feature = "sycl")] {
        /// The device type that the enabled features choose: here a device of OpenCL.
        ///
        /// Code that names no other device changes machines by a change of features alone.
        pub type DefaultDevice = haloport_sycl::SyclDevice;
    } else if #[cfg(feature = "cpu")] {
        /// The device type that the enabled features choose: here the CPU, the only backend of this build.
        ///
        /// Code that names no other device changes machines by a change of features alone.
        pub type DefaultDevice = haloport_cpu::CpuDevice;
    }
}
