//! Captured work.

use haloport_core::device::{Buffer, Device, DeviceError, MemoryKind, Priority};
use haloport_cuda::CudaDevice;

use crate::recording::{Call, recorded};

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
