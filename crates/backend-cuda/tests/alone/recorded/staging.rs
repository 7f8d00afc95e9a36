//! The driver calls of exchanges whose messages are staged: in chunks, or moved by copies.

use haloport_core::device::{Device, Priority, Stream};
use haloport_core::exchange::DEFAULT_STAGING_COPY;
use haloport_core::{
    BindOptions, Communicator, DataPath, Exchange, Field, Grid, Halo, Pattern, Progress, Split, run_ranks,
};
use haloport_cuda::CudaDevice;

use super::exchanges::{exchanges_with, in_short, ordered, pattern};
use super::recording::{Call, Recording, recorded};

type Failure = haloport_core::Error;

/// At most a quarter of the message that a rank sends.
const CHUNK: usize = 256;

fn in_chunks() -> BindOptions {
    BindOptions::default().path(DataPath::Messages).staging_chunk(CHUNK)
}

/// An exchange of a ring of ranks, each of which sends one message of `bytes` bytes.
fn ring(
    comm: &Communicator,
    device: &CudaDevice,
    bytes: usize,
) -> Result<Exchange<Field<f64, CudaDevice>>, Failure> {
    let cells = bytes / 8;
    let grid = Grid::new([cells * comm.size()])?.periodic([true])?;
    let domain = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("no part")?;
    let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::per_side([(cells, 0)]))?;
    let field = Field::<f64, _>::new(device, &pattern)?;
    Ok(pattern.bind_with(field, BindOptions::default().path(DataPath::Messages))?)
}

/// The function by which the memory at an address of a call is freed.
fn freed_by(recording: &Recording, call: &Call, argument: &str) -> String {
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let address = number(call.argument(argument));
    let living = recording.living();
    let blocks = living.lines().filter_map(|line| line.split_once(" for "));
    let below = blocks.filter(|(begin, _)| begin.starts_with("0x") && number(begin) <= address);
    below.max_by_key(|(begin, _)| number(begin)).unwrap().1.to_string()
}

/// A word tells the host how far our stream is.
const WORD: &str = "cuStreamBatchMemOp_v2 on ours";

fn moves(calls: &[Call]) -> impl Iterator<Item = &Call> {
    calls.iter().filter(|call| call.name == "cuMemcpyAsync")
}

#[test]
fn a_large_message_is_packed_on_the_device_and_moved_by_one_copy() {
    recorded("staging::a_large_message_is_packed_on_the_device_and_moved_by_one_copy", |recording| {
        for is_large in [false, true] {
            run_ranks(2, |comm| -> Result<(), Failure> {
                let device = CudaDevice::new()?;
                let bytes = if is_large { DEFAULT_STAGING_COPY } else { DEFAULT_STAGING_COPY - 8 };
                let mut exchange = ring(&comm, &device, bytes)?;
                let stream = device.create_stream(Priority::Normal)?;
                let callers = format!("{:#x}", stream.handle());
                for round in 0..3 {
                    comm.barrier()?;
                    recording.take_calls();
                    let pending = exchange.start_on(&stream)?;
                    let start = recording.take_work();
                    pending.finish_on(&stream)?;
                    let finish = recording.take_work();
                    let mut expected = ordered(round);
                    expected.extend([WORD, "copy_words on ours", "cuMemcpyAsync on ours", WORD]);
                    expected.retain(|call| is_large || !call.contains("Memcpy"));
                    assert_eq!(in_short(&start, &callers), expected, "{start:?}");
                    let mut expected = vec![
                        "cuEventRecord on ours",
                        "cuStreamWaitEvent on the caller's",
                        "cuMemcpyAsync on the caller's",
                        "copy_words on the caller's",
                        "cuEventRecord on the caller's",
                    ];
                    expected.retain(|call| is_large || !call.contains("Memcpy"));
                    let mut short = in_short(&finish, &callers);
                    short.retain(|call| !call.contains("WaitValue"));
                    assert_eq!(short, expected, "{finish:?}");
                    assert!(!start.iter().chain(&finish).any(Call::waits));
                    // From the device's own memory to pinned memory, and back.
                    let ends = [["cuMemFreeHost", "cuMemFree"], ["cuMemFree", "cuMemFreeHost"]];
                    for (call, ends) in moves(&start).chain(moves(&finish)).zip(ends) {
                        let found = ["target", "source"].map(|end| freed_by(recording, call, end));
                        assert_eq!(found, ends, "{call:?}");
                        assert_eq!(call.argument("bytes"), format!("{bytes:#x}"));
                    }
                }
                comm.barrier()?;
                Ok(())
            })
            .unwrap();
            assert_eq!(recording.living(), "");
        }
    });
}

#[test]
fn each_sent_chunk_is_moved_in_another_stream() {
    recorded("staging::each_sent_chunk_is_moved_in_another_stream", |recording| {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            // The calls of this thread are seen.
            comm.set_progress(Progress::Caller)?;
            let options = in_chunks().staging_copy(0);
            let found = exchanges_with(recording, &comm, &device, options, |it| it.into())?;
            assert!(found.messages >= 4, "{} messages", found.messages);
            for (round, [start, finish]) in found.calls.iter().enumerate() {
                // Packing also comes after the moves of the exchange before.
                let mut expected = ordered(round);
                expected.extend([WORD, "cuStreamWaitEvent on ours"]);
                for _ in 0..found.messages {
                    expected.extend(["copy_words on ours", "cuEventRecord on ours"]);
                    expected.extend(["cuStreamWaitEvent on ours", "cuMemcpyAsync on ours"]);
                    expected.push(WORD);
                }
                expected.push("cuEventRecord on ours");
                let begun = in_short(start, &found.stream);
                assert_eq!(begun[..expected.len()], expected, "{start:?}");
                let streams = |name: &str| {
                    let of = start.iter().filter(|call| call.name == name);
                    of.map(|call| call.argument("stream").to_string()).collect::<Vec<_>>()
                };
                let (packing, moving) = (streams("cuLaunchKernel"), streams("cuMemcpyAsync"));
                assert_eq!(moving.len(), found.messages, "{start:?}");
                assert!(moving.iter().all(|stream| *stream == moving[0]), "{start:?}");
                assert!(!packing.contains(&moving[0]), "{start:?}");
                // Received chunks are unpacked from pinned memory.
                assert_eq!(moves(finish).count(), 0, "{finish:?}");
                assert!(!start.iter().chain(finish).any(Call::waits));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(recording.living(), "");
    });
}

#[test]
fn each_group_is_a_launch_and_a_word() {
    recorded("staging::each_group_is_a_launch_and_a_word", |recording| {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            // The calls of this thread are seen.
            comm.set_progress(Progress::Caller)?;
            let found = exchanges_with(recording, &comm, &device, in_chunks(), |it| it.into())?;
            assert!(found.messages >= 4, "{} messages", found.messages);
            for (round, [start, finish]) in found.calls.iter().enumerate() {
                let mut expected = ordered(round);
                expected.push(WORD);
                for _ in 0..found.messages {
                    expected.extend(["copy_words on ours", WORD]);
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
        for moved_from in [usize::MAX, 0] {
            run_ranks(2, |comm| -> Result<(), Failure> {
                let device = CudaDevice::new()?;
                let pattern = pattern(&comm)?;
                let field = Field::<f64, _>::new(&device, &pattern)?;
                let mut exchange = pattern.bind_with(field, in_chunks().staging_copy(moved_from))?;
                let stream = device.create_stream(Priority::Normal)?;
                comm.barrier()?;
                if comm.rank() == 0 {
                    recording.take_all_calls();
                }
                comm.barrier()?;
                for _ in 0..10 {
                    exchange.start_on(&stream)?.finish_on(&stream)?;
                }
                exchange.complete()?;
                comm.barrier()?;
                if comm.rank() == 0 {
                    let calls = recording.take_all_calls();
                    let messages = exchange.traffic().messages;
                    let launches = calls.iter().filter(|call| call.name == "cuLaunchKernel").count();
                    // On both ranks: launches that pack and unpack each chunk, and one that copies own cells.
                    assert_eq!(launches, 2 * 10 * (2 * messages + 1));
                    assert_eq!(moves(&calls).count(), if moved_from == 0 { 2 * 10 * messages } else { 0 });
                    let wrong = calls.iter().find(|call| call.waits() || call.makes());
                    assert_eq!(wrong, None);
                }
                comm.barrier()?;
                Ok(())
            })
            .unwrap();
            assert_eq!(recording.living(), "");
        }
    });
}
