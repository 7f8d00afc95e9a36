//! The driver calls of exchanges: `start` and `finish` only put work into streams.

use haloport_core::device::{Device, Priority, Stream};
use haloport_core::exchange::CopiedBy;
use haloport_core::{
    BindOptions, Communicator, DataPath, ElementType, Field, FieldLayout, Grid, Halo, Pattern, Progress,
    Schedule, Split, run_ranks,
};
use haloport_cuda::CudaDevice;

use super::recording::{Call, Recording, recorded, recorded_with};

type Failure = haloport_core::Error;

/// The driver calls of the exchanges of a rank.
pub(crate) struct Exchanges {
    /// The handle of the caller's stream, as in calls.
    pub(crate) stream: String,
    /// The number of messages that a rank sends in one exchange.
    pub(crate) messages: usize,
    /// The calls of `start` and of `finish`, for each exchange.
    pub(crate) calls: Vec<[Vec<Call>; 2]>,
}

/// Does three exchanges of two fields on a stream of the caller.
fn exchanges(
    recording: &Recording,
    comm: &Communicator,
    device: &CudaDevice,
    path: DataPath,
    schedule: fn(&haloport_cuda::CudaStream) -> Schedule<'_>,
) -> Result<Exchanges, Failure> {
    exchanges_with(recording, comm, device, BindOptions::default().prefer(path), schedule)
}

/// The same, bound with these options.
pub(crate) fn exchanges_with(
    recording: &Recording,
    comm: &Communicator,
    device: &CudaDevice,
    options: BindOptions,
    schedule: fn(&haloport_cuda::CudaStream) -> Schedule<'_>,
) -> Result<Exchanges, Failure> {
    let pattern = pattern(comm)?;
    let fields = vec![Field::<f64, _>::new(device, &pattern)?, Field::<f64, _>::new(device, &pattern)?];
    let mut exchange = pattern.bind_with(fields, options)?;
    let stream = device.create_stream(Priority::Normal)?;
    let mut calls = Vec::new();
    for _ in 0..3 {
        comm.barrier()?;
        recording.take_calls();
        let pending = exchange.start_on(schedule(&stream))?;
        let start = recording.take_work();
        pending.finish_on(schedule(&stream))?;
        calls.push([start, recording.take_work()]);
    }
    let messages = exchange.traffic().messages;
    Ok(Exchanges { stream: format!("{:#x}", stream.handle()), messages, calls })
}

/// The pattern of a small periodic grid, one part per rank, with halos of 2 cells.
pub(crate) fn pattern(comm: &Communicator) -> Result<Pattern, Failure> {
    let grid = Grid::new([16, 12])?.periodic([true, true])?;
    let split = Split::balanced(&grid, comm.size())?;
    let mine = split.part(comm.rank()).ok_or("there are more ranks than parts")?;
    Ok(Pattern::structured(comm, &grid, &[mine], &Halo::uniform(2))?)
}

/// The calls in short: the function or kernel, and whose stream it works on.
pub(crate) fn in_short(calls: &[Call], callers: &str) -> Vec<String> {
    let questions = ["cuEventQuery", "cuStreamIsCapturing"];
    let work = calls.iter().filter(|call| !questions.contains(&&*call.name));
    work.map(|call| {
        let on = match call.arguments.contains("stream=") {
            true if call.argument("stream") == callers => " on the caller's",
            true => " on ours",
            false => "",
        };
        match call.name.as_str() {
            "cuLaunchKernel" => format!("{}{on}", call.argument("kernel")),
            name => format!("{name}{on}"),
        }
    })
    .collect()
}

/// The calls by which our stream waits for the caller's work and, if there was one before, for the end of the last exchange.
pub(crate) fn ordered(round: usize) -> Vec<&'static str> {
    let mut calls = vec!["cuEventRecord on the caller's"];
    calls.resize(if round > 0 { 3 } else { 2 }, "cuStreamWaitEvent on ours");
    calls
}

#[test]
fn start_and_finish_only_put_work_into_streams() {
    recorded("exchanges::start_and_finish_only_put_work_into_streams", |recording| {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            let found = exchanges(recording, &comm, &device, DataPath::Messages, |stream| stream.into())?;
            for (round, [start, finish]) in found.calls.iter().enumerate() {
                // After the earlier work, one launch packs both fields for all neighbours.
                let mut expected = ordered(round);
                expected.extend([
                    // The host sees by a word that receives may be posted, and by another that messages are packed.
                    "cuStreamBatchMemOp_v2 on ours",
                    "copy_words on ours",
                    "cuStreamBatchMemOp_v2 on ours",
                ]);
                assert_eq!(in_short(start, &found.stream), expected, "{start:?}");
                // A gate, unless all messages have arrived; then one launch unpacks them and copies the rank's own
                // cells.
                let expected = [
                    "cuStreamWaitValue32_v2 on the caller's",
                    "cuEventRecord on ours",
                    "cuStreamWaitEvent on the caller's",
                    "copy_words on the caller's",
                    "cuEventRecord on the caller's",
                ];
                let short = in_short(finish, &found.stream);
                let has_gate = short.len() == expected.len();
                assert_eq!(short, expected[usize::from(!has_gate)..], "{finish:?}");
                assert!(!start.iter().chain(finish).any(Call::waits));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(recording.living(), "");
    });
}

/// Ranks that are threads on one device: the host waits for the words of neighbours.
#[test]
fn from_a_neighbours_field_it_is_one_launch_without_packing() {
    recorded("exchanges::from_a_neighbours_field_it_is_one_launch_without_packing", |recording| {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            // The calls of this thread are seen.
            comm.set_progress(Progress::Caller)?;
            let found = exchanges(recording, &comm, &device, DataPath::Direct, |stream| stream.into())?;
            for calls in &found.calls {
                let all: Vec<Call> = calls.iter().flatten().cloned().collect();
                let short = in_short(&all, &found.stream);
                let launches: Vec<_> = short.iter().filter(|call| call.starts_with("copy_")).collect();
                // The rank's own cells, and those of the neighbour.
                assert_eq!(launches, ["copy_words on ours"], "{all:?}");
                assert!(!all.iter().any(Call::waits));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(recording.living(), "");
    });
}

/// Ranks on devices of their own: streams wait for the words of neighbours, and no other thread calls the driver.
#[test]
fn between_devices_streams_hand_fields_over() {
    let (name, libraries) =
        ("exchanges::between_devices_streams_hand_fields_over", ["libcuda.so.1", "libnvrtc.so.12"]);
    recorded_with(name, &libraries, &[("HALOPORT_DRIVER_DEVICES", "3")], |recording| {
        for copied_by in [CopiedBy::Receiver, CopiedBy::Sender] {
            run_ranks(3, |comm| -> Result<(), Failure> {
                let device = CudaDevice::select(&format!("cuda:{}", comm.rank()))?;
                let pattern = pattern(&comm)?;
                let field = Field::<f64, _>::new(&device, &pattern)?;
                let options = BindOptions::default().prefer(DataPath::Direct).copied_by(copied_by);
                let mut exchange = pattern.bind_with(field, options)?;
                let stream = device.create_stream(Priority::Normal)?;
                for keeps_context in [true, true, false] {
                    // As in a program whose thread has the device's context.
                    let attached = keeps_context.then(|| device.attach()).transpose()?;
                    // An exchange begins when the one before is over.
                    exchange.complete()?;
                    comm.barrier()?;
                    if comm.rank() == 0 {
                        recording.take_all_calls();
                    }
                    comm.barrier()?;
                    recording.take_calls();
                    exchange.start_on(&stream)?.finish_on(&stream)?;
                    let calls = recording.take_calls();
                    let named = |name: &str| calls.iter().filter(|call| call.name == name).count();
                    // Without the context, it is made current twice: three calls each.
                    let most = if keeps_context { 10 } else { 10 + 6 };
                    assert!(calls.len() <= most, "{} calls: {calls:?}", calls.len());
                    assert!(!calls.iter().any(Call::waits), "{calls:?}");
                    // One kernel fetches the word that stops the copies, one copies.
                    assert_eq!(
                        (named("cuLaunchKernel"), named("cuStreamBatchMemOp_v2")),
                        (2, 2),
                        "{calls:?}"
                    );
                    exchange.complete()?;
                    comm.barrier()?;
                    if comm.rank() == 0 {
                        let others = recording.take_all_calls();
                        assert!(others.is_empty(), "other threads called the driver: {others:?}");
                    }
                    comm.barrier()?;
                    drop(attached);
                }
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(recording.living(), "");
    });
}

/// Rank 1 has a halo, which rank 0 fills: one of the two launches the copy, and before it a kernel that fetches a word.
#[test]
fn the_chosen_end_copies() {
    let (name, libraries) = ("exchanges::the_chosen_end_copies", ["libcuda.so.1", "libnvrtc.so.12"]);
    recorded_with(name, &libraries, &[("HALOPORT_DRIVER_DEVICES", "2")], |recording| {
        for (devices, copied_by, copying) in [
            (2, CopiedBy::Receiver, 1),
            (2, CopiedBy::Sender, 0),
            (2, CopiedBy::Quickest, 0),
            (1, CopiedBy::Quickest, 1),
        ] {
            run_ranks(2, |comm| -> Result<(), Failure> {
                let device = CudaDevice::select(&format!("cuda:{}", comm.rank() % devices))?;
                let grid = Grid::new([16])?;
                let domain = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no part")?;
                let pattern = Pattern::structured(&comm, &grid, &[domain], &Halo::per_side([(1, 0)]))?;
                let field = Field::<f64, _>::new(&device, &pattern)?;
                let options = BindOptions::default().prefer(DataPath::Direct).copied_by(copied_by);
                let mut exchange = pattern.bind_with(field, options)?;
                // The calls of this thread are seen.
                comm.set_progress(Progress::Caller)?;
                recording.take_calls();
                exchange.run_blocking()?;
                let calls = recording.take_calls();
                let launches = calls.iter().filter(|call| call.name == "cuLaunchKernel").count();
                let expected = if comm.rank() == copying { 2 } else { 0 };
                assert_eq!(launches, expected, "{copied_by:?} on {devices} devices: {calls:?}");
                assert_eq!(exchange.traffic().direct_bytes, 8 * comm.rank());
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(recording.living(), "");
    });
}

#[test]
fn on_the_default_stream_it_is_the_same() {
    recorded("exchanges::on_the_default_stream_it_is_the_same", |recording| {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            let found =
                exchanges(recording, &comm, &device, DataPath::Messages, |_| Schedule::DefaultStream)?;
            for [start, finish] in &found.calls {
                assert_eq!(in_short(start, "0").first().unwrap(), "cuEventRecord on the caller's");
                assert_eq!(in_short(finish, "0").last().unwrap(), "cuEventRecord on the caller's");
                assert!(!start.iter().chain(finish).any(Call::waits));
            }
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_blocking_exchange_waits_once() {
    recorded("exchanges::a_blocking_exchange_waits_once", |recording| {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            let found = exchanges(recording, &comm, &device, DataPath::Messages, |_| Schedule::Blocking)?;
            for calls in &found.calls {
                assert_eq!(calls.iter().flatten().filter(|call| call.waits()).count(), 1, "{calls:?}");
            }
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_bound_exchange_makes_nothing_new() {
    recorded("exchanges::a_bound_exchange_makes_nothing_new", |recording| {
        run_ranks(3, |comm| -> Result<(), Failure> {
            let device = CudaDevice::new()?;
            let found = exchanges(recording, &comm, &device, DataPath::Messages, |stream| stream.into())?;
            for call in found.calls.iter().flatten().flatten() {
                assert!(!call.makes(), "{call:?}");
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(recording.living(), "");
    });
}

/// A plan at other addresses puts the same work into streams as at the same ones: it neither lays out tables nor waits.
#[test]
fn other_addresses_cost_no_other_calls() {
    recorded("exchanges::other_addresses_cost_no_other_calls", |recording| {
        let device = CudaDevice::new().unwrap();
        run_ranks(1, |comm| {
            let pattern = pattern(&comm)?;
            let layouts = Field::<f64, CudaDevice>::builder(&pattern).layouts()?;
            let field = FieldLayout::new(&device, ElementType::F64, layouts);
            let mut plan = pattern.plan_layouts(&[field.clone(), field], BindOptions::default())?;
            let fields = [(); 4].map(|()| Field::<f64, _>::new(&device, &pattern));
            let fields = fields.into_iter().collect::<Result<Vec<_>, _>>()?;
            let addresses = fields.iter().map(|field| field.pointer(0)).collect::<Result<Vec<_>, _>>()?;
            let stream = device.create_stream(Priority::Normal)?;
            let mut works = Vec::new();
            for passed in [&addresses[..2], &addresses[..2], &addresses[2..], &addresses[1..3]] {
                comm.barrier()?;
                recording.take_calls();
                // SAFETY: the fields have the layout of the plan, and nothing else uses them.
                let ticket = unsafe { plan.start_at(passed, &stream)? };
                plan.finish(ticket, &stream)?;
                works.push(in_short(&recording.take_work(), &format!("{:#x}", stream.handle())));
            }
            assert!(works[0].iter().any(|call| call.starts_with("copy_words")), "{works:#?}");
            for work in &works[1..] {
                assert_eq!(work, &works[0]);
            }
            for call in works.concat() {
                let slow = ["Alloc", "Free", "Synchronize", "cuMemcpy", "cuModule"];
                assert!(!slow.iter().any(|slow| call.contains(slow)), "{call}");
            }
            Ok(())
        })
        .unwrap();
    });
}
