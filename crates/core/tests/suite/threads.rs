//! Ranks as threads that the program starts: the waits of other ranks end when a rank ends, and no other waits do.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::*;
use haloport_core::device::{DeviceId, MemoryRange, Pointer};
use haloport_core::line::{NextRound, Payloads};
use haloport_core::transport::{Direction, Incoming};
use haloport_core::*;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};

/// Much longer than a test takes: no wait ends by it.
const LIMIT: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(20);
/// Others wait by then.
const LATER: Duration = Duration::from_millis(30);

/// Runs `body` on each rank, a thread of its own, and returns the results in the order of the ranks.
fn on_threads<T: Send>(ranks: usize, body: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    let began = Instant::now();
    let body = &body;
    let results = thread::scope(|scope| {
        let start = |comm: Communicator| {
            comm.set_time_limit(Some(LIMIT));
            scope.spawn(move || body(comm))
        };
        let started: Vec<_> = threads(ranks).unwrap().into_iter().map(start).collect();
        started.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    assert!(began.elapsed() < SOON, "it took {:?}", began.elapsed());
    results
}

/// Rank `ended` drops its communicator, at once or later; all others must end with an error that names it.
fn all_name(ranks: usize, ended: usize, later: bool, body: impl Fn(&Communicator) -> Failure + Sync) {
    let errors = on_threads(ranks, |comm| {
        if comm.rank() == ended {
            if later {
                thread::sleep(LATER);
            }
            return None;
        }
        Some(body(&comm).to_string())
    });
    let named =
        format!("rank {ended} has ended, and this rank waits for it: its communicator was dropped or closed");
    for error in errors.into_iter().flatten() {
        assert!(error.contains(&named), "{error}");
    }
}

#[test]
fn a_rank_that_closes_its_communicator_has_ended() {
    for path in [DataPath::Quickest, DataPath::Direct, DataPath::Shared, DataPath::Messages] {
        let (ended, failed) = (1, AtomicUsize::new(0));
        on_threads(3, |comm| {
            let mut exchange = bound(&comm, path).unwrap();
            let mut started = bound(&comm, path).unwrap();
            let mut messages = SparseExchange::new(&comm).unwrap();
            exchange.run().unwrap();
            if comm.rank() != ended {
                // The neighbour may have copied what it needs before.
                let _ = started.run();
                let named = format!("rank {ended} has");
                let error = comm.barrier().unwrap_err().to_string();
                assert!(error.contains(&named), "{path:?}: {error}");
                // The third rank may have given up before.
                let error = exchange.run().unwrap_err().to_string();
                assert!(error.contains(&named) || error.contains("has given up"), "{path:?}: {error}");
                let error = messages.begin().unwrap().wait().unwrap_err().to_string();
                assert!(error.contains("it has ended"), "{error}");
                failed.fetch_add(1, Ordering::SeqCst);
                return;
            }
            let ticket = started.start_detached(Schedule::DefaultStream).unwrap();
            comm.close().unwrap();
            comm.close().unwrap();
            let closed = TransportError::Closed.to_string();
            assert_eq!(comm.barrier(), Err(TransportError::Closed));
            assert!(
                started.finish(ticket, Schedule::DefaultStream).unwrap_err().to_string().contains(&closed)
            );
            assert!(exchange.run().unwrap_err().to_string().contains(&closed));
            assert!(messages.begin().unwrap_err().to_string().contains(&closed));
            // Neither the communicator nor its exchanges are dropped before the others know.
            let began = Instant::now();
            while failed.load(Ordering::SeqCst) < 2 {
                assert!(began.elapsed() < SOON, "the others wait for this rank");
                thread::yield_now();
            }
        });
    }
}

#[test]
fn ranks_work_on_threads_of_the_program() {
    for ranks in [1, 2, 5] {
        on_threads(ranks, |comm| {
            let mut exchange = bound(&comm, DataPath::Quickest).unwrap();
            for round in 0..5 {
                prepare(exchange.fields_mut(), round).unwrap();
                exchange.run().unwrap();
                verify(exchange.fields(), round, ranks).unwrap();
            }
        });
    }
    let none = threads(0).unwrap_err().to_string();
    assert_eq!(none, "cannot start 0 ranks: expected 1 to 65536");
}

#[test]
fn collective_calls_end_with_a_rank() {
    type Call = fn(&Communicator) -> Result<(), Failure>;
    let calls: [Call; 7] = [
        |comm| Ok(comm.barrier()?),
        |comm| Ok(comm.all_reduce(1.0, Reduction::Sum).map(drop)?),
        |comm| Ok(comm.gather(0, &1).map(drop)?),
        |comm| Ok(comm.broadcast(0, &1).map(drop)?),
        |comm| Ok(comm.sparse_exchange(&[(0, 1)]).map(drop)?),
        |comm| line(comm).map(drop),
        |comm| Ok(SparseExchange::new(comm).map(drop)?),
    ];
    for call in calls {
        for later in [false, true] {
            all_name(4, 2, later, |comm| {
                let error = call(comm).unwrap_err();
                let again = comm.barrier().unwrap_err();
                assert!(matches!(again, TransportError::Broken(_)), "{again}");
                error
            });
        }
    }
}

/// A rank that has come to a call before it ends is not missing in it.
#[test]
fn a_rank_that_has_joined_a_collective_call_may_end() {
    for _ in 0..200 {
        let sums = on_threads(3, |comm| comm.all_reduce(1u64, Reduction::Sum));
        assert_eq!(sums, [Ok(3), Ok(3), Ok(3)]);
    }
}

/// Messages and windows: the neighbour has begun the exchange or begins it later.
#[test]
fn exchanges_end_with_a_neighbour() {
    for path in [DataPath::Messages, DataPath::Direct] {
        for later in [false, true] {
            on_threads(2, |comm| {
                let mut exchange = bound(&comm, path).unwrap();
                prepare(exchange.fields_mut(), 1).unwrap();
                exchange.run().unwrap();
                if comm.rank() == 1 {
                    if later {
                        thread::sleep(LATER);
                    }
                    return;
                }
                verify(exchange.fields(), 1, 2).unwrap();
                let error = exchange.run().unwrap_err();
                let named = matches!(
                    error,
                    ExchangeError::Transport(
                        TransportError::PeerGaveUp { peer: 1 } | TransportError::PeerEnded { rank: 1 }
                    )
                );
                assert!(named, "{path:?}: {error}");
            });
        }
    }
}

/// Between `start` and `finish`, one rank waits for a word of the other by other means than the library; the other says it
/// after its `finish`.
#[test]
fn finish_needs_no_call_of_a_neighbour_that_has_started() {
    for path in [DataPath::Quickest, DataPath::Messages, DataPath::Direct] {
        let words: [_; 2] = std::array::from_fn(|_| {
            let (say, hear) = mpsc::channel();
            (Mutex::new(say), Mutex::new(hear))
        });
        on_threads(2, |comm| {
            let mut exchange = bound(&comm, path).unwrap();
            let say = || words[comm.rank()].0.lock().unwrap().send(()).unwrap();
            let hear = || words[1 - comm.rank()].1.lock().unwrap().recv_timeout(SOON / 4).unwrap();
            for round in 0..40 {
                prepare(exchange.fields_mut(), round).unwrap();
                let pending = exchange.start().unwrap();
                // In rounds 0, 4, 8 … rank 0 waits, in rounds 2, 6, 10 … rank 1; in the others, no rank.
                if round % 4 == 2 * comm.rank() {
                    hear();
                }
                pending.finish().unwrap();
                if round % 4 == 2 * (1 - comm.rank()) {
                    say();
                }
                verify(exchange.fields(), round, 2).unwrap();
            }
        });
    }
}

/// Ranks 0 and 1 share a grid. That ranks 2 and 3 end changes nothing for them, until all ranks are needed.
#[test]
fn exchanges_without_the_rank_go_on() {
    for path in [DataPath::Messages, DataPath::Direct] {
        let (ends, ended) = mpsc::channel();
        let ended = Mutex::new(ended);
        on_threads(4, |comm| {
            let grid = Grid::new([8]).unwrap().periodic([true]).unwrap();
            let split = Split::even(&grid, [2]).unwrap();
            let mine: Vec<IndexBox> = split.part(comm.rank()).into_iter().collect();
            let pattern = Pattern::structured(&comm, &grid, &mine, &Halo::uniform(1)).unwrap();
            let field = Numbers::new(&device().unwrap(), &pattern).unwrap();
            let mut exchange = pattern.bind_with(field, BindOptions::default().prefer(path)).unwrap();
            if comm.rank() >= 2 {
                drop((comm, pattern, exchange));
                ends.send(()).unwrap();
                return;
            }
            if comm.rank() == 0 {
                let ended = ended.lock().unwrap();
                (0..2).for_each(|_| ended.recv_timeout(SOON).unwrap());
            }
            for round in 0..50 {
                prepare(exchange.fields_mut(), round).unwrap();
                exchange.run().unwrap();
                verify(exchange.fields(), round, 2).unwrap();
            }
            let error = comm.barrier().unwrap_err();
            assert_eq!(error, TransportError::PeerEnded { rank: 2 });
        });
    }
}

/// A rank lasts as long as an exchange that holds its communicator.
#[test]
fn a_rank_ends_with_the_last_handle() {
    for path in [DataPath::Messages, DataPath::Direct] {
        on_threads(2, |comm| {
            let mut exchange = bound(&comm, path).unwrap();
            drop(comm);
            for round in 0..50 {
                prepare(exchange.fields_mut(), round).unwrap();
                exchange.run().unwrap();
                verify(exchange.fields(), round, 2).unwrap();
            }
            let comm = exchange.pattern().comm().clone();
            if comm.rank() == 0 {
                drop(exchange);
                comm.barrier().unwrap();
            } else {
                // Kept alive by the pattern alone, which is enough for a collective call.
                let pattern = exchange.pattern().clone();
                drop((comm, exchange));
                thread::sleep(LATER);
                pattern.comm().barrier().unwrap();
            }
        });
    }
}

/// Random rings: the rounds that a rank has completed before it ends are right on its neighbours.
#[test]
fn what_a_rank_has_sent_is_received() {
    for case in 0..60 {
        let mut random = StdRng::seed_from_u64(case);
        let ranks = random.random_range(2..6);
        let ended = random.random_range(0..ranks);
        let rounds = random.random_range(0..4);
        let path = [DataPath::Messages, DataPath::Direct][random.random_range(0..2)];
        let late = Duration::from_micros(random.random_range(0..300));
        let completed = on_threads(ranks, |comm| {
            let mut exchange = bound(&comm, path).unwrap();
            for round in 0.. {
                prepare(exchange.fields_mut(), round).unwrap();
                if comm.rank() == ended && round == rounds {
                    thread::sleep(late);
                    return round;
                }
                if exchange.run().is_err() {
                    return round;
                }
                verify(exchange.fields(), round, ranks).unwrap();
            }
            unreachable!()
        });
        for (rank, &completed) in completed.iter().enumerate() {
            let apart = (rank + ranks - ended) % ranks;
            let hops = apart.min(ranks - apart);
            let expected = rounds..=rounds + hops.saturating_sub(1);
            assert!(
                expected.contains(&completed),
                "case {case}: rank {rank} of {ranks}: {completed}, {rounds}"
            );
        }
    }
}

#[test]
fn sparse_rounds_end_with_a_rank() {
    for case in 0..144 {
        let (fixed, ranks, ended) = (case % 2 == 0, 2 + case / 2 % 8, case / 16);
        if ended >= ranks {
            continue;
        }
        let (all, all_failed) = ((0..ranks).collect::<Vec<usize>>(), AtomicUsize::new(0));
        on_threads(ranks, |comm| {
            let options = SparseOptions::default();
            let options = if fixed { options.between(&all, &all) } else { options };
            let mut exchange = SparseExchange::with_options(&comm, options).unwrap();
            let round = exchange.begin().unwrap();
            all.iter().for_each(|&peer| round.send(peer, [1]).unwrap());
            assert_eq!(round.wait().unwrap().len(), ranks);
            if comm.rank() == ended {
                // In half of the cases, nothing is for this rank, so the others wait for the end of its round alone.
                thread::sleep(Duration::from_millis(10 * (ended as u64 % 2)));
                return;
            }
            let round = exchange.begin().unwrap();
            for &peer in all.iter().filter(|&&peer| ended % 2 == 0 || peer != ended) {
                round.send(peer, [2]).unwrap();
            }
            let error = round.wait().unwrap_err();
            assert!(matches!(error, SparseError::GivenUp { rank, .. } if rank == ended), "{case}: {error}");
            let again = exchange.begin().unwrap_err().to_string();
            assert!(again.contains("its communicator was dropped or closed"), "{again}");
            // Until all have failed, no other rank ends.
            all_failed.fetch_add(1, Ordering::SeqCst);
            let began = Instant::now();
            while all_failed.load(Ordering::SeqCst) < ranks - 1 {
                assert!(began.elapsed() < SOON, "another rank goes on");
                thread::yield_now();
            }
        });
    }
}

/// With fixed neighbours, only the ranks that wait for each other end.
#[test]
fn sparse_rounds_of_other_neighbours_go_on() {
    on_threads(4, |comm| {
        let neighbour = [comm.rank() ^ 1];
        let mut exchange = SparseExchange::between(&comm, &neighbour, &neighbour).unwrap();
        if comm.rank() == 3 {
            return;
        }
        if comm.rank() == 2 {
            let error = exchange.begin().unwrap().wait().unwrap_err();
            assert!(matches!(error, SparseError::GivenUp { rank: 3, .. }), "{error}");
            return;
        }
        for round in 0..50u8 {
            let messages = exchange.begin().unwrap();
            messages.send(neighbour[0], [round]).unwrap();
            assert_eq!(messages.wait().unwrap(), [(neighbour[0], vec![round])]);
        }
    });
}

/// A rank ends in the middle of a round, by a panic: its message comes, and then the error.
#[test]
fn messages_of_a_rank_that_ends_in_a_round_are_received() {
    for fixed in [false, true] {
        on_threads(2, |comm| {
            let options = SparseOptions::default();
            let options = if fixed { options.between(&[0, 1], &[0, 1]) } else { options };
            let mut exchange = SparseExchange::with_options(&comm, options).unwrap();
            if comm.rank() == 1 {
                let panics = AssertUnwindSafe(move || {
                    let (_comm, round) = (comm, exchange.begin().unwrap());
                    round.send(0, [7]).unwrap();
                    assert!(!round.is_ready(), "this sends the message");
                    resume_unwind(Box::new("out of fish"));
                });
                catch_unwind(panics).unwrap_err();
                return;
            }
            let round = exchange.begin().unwrap();
            let began = Instant::now();
            let message = loop {
                match round.try_next().unwrap() {
                    None => assert!(began.elapsed() < SOON),
                    message => break message,
                }
            };
            assert_eq!(message, Some((1, vec![7])));
            let error = round.wait().unwrap_err();
            assert!(matches!(error, SparseError::GivenUp { rank: 1, .. }), "{error}");
        });
    }
}

#[test]
fn lines_end_with_a_rank() {
    for passes in [false, true] {
        on_threads(3, |comm| {
            let mut exchange = LineExchange::new(&Line::even(&comm, 9).unwrap()).unwrap();
            if comm.rank() == 1 {
                return;
            }
            let error = if passes {
                exchange.pass(Payloads::default()).map(drop)
            } else {
                exchange.rounds(|_| NextRound { enough: true, ..NextRound::default() }).map(drop)
            };
            let error = error.unwrap_err().to_string();
            assert!(
                error.contains("rank 1") && error.contains("its communicator was dropped or closed"),
                "{error}"
            );
        });
    }
}

/// The calls of the transport itself: a message that is expected or not, sent before the rank ends or never.
#[test]
fn receives_end_with_the_sender() {
    static SENT: [u8; 4] = [1, 2, 3, 4];
    let range = |bytes: *const u8| MemoryRange {
        device: DeviceId { backend: "cpu", index: 0, context: 0 },
        pointer: Pointer::new(bytes.cast_mut()),
        bytes: 4,
    };
    for sends in [false, true] {
        on_threads(2, |comm| {
            // SAFETY: there are no exchanges, and no collective is called.
            let transport = unsafe { &**comm.raw_transport() };
            if comm.rank() == 1 {
                if sends {
                    // SAFETY: the memory lasts, and nothing writes it.
                    unsafe {
                        let channel = transport.open(Direction::Send, 0, 3, range(SENT.as_ptr())).unwrap();
                        transport.post(channel).unwrap();
                    }
                    transport.send_message(0, 4, vec![5]).unwrap();
                }
                thread::sleep(LATER);
                return;
            }
            thread::sleep(if sends { 2 * LATER } else { Duration::ZERO });
            let into = range(vec![0u8; 4].leak().as_mut_ptr());
            // SAFETY: the memory is leaked, so it lasts; it is read after the message is complete.
            let channel = unsafe {
                let channel = transport.open(Direction::Receive, 1, 3, into).unwrap();
                transport.post(channel).unwrap();
                channel
            };
            let began = Instant::now();
            let outcome = loop {
                match transport.test(channel) {
                    Ok(false) => assert!(began.elapsed() < SOON, "it goes on"),
                    outcome => break outcome,
                }
            };
            let message = transport.receive_message(4).unwrap();
            assert_eq!(transport.ended_ranks(), [1]);
            if sends {
                assert_eq!(outcome, Ok(true));
                // SAFETY: the message is complete.
                assert_eq!(unsafe { std::slice::from_raw_parts(into.pointer.as_ptr(), 4) }, SENT);
                assert_eq!(message, Incoming::Message { sender: 1, bytes: vec![5] });
            } else {
                assert_eq!(outcome, Err(TransportError::PeerEnded { rank: 1 }));
                assert_eq!(message, Incoming::Nothing);
            }
        });
    }
}

#[test]
fn a_thread_that_panics_ends_its_rank() {
    let mut ranks = threads(2).unwrap();
    let (second, first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
    first.set_time_limit(Some(LIMIT));
    let panics = thread::spawn(move || {
        let mut exchange = bound(&second, DataPath::Direct).unwrap();
        let _pending = exchange.start().unwrap();
        panic!("out of fish");
    });
    let mut exchange = bound(&first, DataPath::Direct).unwrap();
    panics.join().unwrap_err();
    let error = exchange.run().unwrap_err();
    assert!(error.to_string().contains("rank 1"), "{error}");
    assert_eq!(first.barrier().unwrap_err(), TransportError::PeerEnded { rank: 1 });
}

/// An error that takes a while to become text.
#[derive(Debug)]
struct OutOfFish;

impl std::error::Error for OutOfFish {}

impl fmt::Display for OutOfFish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        thread::sleep(LATER);
        f.write_str("out of fish")
    }
}

/// A rank of `run_ranks` that returns has ended too; one that fails is known by its error.
#[test]
fn a_rank_that_returns_early_ends_the_waits_for_it() {
    let began = Instant::now();
    let error = run_ranks(3, |comm| {
        comm.set_time_limit(Some(LIMIT));
        if comm.rank() == 1 { Ok(()) } else { Ok(comm.barrier()?) }
    });
    let error = error.unwrap_err();
    assert!(error.to_string().contains("rank 1 has ended, and this rank waits for it"), "{error}");
    let error = run_ranks(3, |comm| {
        if comm.rank() == 1 {
            return Err(OutOfFish.into());
        }
        Ok(comm.barrier()?)
    });
    assert_eq!(error.unwrap_err().to_string(), "rank 1: out of fish");
    assert!(began.elapsed() < SOON, "it took {:?}", began.elapsed());
}
