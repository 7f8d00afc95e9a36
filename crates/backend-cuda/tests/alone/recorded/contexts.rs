//! The caller's current context.

use haloport_core::device::{Buffer, Device, DeviceId, MemoryExport, MemoryKind, Priority, Stream};
use haloport_core::{BindOptions, DataPath, Field, Progress, run_ranks};
use haloport_cuda::CudaDevice;

use super::exchanges::pattern;
use super::network::Network;
use super::recording::{Call, Recording, recorded, recorded_with};

type Failure = haloport_core::Error;

/// Makes calls of all kinds.
fn use_it(device: &CudaDevice) {
    let stream = device.create_stream(Priority::High).unwrap();
    let event = device.create_event(true).unwrap();
    let memory = [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Shared]
        .map(|kind| device.allocate(64, kind).unwrap());
    let exportable = device.allocate_exportable(64).unwrap();
    // SAFETY: the memory is that long, and lives until the work is done.
    unsafe {
        device.fill(memory[0].pointer(), &[1, 2], 32, &stream).unwrap();
        device.copy(memory[0].pointer(), exportable.pointer(), 64, &device.default_stream()).unwrap();
    }
    device.record(&event, &stream).unwrap();
    device.stream_wait(&device.default_stream(), &event).unwrap();
    assert!(device.query(&event).unwrap());
    // SAFETY: the stream lives to the end of the function.
    let borrowed = unsafe { device.borrow_stream(stream.handle()) }.unwrap();
    device.synchronize(&borrowed).unwrap();
}

#[test]
fn the_callers_current_context_stays() {
    recorded("contexts::the_callers_current_context_stays", |recording| {
        let device = CudaDevice::new().unwrap();
        use_it(&device);
        assert_eq!(recording.current_context(), 0);
        let foreign = recording.enter_foreign();
        use_it(&device);
        assert_eq!(recording.current_context(), foreign);
        drop(device);
        assert_eq!(recording.current_context(), foreign);
        assert_eq!(recording.living(), "");
    });
}

#[test]
fn a_context_that_is_current_already_is_not_made_so_again() {
    recorded("contexts::a_context_that_is_current_already_is_not_made_so_again", |recording| {
        let device = CudaDevice::new().unwrap();
        recording.enter(device.native());
        recording.take_calls();
        use_it(&device);
        let calls = recording.take_calls();
        assert!(calls.len() > 30, "{calls:?}");
        assert!(
            !calls.iter().any(|call| call.name.contains("PushCurrent") || call.name.contains("PopCurrent"))
        );
        assert_eq!(recording.current_context(), device.native());
    });
}

#[test]
fn all_who_open_a_device_share_its_context() {
    recorded("contexts::all_who_open_a_device_share_its_context", |recording| {
        let (one, other) = (CudaDevice::new().unwrap(), CudaDevice::select("cuda:0").unwrap());
        assert_eq!(one.native(), other.native());
        let retained = |calls: &[super::recording::Call]| {
            calls.iter().filter(|call| call.name == "cuDevicePrimaryCtxRetain").count()
        };
        assert_eq!(retained(&recording.take_calls()), 1);
        drop((one, other));
        assert_eq!(recording.living(), "");
        let _again = CudaDevice::new().unwrap();
        assert_eq!(retained(&recording.take_calls()), 1);
    });
}

#[test]
fn a_stream_of_another_context_is_refused() {
    let name = "contexts::a_stream_of_another_context_is_refused";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_DEVICES", "2")], |_| {
        let (one, other) = (CudaDevice::new().unwrap(), CudaDevice::select("cuda:1").unwrap());
        let stream = other.create_stream(Priority::Normal).unwrap();
        assert!(!other.is_default(&stream));
        // SAFETY: the stream lives; the test is that it belongs to another device.
        let error = unsafe { one.borrow_stream(stream.handle()) }.unwrap_err().to_string();
        assert!(error.contains("expected a stream of the primary context"), "{error}");
        for default in 0..3 {
            // SAFETY: these are the handles of default streams.
            let stream = unsafe { one.borrow_stream(default) }.unwrap();
            assert_eq!(stream.handle(), default);
            assert!(one.is_default(&stream), "{default}");
        }
    });
}

#[test]
fn memory_of_another_device_is_reached_where_the_driver_offers_that() {
    let name = "contexts::memory_of_another_device_is_reached_where_the_driver_offers_that";
    let two = ("HALOPORT_DRIVER_DEVICES", "2");
    for peers in ["1", "0"] {
        let variables = [two, ("HALOPORT_DRIVER_PEERS", peers)];
        recorded_with(name, &["libcuda.so.1"], &variables, |recording| {
            let offered = std::env::var("HALOPORT_DRIVER_PEERS").unwrap() == "1";
            let (one, other) = (CudaDevice::new().unwrap(), CudaDevice::select("cuda:1").unwrap());
            recording.take_calls();
            assert!(one.reaches(one.id()).unwrap());
            let elsewhere =
                [DeviceId { backend: "cpu", ..other.id() }, DeviceId { context: 1, ..other.id() }];
            assert!(elsewhere.iter().all(|id| !one.reaches(*id).unwrap()));
            assert_eq!(recording.take_calls(), []);
            assert_eq!(one.reaches(other.id()).unwrap(), offered);
            let names: Vec<String> = recording.take_work().into_iter().map(|call| call.name).collect();
            assert!(names.contains(&"cuDeviceCanAccessPeer".to_string()), "{names:?}");
            // Once is enough.
            assert_eq!(one.reaches(other.id()).unwrap(), offered);
            assert_eq!(recording.take_calls(), []);
            let none = DeviceId { index: 7, ..other.id() };
            assert!(one.reaches(none).is_err());
            drop((one, other));
            assert_eq!(recording.living(), "");
        });
    }
}

/// Two ranks, each on a device of its own, with a transport that reaches the memory of both.
fn on_a_network(name: &str, test: impl Fn(&Recording)) {
    recorded_with(name, &["libcuda.so.1", "libnvrtc.so.12"], &[("HALOPORT_DRIVER_DEVICES", "2")], test);
}

fn switches(calls: &[Call]) -> usize {
    calls.iter().filter(|call| call.name == "cuCtxGetCurrent").count()
}

/// Libraries of MPI look for the device of memory in the current context.
#[test]
fn the_context_is_current_while_the_transport_moves_device_memory() {
    let name = "contexts::the_context_is_current_while_the_transport_moves_device_memory";
    on_a_network(name, |recording| {
        for progress in [Progress::Thread, Progress::Caller] {
            run_ranks(2, |comm| -> Result<(), Failure> {
                let (network, moved) = Network::around(&comm).ok_or("no driver for tests")?;
                network.set_progress(progress)?;
                let device = CudaDevice::select(&format!("cuda:{}", comm.rank()))?;
                let pattern = pattern(&network)?;
                let options = BindOptions::default().path(DataPath::Messages);
                let mut exchange = pattern.bind_with(Field::<f64, _>::new(&device, &pattern)?, options)?;
                let stream = device.create_stream(Priority::Normal)?;
                for _ in 0..3 {
                    exchange.run_on(&stream)?;
                    exchange.run_blocking()?;
                }
                exchange.synchronize()?;
                assert!(moved.load(std::sync::atomic::Ordering::Relaxed) >= 12);
                assert_eq!(recording.current_context(), 0);
                comm.barrier()?;
                Ok(())
            })
            .unwrap();
            assert_eq!(recording.living(), "");
        }
    });
}

/// `start` and `finish` ask for the current context once each.
#[test]
fn an_exchange_asks_for_the_current_context_once_a_call() {
    let name = "contexts::an_exchange_asks_for_the_current_context_once_a_call";
    on_a_network(name, |recording| {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let device = CudaDevice::select(&format!("cuda:{}", comm.rank()))?;
            let pattern = pattern(&comm)?;
            let options = BindOptions::default().path(DataPath::Messages);
            let mut exchange = pattern.bind_with(Field::<f64, _>::new(&device, &pattern)?, options)?;
            let stream = device.create_stream(Priority::Normal)?;
            for _ in 0..3 {
                exchange.synchronize()?;
                comm.barrier()?;
                recording.take_calls();
                let pending = exchange.start_on(&stream)?;
                let start = recording.take_calls();
                pending.finish_on(&stream)?;
                let finish = recording.take_calls();
                assert_eq!(switches(&start), 1, "{start:?}");
                assert_eq!(switches(&finish), 1, "{finish:?}");
            }
            Ok(())
        })
        .unwrap();
    });
}
