//! Sparse exchanges in rare cases: refused arguments, failures, and no hangs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

use crate::common::one_thread::OneThread;
use haloport_core::sparse::{Inserter, Slot};
use haloport_core::*;
use haloport_cpu::CpuDevice;

type Failure = haloport_core::Error;

/// Long enough for errors that come at once, and shorter than the time limit.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn what_inserts_may_be_on_any_thread() {
    fn any_thread<T: Send + Sync + 'static>() {}
    any_thread::<Inserter>();
    any_thread::<Slot>();
    any_thread::<SparseExchange>();
    any_thread::<SparseError>();
}

#[test]
fn messages_come_in_order_though_later_ones_are_ready_first() {
    let received = run_ranks(2, |comm| {
        let mut exchange = SparseExchange::new(&comm)?;
        let round = exchange.begin()?;
        let (first, second) = (round.reserve(0)?, round.reserve(0)?);
        round.send(0, "third")?;
        assert_eq!(second.peer(), 0);
        second.send("second")?;
        round.finish();
        // A slot can be filled after the end of insertions, and while the rank waits.
        let filling = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            first.send(Vec::new())
        });
        let received = round.wait()?;
        filling.join().unwrap()?;
        Ok(received)
    })
    .unwrap();
    let texts = ["", "second", "third"];
    let expected: Vec<_> = [0, 1].iter().flat_map(|&rank| texts.map(|text| (rank, text.into()))).collect();
    assert_eq!(received, [expected, vec![]]);
}

#[test]
fn a_thread_that_may_not_make_progress_loses_nothing() {
    for fixed in [false, true] {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let (comm, other) = (OneThread::around(&comm), 1 - comm.rank());
            comm.set_time_limit(Some(Duration::from_secs(5)));
            let mut exchange = match fixed {
                true => SparseExchange::between(&comm, &[other], &[other])?,
                false => SparseExchange::new(&comm)?,
            };
            let round = exchange.begin()?;
            round.send(other, "one")?;
            std::thread::scope(|scope| {
                let elsewhere = scope.spawn(|| {
                    round.finish();
                    assert!(!round.is_ready());
                    let refused = round.try_next();
                    assert!(
                        matches!(refused, Err(SparseError::Transport(TransportError::WrongThread { .. }))),
                        "{refused:?}"
                    );
                });
                elsewhere.join().unwrap();
            });
            assert_eq!(round.wait()?, [(other, b"one".to_vec())]);
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn a_round_that_the_wrong_thread_awaits_fails_alone() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let (comm, other) = (OneThread::around(&comm), 1 - comm.rank());
        comm.set_time_limit(Some(Duration::from_secs(5)));
        let pattern = Pattern::on_grid(&comm, [8]).periodic([true]).halo(1).build()?;
        let mut field = pattern.field::<f64, _>(&CpuDevice::with_threads(1)?)?;
        field.view_mut(0)?.fill_with(|cell, _| cell[0] as f64);
        let mut halos = pattern.bind_with(field, BindOptions::default().path(DataPath::Messages))?;
        let mut exchange = SparseExchange::between(&comm, &[other], &[other])?;

        let pending = halos.start()?;
        let round = exchange.begin()?;
        let refused = std::thread::scope(|scope| scope.spawn(|| round.wait()).join().unwrap());
        assert!(
            matches!(refused, Err(SparseError::Transport(TransportError::WrongThread { .. }))),
            "{refused:?}"
        );
        pending.finish()?;
        let first = 4 * comm.rank() as i64;
        assert_eq!(halos.fields().view(0)?[[first - 1]], ((first + 7) % 8) as f64);
        Ok(())
    })
    .unwrap();
}

#[test]
fn misuse_leaves_the_round_as_it_was() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let next = (comm.rank() + 1) % 3;
        let mut exchange = SparseExchange::between(&comm, &[(comm.rank() + 2) % 3], &[next])?;
        let round = exchange.begin()?;
        let beyond = round.send(3, "").unwrap_err();
        assert_eq!(beyond, SparseError::Transport(TransportError::NoSuchRank { peer: 3, size: 3 }));
        let stranger = round.reserve(comm.rank()).unwrap_err();
        assert_eq!(stranger, SparseError::NotADestination { peer: comm.rank(), destinations: vec![next] });
        round.send(next, "one")?;
        round.finish();
        assert_eq!(round.send(next, "two"), Err(SparseError::Finished));
        let late = round.inserter();
        assert_eq!(round.wait()?, [((comm.rank() + 2) % 3, b"one".to_vec())]);
        assert_eq!(late.send(next, "three"), Err(SparseError::Finished));
        // It does not belong to the next round either.
        let round = exchange.begin()?;
        assert_eq!(late.send(next, "three"), Err(SparseError::Finished));
        assert_eq!(round.wait()?, []);
        Ok(())
    })
    .unwrap();
}

#[test]
fn neighbours_that_do_not_fit_are_refused_alike_on_every_rank() {
    // The sources and destinations of three ranks, and the expected error.
    type Sets = [(&'static [usize], &'static [usize]); 3];
    let cases: [(Sets, &str); 4] = [
        (
            [(&[1], &[1]), (&[0, 2], &[0]), (&[], &[])],
            "rank 1: it expects messages from rank 2, which does not send to it",
        ),
        (
            [(&[], &[2, 1]), (&[0], &[]), (&[], &[])],
            "rank 2: it does not expect messages from rank 0, which sends to it",
        ),
        (
            [(&[], &[]), (&[], &[3]), (&[], &[])],
            "rank 1: its destinations have rank 3, but there are 3 ranks, numbered from 0",
        ),
        ([(&[], &[]), (&[], &[]), (&[0, 1, 0], &[])], "rank 2: its sources have rank 0 twice"),
    ];
    for (sets, expected) in cases {
        let errors = run_ranks(3, |comm| -> Result<SparseError, Failure> {
            let (sources, destinations) = sets[comm.rank()];
            let error = SparseExchange::between(&comm, sources, destinations).err();
            // The ranks are still in step.
            comm.barrier()?;
            Ok(error.ok_or("it was not refused")?)
        })
        .unwrap();
        assert_eq!(errors, vec![SparseError::Refused(expected.into()); 3]);
    }
}

#[test]
fn a_callback_that_panics_is_an_error_of_its_exchange_alone() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let options = SparseOptions::default().on_complete(|_| std::panic::panic_any("out of fish"));
        let mut broken = SparseExchange::with_options(&comm, options)?;
        let mut whole = SparseExchange::new(&comm)?;
        let (one, other) = (broken.begin()?, whole.begin()?);
        one.finish();
        other.send(0, [7])?;
        let received = other.wait()?.len();
        assert_eq!(received, if comm.rank() == 0 { 3 } else { 0 });
        let error = one.wait().unwrap_err();
        assert_eq!(error, SparseError::CallbackPanicked("out of fish".into()));
        let next = broken.begin().unwrap_err();
        assert!(matches!(&next, SparseError::Poisoned(why) if why.contains("out of fish")), "{next}");
        assert!(whole.begin()?.wait()?.is_empty());
        Ok(())
    })
    .unwrap();
}

#[test]
fn ranks_that_make_different_exchanges_are_told() {
    let errors = run_ranks(2, |comm| {
        let made = match comm.rank() {
            0 => SparseExchange::new(&comm),
            _ => SparseExchange::between(&comm, &[], &[]),
        };
        Ok(made.err())
    })
    .unwrap();
    let out_of_step = |error: &Option<SparseError>| {
        matches!(error, Some(SparseError::Transport(TransportError::OutOfStep { rank: 1, .. })))
    };
    assert!(errors.iter().all(out_of_step), "{errors:?}");
    assert_eq!(errors[0], errors[1]);
}

#[test]
fn a_slot_that_is_dropped_fails_the_round_at_once_on_all_who_wait_for_it() {
    for (fixed, ranks) in [(false, 1), (false, 5), (true, 2), (true, 5)] {
        let began = Instant::now();
        let errors = run_ranks(ranks, |comm| -> Result<Option<SparseError>, Failure> {
            let (next, previous) = ((comm.rank() + 1) % ranks, (comm.rank() + ranks - 1) % ranks);
            let mut exchange = match fixed {
                true => SparseExchange::between(&comm, &[previous], &[next])?,
                false => SparseExchange::new(&comm)?,
            };
            let round = exchange.begin()?;
            let slot = round.reserve(next)?;
            round.send(next, "after it")?;
            if comm.rank() == 0 {
                drop(slot)
            } else {
                slot.send("")?
            }
            let error = round.wait().err();
            let again = exchange.begin().err();
            assert_eq!(
                error.is_some(),
                matches!(again, Some(SparseError::Poisoned(_))),
                "{error:?}, {again:?}"
            );
            Ok(error)
        })
        .unwrap();
        let why = format!("a message reserved for rank {} was dropped before it was filled", 1 % ranks);
        let expected = SparseError::GivenUp { rank: 0, why };
        for (rank, error) in errors.into_iter().enumerate() {
            // With fixed neighbours, the rounds of ranks that get no message from rank 0 may be complete.
            assert!(
                error.as_ref() == Some(&expected) || fixed && rank > 1 && error.is_none(),
                "{rank}: {error:?}"
            );
        }
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    for fixed in [false, true] {
        let at_end = Barrier::new(4);
        let errors = run_ranks(4, |comm| -> Result<Option<SparseError>, Failure> {
            let all: Vec<usize> = (0..4).collect();
            let mut exchange = match fixed {
                true => SparseExchange::between(&comm, &all, &all)?,
                false => SparseExchange::new(&comm)?,
            };
            comm.set_time_limit(Some(Duration::from_millis(200)));
            if comm.rank() == 2 {
                at_end.wait();
                return Ok(None);
            }
            let round = exchange.begin()?;
            let error = round.wait().err();
            // Until all have given up, none drops its communicator, which would be known sooner.
            at_end.wait();
            Ok(error)
        })
        .unwrap();
        assert!(errors[2].is_none());
        let told: Vec<String> = errors.iter().flatten().map(ToString::to_string).collect();
        assert_eq!(told.len(), 3);
        // With fixed neighbours, the first rank to give up may have notified the others.
        assert!(told.iter().all(|error| error.contains("time limit of 200ms")), "{told:?}");
        if fixed {
            assert!(
                told.iter().all(|error| error.contains("rank 2, which has not ended its round")),
                "{told:?}"
            );
            // Another rank may be late, too.
            let named = |error: &SparseError| matches!(error, SparseError::TimeLimit { ranks, .. } if ranks.contains(&2));
            assert!(errors.iter().flatten().any(named), "{errors:?}");
        } else {
            // The next rank names it; another rank names a range with it.
            assert!(errors[3].as_ref().unwrap().to_string().contains("missing rank 2, which"), "{told:?}");
            assert!(names(errors[3].as_ref().unwrap(), &[2]), "{errors:?}");
            assert!(names(errors[0].as_ref().unwrap(), &[]), "{errors:?}");
            assert!(
                errors[0].as_ref().unwrap().to_string().contains("one of the ranks 1 to 2, which"),
                "{told:?}"
            );
        }
    }
}

/// Whether the error is that of the time limit, with these missing ranks.
fn names(error: &SparseError, expected: &[usize]) -> bool {
    matches!(error, SparseError::TimeLimit { ranks, .. } if ranks == expected)
}

#[test]
fn a_message_that_is_not_received_is_named() {
    let at_end = Barrier::new(2);
    let errors = run_ranks(2, |comm| -> Result<Option<SparseError>, Failure> {
        let mut exchange = SparseExchange::new(&comm)?;
        comm.set_time_limit(Some(Duration::from_millis(100)));
        if comm.rank() == 1 {
            at_end.wait();
            return Ok(None);
        }
        let round = exchange.begin()?;
        round.send(1, "hello")?;
        let error = round.wait().err();
        at_end.wait();
        Ok(error)
    })
    .unwrap();
    let error = errors[0].as_ref().unwrap().to_string();
    assert!(error.contains("rank 1, which has not received a message"), "{error}");
}

#[test]
fn a_panic_of_one_rank_ends_the_others() {
    for fixed in [false, true] {
        let began = Instant::now();
        let ended = run_ranks(3, |comm| {
            let mut exchange = match fixed {
                true => SparseExchange::between(&comm, &[0, 1, 2], &[0, 1, 2])?,
                false => SparseExchange::new(&comm)?,
            };
            let round = exchange.begin()?;
            let slot = round.reserve(0)?;
            assert!(comm.rank() != 1, "as it should");
            slot.send("")?;
            Ok(round.wait().map(drop)?)
        });
        // The error is the panic, or the effect of its dropped slot on another rank.
        assert!(ended.is_err());
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
}

#[test]
fn what_outlives_an_exchange_is_told_once_that_it_is_gone() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let mut exchange = SparseExchange::new(&comm)?;
        let round = exchange.begin()?;
        let late = round.inserter();
        round.wait()?;
        drop(exchange);
        let error = late.send(0, "").unwrap_err();
        assert_eq!(error.to_string(), "the sparse exchange is poisoned: it was dropped; make a new one");
        Ok(())
    })
    .unwrap();
}

#[test]
fn completion_is_called_once_for_each_round() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let (complete, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (Arc::clone(&complete), Arc::clone(&failed));
        let options = SparseOptions::default().on_complete(move |outcome| {
            let count = if outcome.is_ok() { &counts.0 } else { &counts.1 };
            count.fetch_add(1, Ordering::SeqCst);
        });
        let mut exchange = SparseExchange::with_options(&comm, options)?;
        for number in 1..=3 {
            let round = exchange.begin()?;
            round.send((comm.rank() + number) % 3, "")?;
            round.finish();
            // Every wait makes progress with the round.
            while !round.is_ready() {
                std::thread::yield_now();
            }
            assert_eq!(complete.load(Ordering::SeqCst), number);
            assert_eq!(round.wait()?.len(), 1);
        }
        let round = exchange.begin()?;
        drop(round.reserve(0)?);
        assert!(round.wait().is_err());
        assert_eq!((complete.load(Ordering::SeqCst), failed.load(Ordering::SeqCst)), (3, 1));
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_progress_thread_completes_rounds_if_asked() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        comm.set_progress(Progress::Thread)?;
        let (tell, told) = mpsc::channel();
        let options = SparseOptions::default().on_complete(move |_| tell.send(()).unwrap());
        let mut exchange = SparseExchange::with_options(&comm, options)?;
        for _ in 0..3 {
            let round = exchange.begin()?;
            round.send((comm.rank() + 1) % 3, [7])?;
            round.finish();
            // No call of this rank makes progress meanwhile.
            told.recv_timeout(Duration::from_secs(20)).expect("the round is complete");
            assert_eq!(round.wait()?, [((comm.rank() + 2) % 3, vec![7])]);
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_round_that_is_dropped_or_forgotten_keeps_nobody_waiting() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let mut exchange = SparseExchange::new(&comm)?;
        for number in 0..3u8 {
            let round = exchange.begin()?;
            round.send((comm.rank() + 1) % 3, [number])?;
            match (comm.rank(), number) {
                (0, 0) => drop(round),
                (1, 1) => std::mem::forget(round),
                _ => assert_eq!(round.wait()?, [((comm.rank() + 2) % 3, vec![number])]),
            }
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn many_ranks_send_few_messages() {
    const RANKS: usize = 1024;
    let received = run_ranks(RANKS, |comm| {
        let mut exchange = SparseExchange::new(&comm)?;
        let mut received = 0;
        for number in 0..2 {
            let round = exchange.begin()?;
            // One rank gets many messages, most ranks get none.
            round.send((comm.rank() * number) % 7, comm.rank().to_le_bytes())?;
            let messages = round.wait()?;
            assert!(messages.iter().all(|(sender, bytes)| bytes[..] == sender.to_le_bytes()));
            received += messages.len();
        }
        Ok(received)
    })
    .unwrap();
    assert_eq!(received.iter().sum::<usize>(), 2 * RANKS);
    assert!(received[0] > RANKS && received[7..].iter().all(|&count| count == 0));
}

/// Rank 1 gives up its second round while rank 0 waits in the first one for rank 2.
#[test]
fn a_rank_that_gives_up_a_round_does_not_fail_the_round_before() {
    let slow = Duration::from_millis(50);
    run_ranks(3, |comm| -> Result<(), Failure> {
        let neighbours: &[usize] = if comm.rank() == 0 { &[1, 2] } else { &[0] };
        let mut exchange = SparseExchange::between(&comm, neighbours, neighbours)?;
        let first = exchange.begin()?;
        if comm.rank() == 2 {
            std::thread::sleep(slow);
            first.send(0, [7])?;
        }
        let received = first.wait()?;
        assert_eq!(received, if comm.rank() == 0 { vec![(2, vec![7])] } else { vec![] });
        let second = exchange.begin()?;
        if comm.rank() == 1 {
            drop(second.reserve(0)?);
        }
        let failed = second.wait();
        assert!(matches!(failed, Err(SparseError::GivenUp { rank: 1, .. })), "{failed:?}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn rounds_are_begun_and_ended_without_a_borrow() {
    for fixed in [false, true] {
        run_ranks(4, |comm| {
            let (rank, next, previous) = (comm.rank(), (comm.rank() + 1) % 4, (comm.rank() + 3) % 4);
            let make = || match fixed {
                true => SparseExchange::between(&comm, &[previous], &[next]),
                false => SparseExchange::new(&comm),
            };
            let mut exchanges = [make()?, make()?];
            for round in 0..6 {
                if rank == 0 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                for (number, exchange) in exchanges.iter_mut().enumerate() {
                    let bytes = |part| vec![round, number as u8, rank as u8, part];
                    exchange.begin_with([(next, bytes(0)), (next, bytes(1))])?;
                }
                // Ranks end them in different orders, with and without waiting.
                for number in if rank % 2 == 0 { [0, 1] } else { [1, 0] } {
                    while rank > 1 && !exchanges[number].is_ready() {
                        std::thread::yield_now();
                    }
                    let bytes = |part| (previous, vec![round, number as u8, previous as u8, part]);
                    assert_eq!(exchanges[number].end()?, [bytes(0), bytes(1)]);
                }
                // A round with a borrow in between.
                let borrowed = exchanges[0].begin()?;
                borrowed.send(next, vec![round])?;
                assert_eq!(borrowed.wait()?, [(previous, vec![round])]);
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn a_thread_that_may_not_call_the_transport_neither_begins_nor_ends_a_round_without_a_borrow() {
    fn on_another_thread<T: Send>(call: impl FnOnce() -> Result<T, SparseError> + Send) -> bool {
        let outcome = std::thread::scope(|scope| scope.spawn(call).join().unwrap());
        matches!(outcome, Err(SparseError::Transport(TransportError::WrongThread { .. })))
    }
    for fixed in [false, true] {
        run_ranks(2, |comm| -> Result<(), Failure> {
            let (comm, other) = (OneThread::around(&comm), 1 - comm.rank());
            comm.set_time_limit(Some(Duration::from_secs(20)));
            let mut exchange = match fixed {
                true => SparseExchange::between(&comm, &[other], &[other])?,
                false => SparseExchange::new(&comm)?,
            };
            for round in 0..2 {
                assert!(on_another_thread(|| exchange.begin_with([(other, vec![9])])));
                assert_eq!(exchange.end(), Err(SparseError::NotInRound));
                exchange.begin_with([(other, vec![round])])?;
                assert!(on_another_thread(|| exchange.end()));
                assert_eq!(exchange.end()?, [(other, vec![round])]);
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn a_round_without_a_borrow_is_ready_when_its_end_would_not_wait() {
    run_ranks(2, |comm| {
        let mut exchange = SparseExchange::new(&comm)?;
        assert!(exchange.is_ready());
        if comm.rank() == 1 {
            comm.barrier()?;
        }
        exchange.begin_with([(0, vec![7])])?;
        if comm.rank() == 0 {
            assert!(!exchange.is_ready());
            comm.barrier()?;
            while !exchange.is_ready() {}
            comm.set_time_limit(Some(Duration::from_nanos(1)));
            assert_eq!(exchange.end()?, [(0, vec![7]), (1, vec![7])]);
        } else {
            assert!(exchange.end()?.is_empty());
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn rounds_without_a_borrow_are_begun_once_and_ended_once() {
    run_ranks(2, |comm| {
        let other = 1 - comm.rank();
        let mut exchange = SparseExchange::between(&comm, &[other], &[other])?;
        assert_eq!(exchange.end(), Err(SparseError::NotInRound));
        let beyond = SparseError::Transport(TransportError::NoSuchRank { peer: 2, size: 2 });
        assert_eq!(exchange.begin_with([(other, vec![1]), (2, vec![2])]), Err(beyond));
        let no_receiver = SparseError::NotADestination { peer: comm.rank(), destinations: vec![other] };
        assert_eq!(exchange.begin_with([(comm.rank(), vec![1])]), Err(no_receiver));
        assert_eq!(exchange.end(), Err(SparseError::NotInRound), "no round was begun");
        for round in 0..3 {
            exchange.begin_with([(other, vec![round])])?;
            assert_eq!(exchange.begin_with([]), Err(SparseError::InRound));
            assert!(matches!(exchange.begin(), Err(SparseError::InRound)));
            assert_eq!(exchange.end()?, [(other, vec![round])]);
            assert_eq!(exchange.end(), Err(SparseError::NotInRound));
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_exchange_that_is_dropped_in_a_round_keeps_nobody_waiting() {
    for (fixed, panics) in [(false, false), (true, false), (true, true)] {
        let ended = run_ranks(2, |comm| {
            let other = 1 - comm.rank();
            let mut exchange = match fixed {
                true => SparseExchange::between(&comm, &[other], &[other])?,
                false => SparseExchange::new(&comm)?,
            };
            let late = panics && comm.rank() == 1;
            if late {
                comm.barrier()?; // otherwise its round could be over before rank 0 panics
            }
            exchange.begin_with([(other, vec![1])])?;
            let ended = match (comm.rank(), panics) {
                (0, false) => {
                    drop(exchange);
                    None
                }
                (0, true) => {
                    let in_flight = std::panic::AssertUnwindSafe(|| {
                        let _dropped = exchange;
                        panic!("as the test wants it");
                    });
                    std::panic::catch_unwind(in_flight).unwrap_err();
                    None
                }
                _ => {
                    std::thread::sleep(Duration::from_millis(30));
                    Some(exchange.end())
                }
            };
            if !late {
                comm.barrier()?;
            }
            Ok(ended)
        })
        .unwrap();
        let why = "its thread panicked".into();
        let expected =
            if panics { Err(SparseError::GivenUp { rank: 0, why }) } else { Ok(vec![(0, vec![1])]) };
        assert_eq!(ended[1], Some(expected));
    }
}
