//! The device type that the features of the build choose.

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
