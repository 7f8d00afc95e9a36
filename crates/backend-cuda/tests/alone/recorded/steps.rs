//! The driver calls of a step that is captured and replayed; a replay is one launch.

use std::time::Duration;

use haloport_conformance::steps;
use haloport_core::device::{Buffer, Device, DeviceError, MemoryKind, Priority, Stream};
use haloport_core::exchange::CopiedBy;
use haloport_core::{
    BindOptions, Communicator, DataPath, Exchange, ExchangeError, Field, Progress, run_ranks,
};
use haloport_cuda::CudaDevice;

use super::exchanges::{in_short, pattern};
use super::recording::{Recording, recorded_with};

type Failure = haloport_core::Error;

const BYTES: usize = 64;

/// An exchange of a rank with its neighbours and itself, in messages.
fn bound(comm: &Communicator, device: &CudaDevice) -> Result<Exchange<Field<f64, CudaDevice>>, Failure> {
    bound_with(comm, device, BindOptions::default().path(DataPath::Messages))
}

/// The same with these options.
fn bound_with(
    comm: &Communicator,
    device: &CudaDevice,
    options: BindOptions,
) -> Result<Exchange<Field<f64, CudaDevice>>, Failure> {
    let pattern = pattern(comm)?;
    let field = Field::<f64, _>::new(device, &pattern)?;
    Ok(pattern.bind_with(field, options)?)
}

/// A device for each rank: ranks that share one capture nothing.
const DEVICES: (&str, &str) = ("HALOPORT_DRIVER_DEVICES", "3");

fn device_of(comm: &Communicator) -> Result<CudaDevice, DeviceError> {
    CudaDevice::select(&format!("cuda:{}", comm.rank()))
}

fn recorded_on_devices(name: &str, test: impl FnOnce(&Recording)) {
    recorded_with(name, &["libcuda.so.1", "libnvrtc.so.12"], &[DEVICES], test);
}

/// The work of a rank in a step: it fills memory while halos travel, and copies it to memory that the host reads.
struct Beside {
    device: CudaDevice,
    stream: haloport_cuda::CudaStream,
    memory: haloport_cuda::CudaBuffer,
    seen: haloport_cuda::CudaBuffer,
}

impl Beside {
    fn new(device: &CudaDevice) -> Result<Beside, DeviceError> {
        Ok(Beside {
            device: device.clone(),
            stream: device.create_stream(Priority::Normal)?,
            memory: device.allocate(BYTES, MemoryKind::Device)?,
            seen: device.allocate(BYTES, MemoryKind::Pinned)?,
        })
    }

    fn interior(&self) -> Result<(), Failure> {
        // SAFETY: the memory is that long, and lives until the stream is synchronised.
        Ok(unsafe { self.device.fill(self.memory.pointer(), &[7], BYTES, &self.stream) }?)
    }

    fn boundary(&self) -> Result<(), Failure> {
        let (from, to) = (self.memory.pointer(), self.seen.pointer());
        // SAFETY: as above.
        Ok(unsafe { self.device.copy(from, to, BYTES, &self.stream) }?)
    }

    /// Takes the bytes that the host sees, and leaves zeros.
    fn take_seen(&self) -> [u8; BYTES] {
        let seen = self.seen.pointer().as_ptr().cast::<[u8; BYTES]>();
        // SAFETY: the memory has that length, and only the host uses it: work is done when a call has returned.
        unsafe { seen.replace([0; BYTES]) }
    }
}

#[test]
fn a_step_is_captured_once_for_even_replays_and_once_for_odd_ones() {
    recorded_on_devices(
        "steps::a_step_is_captured_once_for_even_replays_and_once_for_odd_ones",
        |recording| {
            run_ranks(2, |comm| -> Result<(), Failure> {
                let device = device_of(&comm)?;
                let (mut exchange, beside) = (bound(&comm, &device)?, Beside::new(&device)?);
                recording.take_calls();
                // SAFETY: the memory outlives the exchange's last replay, and both functions only put work into
                // the stream.
                let step = unsafe {
                    exchange.record(
                        &beside.stream,
                        (),
                        |_, ()| beside.interior(),
                        |_, ()| beside.boundary(),
                    )?
                };
                assert!(step.is_captured(), "{step:?}");
                let once = [
                    "cuMemHostAlloc",
                    "cuStreamBeginCapture_v2 on the caller's",
                    "cuEventRecord on the caller's",
                    "cuStreamWaitEvent on ours",
                    "copy_words on ours",
                    "cuStreamWriteValue32_v2 on ours",
                    "cuMemsetD8Async on the caller's",
                    // The wait for messages needs the packed data, so it comes after packing.
                    "cuEventRecord on ours",
                    "cuStreamWaitEvent on the caller's",
                    "cuStreamWaitValue32_v2 on the caller's",
                    "copy_words on the caller's",
                    "cuMemcpyAsync on the caller's",
                    // The host sees by a word that the step has ended.
                    "cuStreamBatchMemOp_v2 on the caller's",
                    "cuStreamEndCapture on the caller's",
                    "cuGraphInstantiateWithFlags",
                    "cuGraphUpload on ours",
                    "cuGraphDestroy",
                ];
                let calls = recording.take_work();
                let callers = format!("{:#x}", beside.stream.handle());
                assert_eq!(in_short(&calls, &callers), [once, once].concat(), "{calls:?}");
                // Nothing was done.
                assert_eq!(beside.take_seen(), [0; BYTES]);
                Ok(())
            })
            .unwrap();
            assert_eq!(recording.living(), "");
        },
    );
}

#[test]
fn a_replay_is_one_launch() {
    recorded_on_devices("steps::a_replay_is_one_launch", |recording| {
        let ways = [
            (DataPath::Messages, CopiedBy::Receiver),
            (DataPath::Direct, CopiedBy::Receiver),
            (DataPath::Direct, CopiedBy::Sender),
        ];
        for ranks in [1, 2, 3] {
            for (path, copied_by) in ways {
                let options = || BindOptions::default().path(path).copied_by(copied_by);
                run_ranks(ranks, |comm| replays(recording, &comm, options())).unwrap();
                assert_eq!(recording.living(), "");
            }
        }
    });
}

fn replays(recording: &Recording, comm: &Communicator, options: BindOptions) -> Result<(), Failure> {
    let device = device_of(comm)?;
    let (mut exchange, beside) = (bound_with(comm, &device, options)?, Beside::new(&device)?);
    // SAFETY: as above.
    let mut step =
        unsafe { exchange.record(&beside.stream, (), |_, ()| beside.interior(), |_, ()| beside.boundary())? };
    comm.barrier()?;
    let callers = format!("{:#x}", beside.stream.handle());
    // As in a program whose thread has the device's context.
    let _attached = device.attach()?;
    let mut graphs = Vec::new();
    for _ in 0..6 {
        recording.take_calls();
        step.replay()?;
        let calls = recording.take_calls();
        assert_eq!(in_short(&calls, &callers), ["cuGraphLaunch on the caller's"], "{calls:?}");
        // With questions that `in_short` leaves out.
        assert!(calls.len() <= 2, "{calls:?}");
        let launch = calls.iter().find(|call| call.name == "cuGraphLaunch").ok_or("no launch")?;
        graphs.push(launch.argument("graph").to_string());
        // The work of the caller, too, is done anew.
        assert_eq!(beside.take_seen(), [7; BYTES]);
    }
    assert!(graphs[0] != graphs[1] && graphs.windows(3).all(|of| of[0] == of[2]), "{graphs:?}");
    step.synchronize()?;
    drop(step);
    // The exchange is what it was.
    recording.take_calls();
    exchange.run_on(&beside.stream)?;
    assert!(recording.take_work().iter().any(|call| call.name == "cuLaunchKernel"));
    exchange.synchronize()?;
    comm.barrier()?;
    Ok(())
}

/// If no thread makes progress, a replay waits for messages, and is otherwise the same.
#[test]
fn without_a_thread_a_replay_waits_for_messages() {
    recorded_on_devices("steps::without_a_thread_a_replay_waits_for_messages", |recording| {
        run_ranks(2, |comm| {
            comm.set_progress(Progress::Caller)?;
            replays(recording, &comm, BindOptions::default().path(DataPath::Messages))
        })
        .unwrap();
        assert_eq!(recording.living(), "");
    });
}

#[test]
fn what_is_not_captured_says_why() {
    recorded_on_devices("steps::what_is_not_captured_says_why", |recording| {
        for ranks in [1, 2] {
            run_ranks(ranks, |comm| steps::capturing(&comm, &device_of(&comm)?)).unwrap();
        }
        assert_eq!(recording.living(), "");
    });
}

#[test]
fn where_streams_that_capture_take_no_flags_steps_are_done_anew() {
    let name = "steps::where_streams_that_capture_take_no_flags_steps_are_done_anew";
    let variables = [DEVICES, ("HALOPORT_DRIVER_NUMBERS", "outside-of-captures")];
    recorded_with(name, &["libcuda.so.1", "libnvrtc.so.12"], &variables, |recording| {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let device = device_of(&comm)?;
            let (mut exchange, beside) = (bound(&comm, &device)?, Beside::new(&device)?);
            // SAFETY: as above.
            let mut step = unsafe {
                exchange.record(&beside.stream, (), |_, ()| beside.interior(), |_, ()| beside.boundary())?
            };
            let what = "writing and awaiting numbers in streams, or not in captured work";
            let why = format!("cuda:{} does not offer {what}", comm.rank());
            assert_eq!(step.fallback_reason(), Some(&*why));
            for _ in 0..3 {
                step.replay()?;
                assert_eq!(beside.take_seen(), [7; BYTES]);
            }
            step.synchronize()?;
            comm.barrier()?;
            Ok(())
        })
        .unwrap();
        assert_eq!(recording.living(), "");
    });
}

/// A call that is not allowed during a capture gives the driver's error, and the exchange can be used further.
#[test]
fn work_that_cannot_be_captured_is_an_error() {
    recorded_on_devices("steps::work_that_cannot_be_captured_is_an_error", |recording| {
        run_ranks(1, |comm| -> Result<(), Failure> {
            let device = device_of(&comm)?;
            let (mut exchange, beside) = (bound(&comm, &device)?, Beside::new(&device)?);
            let wait = || -> Result<(), Failure> { Ok(device.synchronize(&beside.stream)?) };
            // SAFETY: nothing is put into streams.
            let refused =
                unsafe { exchange.record(&beside.stream, (), |_, ()| Ok(()), |_, ()| wait()).err() };
            let refused = refused.ok_or("it was captured")?.to_string();
            assert!(refused.starts_with("cuStreamSynchronize failed on cuda:0"), "{refused}");
            exchange.run_on(&beside.stream)?;
            exchange.synchronize()?;
            Ok(())
        })
        .unwrap();
        assert_eq!(recording.living(), "");
    });
}

#[test]
fn a_neighbour_that_does_not_replay_is_named() {
    recorded_on_devices("steps::a_neighbour_that_does_not_replay_is_named", |recording| {
        steps::silent_neighbour(&CudaDevice::new().unwrap()).unwrap();
        assert_eq!(recording.living(), "");
    });
}

/// Dropped with a replay that never ends, a step ends it after the time limit; forgotten, the exchange does.
#[test]
fn a_step_in_flight_ends_with_its_owner() {
    recorded_on_devices("steps::a_step_in_flight_ends_with_its_owner", |recording| {
        for is_forgotten in [false, true] {
            run_ranks(2, |comm| -> Result<(), Failure> {
                let device = device_of(&comm)?;
                let (mut exchange, beside) = (bound(&comm, &device)?, Beside::new(&device)?);
                // SAFETY: as above.
                let mut step = unsafe {
                    exchange.record(
                        &beside.stream,
                        (),
                        |_, ()| beside.interior(),
                        |_, ()| beside.boundary(),
                    )?
                };
                comm.barrier()?;
                if comm.rank() == 0 {
                    comm.set_time_limit(Some(Duration::from_millis(100)));
                    step.replay()?;
                }
                if is_forgotten {
                    std::mem::forget(step);
                } else {
                    drop(step);
                    let ended = exchange.synchronize();
                    let poisoned = matches!(ended, Err(ExchangeError::Poisoned(_)));
                    assert_eq!(poisoned, comm.rank() == 0, "{ended:?}");
                }
                drop(exchange);
                comm.set_time_limit(Some(Duration::from_secs(30)));
                comm.barrier()?;
                Ok(())
            })
            .unwrap();
            assert_eq!(recording.living(), "");
        }
    });
}
