//! The driver calls of exchanges whose messages are staged in chunks.

use haloport_core::device::{Device, Priority};
use haloport_core::{BindOptions, DataPath, Field, Progress, Schedule, run_ranks};
use haloport_cuda::CudaDevice;

use crate::exchanges::{exchanges_with, in_short, pattern};
use crate::recording::{Call, recorded};

type Failure = haloport_core::Error;

/// At most a quarter of the message that a rank sends.
const CHUNK: usize = 256;

fn in_chunks() -> BindOptions {
    BindOptions::default().path(DataPath::Messages).staging_chunk(CHUNK)
}

#[test]
fn each_group_is_a_launch_and_an_event() {
    recorded("staging::each_group_is_a_launch_and_an_event", |recording| {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            // The calls of this thread are seen.
            comm.set_progress(Progress::Caller)?;
            let found = exchanges_with(recording, &comm, &device, in_chunks(), |it| Schedule::On(it))?;
            assert!(found.messages >= 4, "{} messages", found.messages);
            for [start, finish] in &found.calls {
                let mut expected = vec!["cuEventRecord on the caller's", "cuStreamWaitEvent on ours"];
                for _ in 0..found.messages {
                    expected.extend(["copy_words on ours", "cuEventRecord on ours"]);
                }
                let begun = in_short(start, &found.stream);
                assert_eq!(begun[..expected.len()], expected, "{start:?}");
                // The rank's own cells, and each chunk that has arrived.
                let ended = in_short(finish, &found.stream);
                let rest = [&begun[expected.len()..], &ended].concat();
                let (copies, end) = rest.split_at(1 + found.messages);
                assert!(copies.iter().all(|call| call == "copy_words on ours"), "{rest:?}");
                let expected = [
                    "cuEventRecord on ours",
                    "cuStreamWaitEvent on the caller's",
                    "cuEventRecord on the caller's",
                ];
                assert_eq!(end, expected, "{rest:?}");
                assert!(!start.iter().chain(finish).any(Call::waits));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(recording.living(), "");
    });
}

/// Neither this thread, which closes a gate, nor the thread that opens it later.
#[test]
fn nobody_waits_or_makes_anything_new() {
    recorded("staging::nobody_waits_or_makes_anything_new", |recording| {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            let pattern = pattern(&comm)?;
            let field = Field::<f64, _>::new(&device, &pattern)?;
            let mut exchange = pattern.bind_with(field, in_chunks())?;
            let stream = device.create_stream(Priority::Normal)?;
            comm.barrier()?;
            if comm.rank() == 0 {
                recording.take_all_calls();
            }
            comm.barrier()?;
            for _ in 0..10 {
                exchange.start(Schedule::On(&stream))?.finish(Schedule::On(&stream))?;
            }
            exchange.complete()?;
            comm.barrier()?;
            if comm.rank() == 0 {
                let calls = recording.take_all_calls();
                let launches = calls.iter().filter(|call| call.name == "cuLaunchKernel").count();
                // On both ranks: launches that pack and unpack each chunk, and one that copies own cells.
                assert_eq!(launches, 2 * 10 * (2 * exchange.traffic().messages + 1));
                let wrong = calls.iter().find(|call| call.waits() || call.makes());
                assert_eq!(wrong, None);
            }
            comm.barrier()?;
            Ok(())
        })
        .unwrap();
        assert_eq!(recording.living(), "");
    });
}
