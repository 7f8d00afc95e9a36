//! The time line: the spans of exchanges, kernels and waits, and the file.

use std::io::{self, Write};
use std::sync::Barrier;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::*;
use haloport_core::device::{Combine, Device};
use haloport_core::exchange::Traffic;
use haloport_core::trace::{DEFAULT_SPANS, Phase, Row, Span, Trace, TraceError};
use haloport_core::*;
use serde_json::Value;

const PATHS: [DataPath; 2] = [DataPath::Direct, DataPath::Messages];

/// The largest difference between the monotonic clock and the wall clock, which may be corrected meanwhile.
const CLOCKS: Duration = Duration::from_millis(50);

fn bytes<'s>(spans: impl IntoIterator<Item = &'s Span>) -> usize {
    spans.into_iter().map(|span| span.bytes as usize).sum()
}

/// A bound exchange of two fields on a periodic plane, with 40 × 24 cells on each rank and halos across faces only:
/// messages have no gaps.
fn bound_plane(comm: &Communicator, path: DataPath) -> Result<Exchange<[Numbers; 2]>, Failure> {
    let grid = Grid::new([40 * comm.size(), 24])?.periodic([true, true])?;
    let mine = Split::even(&grid, [comm.size(), 1])?.part(comm.rank()).ok_or("no part")?;
    let halo = Halo::uniform(1).with_connectivity(Connectivity::Faces);
    let pattern = Pattern::structured(comm, &grid, &[mine], &halo)?;
    let fields = [Numbers::new(&device()?, &pattern)?, Numbers::new(&device()?, &pattern)?];
    Ok(pattern.bind_with(fields, BindOptions::default().prefer(path).order(HaloOrder::AllNeighbours))?)
}

#[test]
fn an_exchange_leaves_what_it_moves() {
    const TIMES: usize = 5;
    for ranks in [1, 2, 3] {
        for path in PATHS {
            let moved = run_ranks(ranks, |comm| -> Result<(Vec<Span>, Traffic), Failure> {
                let trace = comm.begin_trace(DEFAULT_SPANS).clone();
                let mut exchange = bound_plane(&comm, path)?;
                for _ in 0..TIMES {
                    exchange.start()?.finish()?;
                }
                assert_eq!(trace.dropped(), 0);
                Ok((trace.spans(), exchange.traffic()))
            });
            for (spans, traffic) in moved.unwrap() {
                let named =
                    |name: &str| -> Vec<&Span> { spans.iter().filter(|span| span.name == name).collect() };
                let of = |phase: Phase| spans.iter().filter(move |span| span.phase == phase);
                let context = format!("{ranks} ranks, {path:?}, {traffic:?}");
                assert_eq!(bytes(named("send")), TIMES * traffic.message_bytes, "{context}");
                assert_eq!(bytes(named("receive")), TIMES * traffic.message_bytes, "{context}");
                assert_eq!(bytes(named("read field")), TIMES * traffic.direct_bytes, "{context}");
                assert_eq!(bytes(named("lend field")), TIMES * traffic.direct_bytes, "{context}");
                let packed = traffic.message_bytes - traffic.sent_in_place_bytes;
                // A neighbour that is late is left a message in place of the field.
                let on_time = of(Phase::Packing).filter(|span| span.name != "pack for a late neighbour");
                assert_eq!(bytes(on_time), TIMES * packed, "{context}");
                let received = traffic.message_bytes - traffic.received_in_place_bytes;
                let filled = received + traffic.direct_bytes + traffic.local_bytes;
                assert_eq!(bytes(of(Phase::Unpacking)), TIMES * filled, "{context}");
                assert!(packed + filled > 0 && spans.iter().all(|span| !span.failed), "{context}");
            }
        }
    }
}

#[test]
fn halos_that_go_to_their_owners_leave_what_they_move() {
    const TIMES: usize = 5;
    for ranks in [1, 2, 3] {
        for path in PATHS {
            let moved = run_ranks(ranks, |comm| -> Result<(Vec<Span>, Traffic), Failure> {
                let trace = comm.begin_trace(DEFAULT_SPANS).clone();
                let exchange = bound_plane(&comm, path)?;
                let pattern = exchange.pattern().clone();
                let sum = BindOptions::default().accumulate(Combine::Sum).prefer(path);
                let mut exchange = pattern.bind_with(exchange.into_fields()?, sum)?;
                for _ in 0..TIMES {
                    exchange.start()?.finish()?;
                }
                Ok((trace.spans(), exchange.traffic()))
            });
            for (spans, traffic) in moved.unwrap() {
                let named = |name: &str| bytes(spans.iter().filter(|span| span.name == name));
                let context = format!("{ranks} ranks, {path:?}, {traffic:?}, {spans:#?}");
                assert_eq!(named("send"), TIMES * traffic.message_bytes, "{context}");
                assert_eq!(named("receive"), TIMES * traffic.message_bytes, "{context}");
                assert_eq!(
                    named("read halo") + named("read message"),
                    TIMES * traffic.direct_bytes,
                    "{context}"
                );
                let combined = traffic.message_bytes + traffic.direct_bytes + traffic.local_bytes;
                assert_eq!(named("combine"), TIMES * combined, "{context}");
                assert!(spans.iter().all(|span| !span.failed), "{context}");
            }
        }
    }
}

#[test]
fn spans_follow_each_other_and_lie_between_the_calls() {
    let begin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    run_ranks(2, |comm| -> Result<(), Failure> {
        comm.begin_trace(DEFAULT_SPANS);
        let mut exchange = bound_plane(&comm, DataPath::Messages)?;
        exchange.run()?;
        exchange.run()?;
        let spans = comm.trace().spans();
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        for span in &spans {
            assert!(span.begin <= span.end, "{span:?}");
            assert!(
                begin <= span.begin + CLOCKS && span.end <= end + CLOCKS,
                "{span:?} in {begin:?} to {end:?}"
            );
            assert_eq!(span.exchange.is_some(), span.row != Row::Host || span.name == "finish", "{span:?}");
        }
        let other = 1 - comm.rank();
        let of = |phase: Phase, row: Row| -> Vec<&Span> {
            spans.iter().filter(|span| span.phase == phase && span.row == row).collect()
        };
        let device = Row::Stream("cpu:0".into());
        let packed = of(Phase::Packing, device.clone());
        let sent = of(Phase::Wire, Row::To(other));
        let received = of(Phase::Wire, Row::From(other));
        let unpacked: Vec<&Span> =
            of(Phase::Unpacking, device).into_iter().filter(|span| span.name == "unpack").collect();
        for (earlier, later) in [(&packed, &sent), (&received, &unpacked)] {
            assert!(!earlier.is_empty() && !later.is_empty(), "{spans:#?}");
            // The first span of each exchange.
            for round in 0..2 {
                let of_round = |all: &[&Span]| all[round * all.len() / 2].clone();
                let (earlier, later) = (of_round(earlier), of_round(later));
                assert!(earlier.end <= later.begin, "{earlier:?} before {later:?}");
            }
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn kernels_and_waits_are_kept_and_what_they_give_is_passed_on() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let trace = comm.begin_trace(DEFAULT_SPANS);
        let device = device()?;
        let stream = device.default_stream();
        let pause = Duration::from_millis(5);
        let given = trace.kernel("slow", &device, &stream, || {
            std::thread::sleep(pause);
            Ok::<_, Failure>(7)
        })?;
        assert_eq!(given, 7);
        let refused = trace.kernel("broken", &device, &stream, || Err::<(), _>("no"));
        assert_eq!(refused, Err("no"));
        assert_eq!(trace.waiting("for nothing", || 8), 8);
        comm.barrier()?;
        let spans = trace.spans();
        let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
        let slow = named("slow");
        assert_eq!((slow.phase, &slow.row), (Phase::Kernel, &Row::Stream("cpu:0".into())));
        assert!(slow.end - slow.begin >= pause && !slow.failed, "{slow:?}");
        assert!(named("broken").failed);
        assert_eq!((named("for nothing").phase, &named("for nothing").row), (Phase::Waiting, &Row::Host));
        assert_eq!(named("all ranks at a barrier").phase, Phase::Waiting);
        assert_eq!(spans.len(), 4);
        // It has begun already.
        assert_eq!(comm.begin_trace(1).spans().len(), 4);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_failed_exchange_ends_its_spans() {
    let limit = Duration::from_millis(60);
    for path in PATHS {
        let given_up = Barrier::new(2);
        run_ranks(2, |comm| -> Result<(), Failure> {
            comm.begin_trace(DEFAULT_SPANS);
            let mut exchange = bound_plane(&comm, path)?;
            if comm.rank() == 1 {
                // Exists until the other rank has given up.
                given_up.wait();
                return Ok(());
            }
            comm.set_time_limit(Some(limit));
            let failed = exchange.start()?.finish();
            given_up.wait();
            let failed = failed.unwrap_err();
            assert!(matches!(failed, ExchangeError::TimeLimit { .. }), "{failed}");
            let spans = comm.trace().spans();
            let is_from_other =
                |span: &&Span| span.row == Row::From(1) && span.failed && span.phase == Phase::Wire;
            let missing: Vec<&Span> = spans.iter().filter(is_from_other).collect();
            assert!(!missing.is_empty(), "{path:?}: {spans:#?}");
            assert!(missing.iter().all(|span| span.end - span.begin >= limit), "{missing:#?}");
            let wait = spans.iter().find(|span| span.name == "finish").unwrap();
            assert!(wait.failed && wait.end - wait.begin >= limit, "{wait:?}");
            // The warning comes once.
            let count = spans.len();
            drop(exchange);
            assert_eq!(comm.trace().spans().len(), count);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
}

#[test]
fn spans_beyond_the_limit_are_counted() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let trace = comm.begin_trace(10).clone();
        let mut exchange = bound_plane(&comm, DataPath::Messages)?;
        for _ in 0..100 {
            exchange.run()?;
        }
        assert_eq!(trace.spans().len(), 10);
        assert!(trace.dropped() > 300, "{} dropped", trace.dropped());
        let file = written(&trace, &comm)?;
        if comm.rank() == 0 {
            let dropped = file["otherData"]["dropped"].as_array().unwrap();
            assert_eq!(dropped.len(), 2);
            assert!(dropped.iter().all(|count| count.as_u64().unwrap() > 300), "{dropped:?}");
        }
        Ok(())
    })
    .unwrap();
}

/// Collective: returns the file as JSON on rank 0, `None` on the others.
fn written(trace: &Trace, comm: &Communicator) -> Result<Value, Failure> {
    let mut file = Vec::new();
    trace.write(comm, &mut file)?;
    if comm.rank() > 0 {
        assert!(file.is_empty());
        return Ok(Value::Null);
    }
    Ok(serde_json::from_slice(&file)?)
}

#[test]
fn the_file_has_processes_threads_and_events_that_do_not_overlap() {
    const RANKS: usize = 3;
    run_ranks(RANKS, |comm| -> Result<(), Failure> {
        let trace = comm.begin_trace(DEFAULT_SPANS).clone();
        let (mut one, mut other) =
            (bound_plane(&comm, DataPath::Messages)?, bound_plane(&comm, DataPath::Messages)?);
        for _ in 0..3 {
            let (first, second) = (one.start()?, other.start()?);
            trace.kernel("interior \"quoted\"", &device()?, &device()?.default_stream(), || {
                Ok::<_, Failure>(())
            })?;
            first.finish()?;
            second.finish()?;
        }
        let file = written(&trace, &comm)?;
        if comm.rank() > 0 {
            return Ok(());
        }
        assert_eq!(file["otherData"]["format"], "haloport-trace-1");
        assert_eq!(file["otherData"]["ranks"], RANKS);
        let events = file["traceEvents"].as_array().unwrap();
        let complete = |event: &&Value| event["ph"] == "X";
        let mut overlapping = 0;
        for rank in 0..RANKS {
            let of_rank = || events.iter().filter(|event| event["pid"] == rank);
            let names = |kind: &str| -> Vec<String> {
                let named = of_rank().filter(|event| event["ph"] == "M" && event["name"] == *kind);
                named.map(|event| event["args"]["name"].as_str().unwrap().to_owned()).collect()
            };
            assert_eq!(names("process_name"), [format!("rank {rank}")]);
            let threads = names("thread_name");
            let right = (rank + 1) % RANKS;
            for name in ["host", "cpu:0", &format!("to rank {right}"), &format!("from rank {right}")] {
                assert!(threads.iter().any(|thread| thread == name), "{name} in {threads:?}");
            }
            overlapping += threads.iter().filter(|thread| thread.ends_with(" (2)")).count();
            let kernels = of_rank().filter(|event| event["name"] == "interior \"quoted\"");
            assert_eq!(kernels.filter(|event| event["cat"] == "kernel").count(), 3);
            for thread in 0..threads.len() {
                let mut last = 0.0;
                for event in of_rank().filter(complete).filter(|event| event["tid"] == thread) {
                    let [begin, length] = ["ts", "dur"].map(|key| event[key].as_f64().unwrap());
                    assert!(begin >= last - 1e-6 && length >= 0.0, "{event} begins before {last}");
                    assert!(event["args"]["bytes"].is_u64(), "{event}");
                    last = begin + length;
                }
            }
        }
        // Two messages from a neighbour were on their way at the same time.
        assert!(overlapping > 0);
        let first = events.iter().filter(complete).map(|event| event["ts"].as_f64().unwrap());
        assert_eq!(first.fold(f64::INFINITY, f64::min), 0.0);
        Ok(())
    })
    .unwrap();
}

/// A full disk.
struct Full;

impl Write for Full {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is full"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_rank_hears_that_the_file_could_not_be_written() {
    let text = refused(3, |comm| {
        let trace = comm.begin_trace(DEFAULT_SPANS);
        comm.barrier()?;
        let error = trace.write(comm, &mut Full).unwrap_err();
        assert!(matches!(error, TraceError::Write(_)));
        // The ranks are still in step.
        comm.barrier()?;
        Err(error.into())
    });
    assert_eq!(text, "the time line could not be written: rank 0: the disk is full");
}
