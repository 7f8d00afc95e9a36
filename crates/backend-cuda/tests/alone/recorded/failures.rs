//! Every call of the driver fails in turn: the caller gets an error, and everything that was created is destroyed.

use std::time::Duration;

use haloport_conformance::drawn;
use haloport_core::device::{
    BoxCopy, Buffer, CopyAxis, CopyItem, Device, Gates, KernelArgument, KernelSource, LaunchConfig,
    MemoryExport, MemoryKind, NextReader, ParameterType, Priority, Stream,
};
use haloport_core::{BindOptions, Communicator, DataPath, Field, run_ranks};
use haloport_cuda::CudaDevice;

use super::exchanges::pattern;
use super::recording::{Call, Recording, recorded, recorded_with};
use super::shared::{await_open_files, files_of_libraries};

type Failure = haloport_core::Error;

/// Codes of the driver: out of memory, a failed launch, and a device that is lost for ever.
const FAILURES: [(u32, bool); 3] = [(2, false), (719, false), (46, true)];

const KERNEL: KernelSource = KernelSource {
    name: "f",
    portable: Some("KERNEL void f(GLOBAL double *x, long n) {}"),
    host: |_, _| {},
    parameters: &[ParameterType::Pointer, ParameterType::I64],
};

/// Uses everything that a device offers. After the mark, only drops remain.
fn everything(recording: &Recording) -> Result<(), Failure> {
    let device = CudaDevice::new()?;
    let (stream, default) = (device.create_stream(Priority::High)?, device.default_stream());
    let (begin, end) = (device.create_event(true)?, device.create_event(true)?);
    device.record(&begin, &stream)?;
    let memory =
        [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Shared].map(|kind| device.allocate(4096, kind));
    let [memory, pinned, shared] = memory;
    let (memory, pinned, _shared) = (memory?, pinned?, shared?);
    let exportable = device.allocate_exportable(4096)?;
    let [first, second] = [device.export(&exportable)?, device.export(&memory)?];
    // SAFETY: the buffers live until the end.
    let _imported = unsafe { [device.import(&first)?, device.import(&second)?] };
    let axes = [[8, 512, 512], [4, 8, 8]].map(|[extent, source_stride, target_stride]| CopyAxis {
        extent: extent as usize,
        source_stride,
        target_stride,
    });
    let copy = BoxCopy::new(memory.pointer(), exportable.pointer(), 8, &axes)?;
    let mut back = [0; 64];
    // SAFETY: the box lies in both buffers, which live until the end.
    unsafe {
        device.write(&[1; 64], memory.pointer(), &stream)?;
        device.copy(memory.pointer(), pinned.pointer(), 64, &stream)?;
        device.fill(memory.pointer(), &[1, 2, 3, 4], 16, &stream)?;
        device.fill(memory.pointer(), &[1, 2, 3, 4, 5, 6, 7, 8], 16, &stream)?;
        let list = device.bind_copies(vec![CopyItem::Box(copy)], NextReader::Here)?;
        device.run_copies(&list, &[], &stream)?;
        let kernel = device.compile(&KERNEL)?;
        let arguments = [KernelArgument::Pointer(memory.pointer()), KernelArgument::I64(8)];
        let launch = device.bind(&kernel, LaunchConfig::linear(8), &arguments)?;
        device.launch(&launch, &stream)?;
        device.read(memory.pointer(), &mut back, &stream)?;
    }
    device.record(&end, &stream)?;
    device.stream_wait(&default, &end)?;
    device.query(&end)?;
    device.host_wait(&end)?;
    device.elapsed(&begin, &end)?;
    device.gate(&stream)?();
    device.synchronize_all()?;
    // SAFETY: the stream lives to the end of the function.
    let borrowed = unsafe { device.borrow_stream(stream.handle())? };
    device.synchronize(&borrowed)?;
    recording.mark();
    Ok(())
}

/// Exchanges of one rank with itself or with others, from the pattern to the end, with the same mark.
fn exchanges(recording: &Recording, comm: &Communicator, options: BindOptions) -> Result<(), Failure> {
    let device = CudaDevice::new()?;
    let pattern = pattern(comm)?;
    let mut exchange = pattern.bind_with(Field::<f64, _>::new(&device, &pattern)?, options)?;
    let stream = device.create_stream(Priority::Normal)?;
    for _ in 0..2 {
        exchange.run_on(&stream)?;
    }
    exchange.run_blocking()?;
    recording.mark();
    Ok(())
}

/// Whether the first of these calls releases something, or makes a context current for that: its error is one of
/// earlier work, or no caller is left to get it.
fn gives_back(calls: &[Call]) -> bool {
    let work = calls.iter().find(|call| !call.name.starts_with("cuCtx"));
    let destroys = |call: &Call| {
        ["Destroy", "Free", "Unload", "Release", "Unmap"].iter().any(|part| call.name.contains(part))
    };
    calls[0].name.contains("PopCurrent") || work.is_none_or(destroys)
}

/// Runs `job` with each of its calls failing in turn, in each way.
fn at_every_position(recording: &Recording, job: impl Fn() -> Result<(), Failure>) {
    let files = files_of_libraries();
    // The work that is done once per process.
    job().unwrap();
    assert_eq!(recording.living(), "");
    for &(status, for_ever) in drawn(&FAILURES) {
        let mut position = 0;
        loop {
            recording.take_calls();
            recording.fail(position, status, for_ever);
            let result = job();
            let failed = recording.has_failed();
            let calls = recording.take_calls();
            if !failed {
                result.unwrap();
                break;
            }
            let mark = calls.iter().position(|call| call.name == "mark").unwrap_or(calls.len());
            let dropping = position as usize >= mark;
            let rest = &calls[position as usize + usize::from(dropping)..];
            let context = format!("call {position}, {:?}, failing with {status}", rest[0]);
            match result {
                Ok(()) => assert!(dropping || gives_back(rest), "no error: {context}"),
                Err(error) => {
                    let error = error.to_string();
                    let told = error.contains("failed on cuda:0")
                        || error.contains("could not allocate")
                        || error.contains("did not compile");
                    assert!(told, "{context}: {error}");
                }
            }
            assert_eq!(recording.living(), "", "{context}");
            assert_eq!(recording.current_context(), 0, "{context}");
            await_open_files(files, &context);
            position += 1;
        }
        assert!(position > 60, "only {position} calls were made to fail");
        eprintln!("{position} calls have failed with {status} in turn");
    }
}

#[test]
fn every_call_of_a_device_may_fail() {
    recorded("failures::every_call_of_a_device_may_fail", |recording| {
        at_every_position(recording, || everything(recording));
    });
}

#[test]
fn every_call_of_a_device_with_fabric_handles_may_fail() {
    let name = "failures::every_call_of_a_device_with_fabric_handles_may_fail";
    let variables = [("HALOPORT_DRIVER_HANDLES", "fabric")];
    recorded_with(name, &["libcuda.so.1", "libnvrtc.so.12"], &variables, |recording| {
        at_every_position(recording, || everything(recording));
    });
}

#[test]
fn every_call_of_an_exchange_may_fail() {
    recorded("failures::every_call_of_an_exchange_may_fail", |recording| {
        // A rank is a thread of its own.
        run_ranks(1, |comm| -> Result<(), Failure> {
            at_every_position(recording, || exchanges(recording, &comm, BindOptions::default()));
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_failing_device_of_one_rank_ends_all_ranks() {
    recorded("failures::a_failing_device_of_one_rank_ends_all_ranks", |recording| {
        at_some_positions(recording, BindOptions::default);
    });
}

#[test]
fn a_failing_device_of_one_rank_ends_all_ranks_that_send_chunks() {
    recorded("failures::a_failing_device_of_one_rank_ends_all_ranks_that_send_chunks", |recording| {
        at_some_positions(recording, || BindOptions::default().path(DataPath::Messages).staging_chunk(64));
    });
}

#[test]
fn a_failing_device_of_one_rank_ends_all_ranks_that_move_chunks() {
    recorded("failures::a_failing_device_of_one_rank_ends_all_ranks_that_move_chunks", |recording| {
        at_some_positions(recording, || {
            BindOptions::default().path(DataPath::Messages).staging_chunk(64).staging_copy(0)
        });
    });
}

/// Chance decides which call of which rank fails; the other ranks neither hang nor leak.
fn at_some_positions(recording: &Recording, options: fn() -> BindOptions) {
    let mut failed = 0;
    // The work that is done once per process.
    drop(CudaDevice::new().unwrap());
    for position in (0..800).step_by(13) {
        recording.fail(position, 719, false);
        let result = run_ranks(3, |comm| {
            comm.set_time_limit(Some(Duration::from_secs(20)));
            exchanges(recording, &comm, options())
        });
        let has_failed = recording.has_failed();
        assert!(has_failed || result.is_ok(), "{result:?}");
        failed += usize::from(has_failed && result.is_err());
        assert_eq!(recording.living(), "", "call {position}: {result:?}");
    }
    assert!(failed > 10, "only {failed} failures came out");
}
