//! Compiles every kernel of the jobs: by CUDA's run-time compiler, and by the OpenCL driver if there is one.

use haloport::device::KernelSource;
use haloport_demos::{advection, tsunami};

fn kernels() -> Vec<KernelSource> {
    tsunami::model::kernels::ALL.into_iter().chain(advection::model::kernels::ALL).collect()
}

#[test]
fn cudas_compiler_takes_every_kernel() {
    let kernels = kernels();
    let sources: Vec<_> = kernels.iter().map(|kernel| (kernel.name, kernel.portable.unwrap())).collect();
    haloport_conformance::nvrtc::compile_all(&sources).unwrap();
}

#[cfg(feature = "sycl")]
#[test]
fn opencl_takes_every_kernel() {
    use haloport::device::Device;

    let device = match haloport::sycl::SyclDevice::new() {
        Ok(device) => device,
        Err(error) if std::env::var_os("HALOPORT_SYCL").is_none() => return eprintln!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    for kernel in kernels() {
        device.compile(&kernel).unwrap();
    }
}
