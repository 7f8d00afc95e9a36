//! The device suite on the CPU.

use haloport_conformance::device::suite;
use haloport_core::device::Device;
use haloport_cpu::CpuDevice;

#[test]
fn the_device_suite_passes_on_one_thread_and_on_several() {
    for threads in [1, 2, 5] {
        let report = suite(&CpuDevice::with_threads(threads).unwrap(), &[]).unwrap();
        assert!(report.excused.is_empty() && report.passed.len() >= 18, "{report:?}");
    }
}

#[test]
fn zero_threads_are_refused() {
    let error = CpuDevice::with_threads(0).unwrap_err();
    assert_eq!(error.to_string(), "the threads of the CPU device: expected 1 to 65535, found 0");
    // SAFETY: the call is refused.
    let error = unsafe { CpuDevice::new().unwrap().borrow_stream(7) }.unwrap_err();
    assert_eq!(error.to_string(), "the handle of a CPU stream: expected 0, found 7");
}
