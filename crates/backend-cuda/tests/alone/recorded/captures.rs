//! Streams that another program captures: an exchange there is refused, and so is a kernel that is not loaded.

use haloport_core::device::{Buffer, Device, DeviceError, MemoryKind, Priority, Stream};
use haloport_core::{BindOptions, DataPath, Field, Schedule, run_ranks};
use haloport_cuda::{CudaBuffer, CudaDevice, CudaStream};

use super::exchanges::pattern;
use super::recording::{Call, recorded};

type Failure = haloport_core::Error;

/// The error of the driver, 907, would name neither the cause nor what to do.
#[test]
fn exchanges_in_streams_that_are_captured_are_refused() {
    recorded("captures::exchanges_in_streams_that_are_captured_are_refused", |recording| {
        run_ranks(1, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            let pattern = pattern(&comm)?;
            let options = BindOptions::default().path(DataPath::Messages);
            let mut exchange = pattern.bind_with(Field::<f64, _>::new(&device, &pattern)?, options)?;
            let (stream, free) =
                (device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?);
            // The other program has the context of the device.
            let _attached = device.attach()?;
            let advice = "the stream of an exchange: expected one that is not being captured: end the capture before the \
                          exchange, found one that is being captured";
            // The capture goes on, and the exchange stays as it was.
            recording.begin_capture(stream.handle());
            recording.take_calls();
            let refused = exchange.start_on(&stream).err().map(|error| error.to_string());
            assert_eq!(refused.as_deref(), Some(advice));
            assert_eq!(names(recording.take_work()), ["cuStreamIsCapturing"]);
            assert!(recording.end_capture(stream.handle()));
            exchange.run_on(&stream)?;
            // One that has begun in another stream is abandoned, which waits for the device and thereby ends the capture.
            let pending = exchange.start_on(&free)?;
            recording.begin_capture(stream.handle());
            let refused = pending.finish_on(&stream).err().map(|error| error.to_string());
            assert_eq!(refused.as_deref(), Some(advice));
            assert!(!recording.end_capture(stream.handle()));
            Ok(())
        })
        .unwrap();
        assert_eq!(recording.living(), "");
    });
}

/// A blocking stream of another program, which the legacy default stream waits for.
#[test]
fn the_default_stream_is_refused_while_a_stream_that_it_waits_for_is_captured() {
    let name = "captures::the_default_stream_is_refused_while_a_stream_that_it_waits_for_is_captured";
    recorded(name, |recording| {
        run_ranks(1, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            let pattern = pattern(&comm)?;
            let mut exchange = pattern.bind(Field::<f64, _>::new(&device, &pattern)?)?;
            recording.enter(device.native());
            let blocking = recording.create_blocking_stream();
            recording.begin_capture(blocking);
            for schedule in [Schedule::DefaultStream, Schedule::On(&device.default_stream())] {
                let refused = exchange.start_on(schedule).err().map(|error| error.to_string());
                let found = "found the default stream while a stream that waits for it is being captured";
                assert!(refused.as_ref().is_some_and(|error| error.ends_with(found)), "{refused:?}");
            }
            assert!(recording.end_capture(blocking));
            Ok(())
        })
        .unwrap();
    });
}

/// A fill that the kernel of the backend does, since the driver fills with no elements of 16 bytes.
fn fill_by_kernel(device: &CudaDevice, memory: &CudaBuffer, stream: &CudaStream) -> Result<(), DeviceError> {
    let element: [u8; 16] = std::array::from_fn(|at| at as u8);
    // SAFETY: the buffer is that long, and lives to the end.
    unsafe { device.fill(memory.pointer(), &element, 8, stream) }
}

fn names(calls: Vec<Call>) -> Vec<String> {
    calls.into_iter().map(|call| call.name).collect()
}

/// Loading may wait for the device, and is not allowed during a capture.
#[test]
fn the_kernel_is_loaded_before_the_first_work_in_a_stream() {
    recorded("captures::the_kernel_is_loaded_before_the_first_work_in_a_stream", |recording| {
        let device = CudaDevice::new().unwrap();
        let memory = device.allocate(1024, MemoryKind::Device).unwrap();
        recording.take_calls();
        let stream = device.create_stream(Priority::Normal).unwrap();
        let made = recording.take_work();
        let loads = |calls: &[Call]| calls.iter().filter(|call| call.name == "cuFuncLoad").count();
        assert_eq!(loads(&made), 1, "{made:?}");
        let _other = device.create_stream(Priority::Normal).unwrap();
        assert_eq!(loads(&recording.take_work()), 0);
        fill_by_kernel(&device, &memory, &stream).unwrap();
        assert_eq!(names(recording.take_work()), ["cuLaunchKernel"]);
        recording.enter(device.native());
        recording.begin_capture(stream.handle());
        fill_by_kernel(&device, &memory, &stream).unwrap();
        assert!(recording.end_capture(stream.handle()));
    });
}

/// Only a program that creates no stream finds that the kernel is not loaded.
#[test]
fn a_kernel_that_is_not_loaded_is_refused_in_a_capture() {
    recorded("captures::a_kernel_that_is_not_loaded_is_refused_in_a_capture", |recording| {
        let device = CudaDevice::new().unwrap();
        let memory = device.allocate(1024, MemoryKind::Device).unwrap();
        recording.enter(device.native());
        // SAFETY: the stream is live until the driver ends.
        let stream = unsafe { device.borrow_stream(recording.create_blocking_stream()) }.unwrap();
        recording.begin_capture(stream.handle());
        let refused = fill_by_kernel(&device, &memory, &stream).unwrap_err().to_string();
        let expected = "cuda:0 does not offer loading a kernel for a stream that is being captured; create a stream of the \
                        device, or make the same call once, before the capture";
        assert_eq!(refused, expected);
        assert!(recording.end_capture(stream.handle()));
        recording.take_calls();
        fill_by_kernel(&device, &memory, &stream).unwrap();
        // Its code is loaded before the launch.
        let made = names(recording.take_work());
        assert!(made.ends_with(&["cuFuncLoad".into(), "cuLaunchKernel".into()]), "{made:?}");
        recording.begin_capture(stream.handle());
        fill_by_kernel(&device, &memory, &stream).unwrap();
        assert!(recording.end_capture(stream.handle()));
    });
}
