//! The calls of an exchange whose messages streams send and receive: packing, one group of messages and unpacking, in one
//! stream, and no call that waits.

use std::path::PathBuf;

use haloport_core::device::{Device, Priority, Stream};
use haloport_core::{BindOptions, DataPath, Field, run_ranks};
use haloport_cuda::CudaDevice;

use super::exchanges::pattern;
use super::recording::{Call, driver, recorded_with};

type Failure = haloport_core::Error;

/// The NCCL for tests, which cargo puts beside the driver.
fn nccl() -> PathBuf {
    driver().with_file_name("libhaloport_cuda_test_nccl.so")
}

#[test]
fn it_is_one_group_and_waits_for_nothing() {
    let name = "stream_messages::it_is_one_group_and_waits_for_nothing";
    let libraries = ["libcuda.so.1", "libnvrtc.so.12"];
    let nccl = nccl();
    let variables = [("HALOPORT_DRIVER_DEVICES", "3"), ("HALOPORT_NCCL", nccl.to_str().unwrap())];
    recorded_with(name, &libraries, &variables, |recording| {
        run_ranks(3, |comm| -> Result<(), Failure> {
            let device = CudaDevice::select(&format!("cuda:{}", comm.rank()))?;
            let pattern = pattern(&comm)?;
            let fields =
                vec![Field::<f64, _>::new(&device, &pattern)?, Field::<f64, _>::new(&device, &pattern)?];
            let options = BindOptions::default().path(DataPath::StreamMessages);
            let mut exchange = pattern.bind_with(fields, options)?;
            let stream = device.create_stream(Priority::Normal)?;
            let callers = format!("{:#x}", stream.handle());
            // As in a program whose thread has the device's context.
            let _attached = device.attach()?;
            for _ in 0..3 {
                // An exchange begins when the one before is over.
                exchange.complete()?;
                comm.barrier()?;
                if comm.rank() == 0 {
                    recording.take_all_calls();
                }
                comm.barrier()?;
                recording.take_calls();
                let pending = exchange.start_on(&stream)?;
                let start = recording.take_work();
                pending.finish_on(&stream)?;
                let finish = recording.take_work();
                assert!(!start.iter().chain(&finish).any(Call::waits), "{start:?} {finish:?}");

                let names: Vec<&str> = start.iter().map(|call| call.name.as_str()).collect();
                let count = |name: &str| names.iter().filter(|found| **found == name).count();
                assert_eq!((count("ncclGroupStart"), count("ncclGroupEnd")), (1, 1), "{start:?}");
                // All ranks are neighbours of each other.
                assert_eq!((count("ncclSend"), count("ncclRecv")), (2, 2), "{start:?}");
                let at = |name: &str| names.iter().position(|found| *found == name);
                let last = names.iter().rposition(|found| *found == "cuLaunchKernel");
                assert_eq!(count("cuLaunchKernel"), 2, "{start:?}");
                assert!(
                    at("cuLaunchKernel") < at("ncclGroupStart") && at("ncclGroupEnd") < last,
                    "{start:?}"
                );
                let work = ["ncclSend", "ncclRecv", "cuLaunchKernel"];
                let worked = start.iter().filter(|call| work.contains(&&*call.name));
                let mut streams: Vec<&str> = worked.map(|call| call.argument("stream")).collect();
                streams.dedup();
                assert!(
                    streams.len() == 1 && streams[0] != callers,
                    "{streams:?}, the caller's is {callers}"
                );
                let driver_calls = start.iter().filter(|call| call.name.starts_with("cu")).count();
                assert!(driver_calls <= 9, "{driver_calls} calls of the driver: {start:?}");

                let [wait] = &finish[..] else { panic!("expected one call, found {finish:?}") };
                assert_eq!((wait.name.as_str(), wait.argument("stream")), ("cuStreamWaitEvent", &*callers));

                exchange.complete()?;
                comm.barrier()?;
                if comm.rank() == 0 {
                    // The progress thread only asks NCCL for errors, whose own threads set their context.
                    let mut others = recording.take_all_calls();
                    others.retain(|call| {
                        call.name != "ncclCommGetAsyncError" && !call.name.starts_with("cuCtx")
                    });
                    assert!(others.is_empty(), "other threads called the driver: {others:?}");
                }
                comm.barrier()?;
            }
            Ok(())
        })
        .unwrap();
    });
}
