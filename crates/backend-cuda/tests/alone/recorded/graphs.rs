//! Captured work.

use haloport_core::device::{BoxCopy, Buffer, CopyAxis, Device, DeviceError, MemoryKind, Priority};
use haloport_core::{BindOptions, DataPath, Field, Schedule, run_ranks};
use haloport_cuda::{CudaBuffer, CudaDevice, CudaStream};

use super::exchanges::pattern;
use super::recording::{Call, recorded};

type Failure = haloport_core::Error;

#[test]
fn captured_work_is_put_into_a_stream_with_one_call() {
    recorded("graphs::captured_work_is_put_into_a_stream_with_one_call", |recording| {
        let device = CudaDevice::new().unwrap();
        let stream = device.create_stream(Priority::Normal).unwrap();
        let [one, two] = [0, 1].map(|_| device.allocate(64, MemoryKind::Device).unwrap());
        let copy = || {
            // SAFETY: the buffers are that long, and live to the end.
            unsafe { device.copy(one.pointer(), two.pointer(), 64, &stream) }
        };
        recording.take_calls();
        let graph = device.capture_graph(&stream, || copy().and_then(|()| copy())).unwrap();
        let names = |calls: Vec<Call>| calls.into_iter().map(|call| call.name).collect::<Vec<_>>();
        let captured = [
            "cuStreamBeginCapture_v2",
            "cuMemcpyAsync",
            "cuMemcpyAsync",
            "cuStreamEndCapture",
            "cuGraphInstantiateWithFlags",
            "cuGraphUpload",
            "cuGraphDestroy",
        ];
        assert_eq!(names(recording.take_work()), captured);
        for _ in 0..2 {
            // SAFETY: as above.
            unsafe { graph.launch(&stream) }.unwrap();
        }
        assert_eq!(names(recording.take_work()), ["cuGraphLaunch"; 2]);
        drop((graph, stream, one, two, device));
        assert_eq!(recording.living(), "");
    });
}

#[test]
fn a_capture_ends_whatever_becomes_of_the_work() {
    recorded("graphs::a_capture_ends_whatever_becomes_of_the_work", |recording| {
        let device = CudaDevice::new().unwrap();
        let stream = device.create_stream(Priority::Normal).unwrap();
        let refused = || Err(DeviceError::invalid("the work", "some", "none"));
        let error = device.capture_graph(&stream, refused).unwrap_err().to_string();
        assert_eq!(error, "the work: expected some, found none");
        let panics =
            std::panic::AssertUnwindSafe(|| device.capture_graph(&stream, || panic!("as it is meant")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(device.capture_graph(&device.default_stream(), || Ok(())).is_err());
        // The stream can capture again.
        device.capture_graph(&stream, || Ok(())).unwrap();
        drop((stream, device));
        assert_eq!(recording.living(), "");
    });
}

/// The error of the driver, 907, would name neither the cause nor what to do.
#[test]
fn exchanges_in_streams_that_are_captured_are_refused() {
    recorded("graphs::exchanges_in_streams_that_are_captured_are_refused", |recording| {
        run_ranks(1, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            let pattern = pattern(&comm)?;
            let options = BindOptions::default().path(DataPath::Messages);
            let mut exchange = pattern.bind_with(Field::<f64, _>::new(&device, &pattern)?, options)?;
            let (stream, free) =
                (device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?);
            let advice = "the stream of an exchange: expected one that is not being captured: end the capture before the \
                          exchange, or record the exchange with the work around it as a step (`Exchange::record`), found \
                          one that is being captured";
            // The capture goes on, and the exchange stays as it was.
            recording.take_calls();
            device.capture_graph(&stream, || {
                let refused = exchange.start_on(&stream).err().map(|error| error.to_string());
                assert_eq!(refused.as_deref(), Some(advice));
                Ok(())
            })?;
            let names: Vec<String> = recording.take_work().into_iter().map(|call| call.name).collect();
            let asks = ["cuStreamIsCapturing", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"];
            assert_eq!(names[1..4], asks, "{names:?}");
            exchange.run_on(&stream)?;
            // One that has begun in another stream is abandoned, which waits for the device and thereby ends the capture.
            let mut pending = Some(exchange.start_on(&free)?);
            let captured = device.capture_graph(&stream, || {
                let finished = pending.take().map(|pending| pending.finish_on(&stream).err());
                let refused = finished.flatten().map(|error| error.to_string());
                assert_eq!(refused.as_deref(), Some(advice));
                Ok(())
            });
            assert!(captured.is_err());
            Ok(())
        })
        .unwrap();
        assert_eq!(recording.living(), "");
    });
}

/// A blocking stream of another program, which the legacy default stream waits for.
#[test]
fn the_default_stream_is_refused_while_a_stream_that_it_waits_for_is_captured() {
    let name = "graphs::the_default_stream_is_refused_while_a_stream_that_it_waits_for_is_captured";
    recorded(name, |recording| {
        run_ranks(1, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            let pattern = pattern(&comm)?;
            let mut exchange = pattern.bind(Field::<f64, _>::new(&device, &pattern)?)?;
            recording.enter(device.native());
            // SAFETY: the stream is live until the driver ends.
            let blocking = unsafe { device.borrow_stream(recording.create_blocking_stream())? };
            device.capture_graph(&blocking, || {
                for schedule in [Schedule::DefaultStream, Schedule::On(&device.default_stream())] {
                    let refused = exchange.start_on(schedule).err().map(|error| error.to_string());
                    let found = "found the default stream while a stream that waits for it is being captured";
                    assert!(refused.as_ref().is_some_and(|error| error.ends_with(found)), "{refused:?}");
                }
                Ok(())
            })?;
            Ok(())
        })
        .unwrap();
    });
}

/// A fill and a copy that kernels of the backend do.
fn work_of_kernels(device: &CudaDevice, memory: &CudaBuffer, stream: &CudaStream) -> Result<(), DeviceError> {
    let (from, to) = (memory.pointer(), memory.pointer().offset(512));
    let axes = [CopyAxis { extent: 4, source_stride: 16, target_stride: 24 }];
    let copy = BoxCopy::new(from, to, 8, &axes)?;
    // SAFETY: the buffer is that long, and lives to the end.
    unsafe {
        device.fill(from, &[1, 2, 3, 4, 5, 6, 7, 8], 8, stream)?;
        device.copy_box(&copy, stream)
    }
}

/// Loading may wait for the device, and is not allowed during a capture.
#[test]
fn kernels_are_loaded_before_the_first_work_in_a_stream() {
    recorded("graphs::kernels_are_loaded_before_the_first_work_in_a_stream", |recording| {
        let device = CudaDevice::new().unwrap();
        let memory = device.allocate(1024, MemoryKind::Device).unwrap();
        recording.take_calls();
        let stream = device.create_stream(Priority::Normal).unwrap();
        let made = recording.take_work();
        let loads = |calls: &[Call]| calls.iter().filter(|call| call.name == "cuFuncLoad").count();
        assert_eq!(loads(&made), 2, "{made:?}");
        let _other = device.create_stream(Priority::Normal).unwrap();
        assert_eq!(loads(&recording.take_work()), 0);
        work_of_kernels(&device, &memory, &stream).unwrap();
        let names: Vec<String> = recording.take_work().into_iter().map(|call| call.name).collect();
        assert_eq!(names, ["cuLaunchKernel"; 2]);
        device.capture_graph(&stream, || work_of_kernels(&device, &memory, &stream)).unwrap();
    });
}

/// Only a program that creates no stream finds kernels that are not loaded.
#[test]
fn kernels_that_are_not_loaded_are_refused_in_a_capture() {
    recorded("graphs::kernels_that_are_not_loaded_are_refused_in_a_capture", |recording| {
        let device = CudaDevice::new().unwrap();
        let memory = device.allocate(1024, MemoryKind::Device).unwrap();
        recording.enter(device.native());
        // SAFETY: the stream is live until the driver ends.
        let stream = unsafe { device.borrow_stream(recording.create_blocking_stream()) }.unwrap();
        let capture = || device.capture_graph(&stream, || work_of_kernels(&device, &memory, &stream));
        let refused = capture().unwrap_err().to_string();
        let expected = "cuda:0 does not offer loading a kernel for a stream that is being captured; create a stream of the \
                        device, or make the same call once, before the capture";
        assert_eq!(refused, expected);
        work_of_kernels(&device, &memory, &stream).unwrap();
        capture().unwrap();
    });
}
