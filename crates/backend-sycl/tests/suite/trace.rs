//! The time line on the OpenCL driver that `OCL_ICD_VENDORS` names.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haloport_conformance::{Failure, ensure, scheduled, trace};
use haloport_core::device::{Device, Gates as _};
use haloport_core::run_ranks;
use haloport_core::trace::{DEFAULT_SPANS, Phase};

/// Runs one test at a time: they measure the times of kernels.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_kernel_hides_the_wire() {
    let _alone = alone();
    let Some(device) = crate::common::device() else { return };
    run_ranks(2, |comm| trace::kernels_hide_the_wire(&comm, &device)).unwrap();
}

/// With a time line, no call waits.
#[test]
fn start_and_finish_return_while_a_kernel_runs() {
    let _alone = alone();
    let Some(device) = crate::common::device() else { return };
    let times = run_ranks(2, |comm| {
        comm.begin_trace(DEFAULT_SPANS);
        let time = scheduled::host_goes_on(&comm, &device, 40, &haloport_sycl::blocking_calls)?;
        ensure!(time < Duration::from_millis(1), "a start and its finish took {time:?}");
        Ok::<_, Failure>(time)
    });
    println!("a start and its finish take {:?} by the median", times.unwrap());
}

/// If there are more kernels than events for them, earlier times are read when later kernels are put into the stream;
/// if the device is too far behind, the kernels without a time are counted.
#[test]
fn kernels_are_timed_or_counted() {
    let _alone = alone();
    let Some(device) = crate::common::device() else { return };
    run_ranks(1, |comm| -> Result<(), Failure> {
        let time_line = comm.begin_trace(DEFAULT_SPANS).clone();
        let stream = device.default_stream();
        let nothing = || Ok::<_, Failure>(());
        for number in 0..3000 {
            time_line.kernel("nothing", &device, &stream, nothing)?;
            if number % 500 == 499 {
                device.synchronize(&stream)?;
            }
        }
        assert_eq!((time_line.spans().len(), time_line.dropped()), (3000, 0));
        let open = device.gate(&stream)?;
        for _ in 0..3000 {
            time_line.kernel("behind a gate", &device, &stream, nothing)?;
        }
        open();
        let spans = time_line.spans();
        let behind: Vec<_> = spans.iter().filter(|span| span.name == "behind a gate").collect();
        assert_eq!(behind.len() as u64 + time_line.dropped(), 3000);
        assert!(behind.len() >= 1000, "{} were timed", behind.len());
        for (one, next) in behind.iter().zip(&behind[1..]) {
            assert!(one.phase == Phase::Kernel && one.end <= next.end, "{one:?} before {next:?}");
        }
        Ok(())
    })
    .unwrap();
}
