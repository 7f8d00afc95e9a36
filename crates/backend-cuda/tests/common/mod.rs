//! The device under test: the first one of the CUDA driver.

use haloport_conformance::backend::device_under_test;
use haloport_cuda::CudaDevice;

/// The device; `None` if it is missing and `HALOPORT_CUDA` does not require it.
pub(crate) fn device() -> Option<CudaDevice> {
    device_under_test(CudaDevice::new(), "HALOPORT_CUDA")
}
