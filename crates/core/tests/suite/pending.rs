//! Pending exchanges: what they allow, and what happens if they are dropped, forgotten or given up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

use crate::common::*;
use haloport_core::*;

/// Runs `body` on several numbers of ranks, with direct copies and with messages.
fn everywhere(body: impl Fn(&Communicator, DataPath) -> Result<(), Failure> + Sync) {
    for ranks in [1, 2, 3, 5] {
        for path in [DataPath::Quickest, DataPath::Messages] {
            run_ranks(ranks, |comm| body(&comm, path))
                .unwrap_or_else(|error| panic!("{ranks}, {path:?}: {error}"));
        }
    }
}

#[test]
fn start_and_finish_fill_the_halo() {
    everywhere(|comm, path| {
        let mut exchange = bound(comm, path)?;
        for round in 0..5 {
            prepare(exchange.fields_mut(), round)?;
            exchange.start()?.finish()?;
            verify(exchange.fields(), round, comm.size())?;
        }
        Ok(())
    });
}

#[test]
fn dropping_a_pending_exchange_completes_it() {
    everywhere(|comm, path| {
        let mut exchange = bound(comm, path)?;
        prepare(exchange.fields_mut(), 1)?;
        drop(exchange.start()?);
        verify(exchange.fields(), 1, comm.size())
    });
}

#[test]
fn a_forgotten_pending_exchange_leaves_the_field_in_flight_until_it_is_completed() {
    everywhere(|comm, path| {
        let mut exchange = bound(comm, path)?;
        prepare(exchange.fields_mut(), 1)?;
        std::mem::forget(exchange.start()?);
        assert_eq!(exchange.fields().view(0).err(), Some(FieldError::InFlight));
        assert_eq!(exchange.fields_mut().view_mut(0).err(), Some(FieldError::InFlight));
        assert_eq!(exchange.fields().to_vec(0).err(), Some(FieldError::InFlight));
        exchange.complete()?;
        verify(exchange.fields(), 1, comm.size())?;

        // The next start completes a forgotten exchange, too.
        prepare(exchange.fields_mut(), 2)?;
        std::mem::forget(exchange.start()?);
        exchange.run()?;
        verify(exchange.fields(), 2, comm.size())?;

        // So does taking the fields back.
        prepare(exchange.fields_mut(), 3)?;
        std::mem::forget(exchange.start()?);
        verify(&exchange.into_fields()?, 3, comm.size())
    });
}

#[test]
fn dropping_an_exchange_with_a_forgotten_flight_serves_the_neighbours() {
    everywhere(|comm, path| {
        let mut exchange = bound(comm, path)?;
        prepare(exchange.fields_mut(), 1)?;
        if comm.rank() == 0 {
            std::mem::forget(exchange.start()?);
            drop(exchange);
        } else {
            exchange.run()?;
            verify(exchange.fields(), 1, comm.size())?;
        }
        Ok(())
    });
}

/// Memory is lent as long as the exchange lives. After a forgotten pending exchange it may be used again.
#[test]
fn forgetting_an_exchange_of_borrowed_memory_is_safe() {
    everywhere(|comm, _| {
        let pattern = line(comm)?;
        let layout = Numbers::new(&device()?, &pattern)?.layout(0)?.clone();
        let mut memory = vec![comm.rank() as f64; 6];
        {
            let field = BorrowedField::new(&device()?, vec![(&mut memory[..], layout)])?;
            let mut exchange = pattern.bind(field)?;
            std::mem::forget(exchange.start()?);
            std::mem::forget(exchange);
        }
        // Messages still arrive and are served, but no rank writes here.
        let before = memory.clone();
        comm.barrier()?;
        comm.barrier()?;
        assert_eq!(memory, before);
        Ok(())
    });
}

#[test]
fn views_of_a_pending_exchange_read_owned_cells_and_write_the_interior() {
    everywhere(|comm, path| {
        let mut exchange = bound(comm, path)?;
        for round in 0..20 {
            prepare(exchange.fields_mut(), round)?;
            let mut pending = exchange.start()?;
            let first = 4 * comm.rank() as i64;
            let owned = pending.owned(|field| field, 0)?;
            assert_eq!(owned.region(), IndexBox::new([first], [first + 4]));
            assert_eq!(owned.row(&[first]).map(<[f64]>::len), Some(4));
            assert_eq!(owned.get(&[first - 1]), None, "a halo cell in flight was readable");
            let mut interior = pending.interior_mut(|field| field, 0)?;
            assert_eq!(interior.region(), IndexBox::new([first + 1], [first + 3]));
            assert!(!interior.set(&[first], 7.0), "a cell that a neighbour reads was writable");
            assert!(interior.set(&[first + 1], 7.0));
            pending.finish()?;
            assert_eq!(exchange.fields().view(0)?.get(&[first + 1]), Some(7.0));
            assert_eq!(exchange.fields().view(0)?.get(&[first - 1]).map(|value| value >= 0.0), Some(true));
        }
        Ok(())
    });
}

#[test]
fn a_pending_exchange_lends_views_of_its_own_fields_only() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let other: &'static Numbers = Box::leak(Box::new(Numbers::new(&device()?, &line(&comm)?)?));
        let mut exchange = bound(&comm, DataPath::Quickest)?;
        let mut pending = exchange.start()?;
        assert_eq!(pending.owned(|_| other, 0).err(), Some(FieldError::NotInExchange));
        assert_eq!(pending.interior_mut(|_| other, 0).err(), Some(FieldError::NotInExchange));
        assert_eq!(
            pending.owned(|field| field, 1).err(),
            Some(FieldError::NoSuchDomain { domain: 1, count: 1 })
        );
        Ok(())
    })
    .unwrap();
}

#[test]
fn replaced_fields_are_refused_until_they_are_back() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let mut exchange = bound(&comm, DataPath::Quickest)?;
        let mut other = Numbers::new(&device()?, &line(&comm)?)?;
        std::mem::swap(exchange.fields_mut(), &mut other);
        assert_eq!(exchange.run(), Err(ExchangeError::FieldsReplaced));
        assert_eq!(exchange.start().err(), Some(ExchangeError::FieldsReplaced));
        assert_eq!(exchange.complete(), Err(ExchangeError::FieldsReplaced));
        std::mem::swap(exchange.fields_mut(), &mut other);
        exchange.run()?;
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_field_in_flight_elsewhere_is_refused() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let mut exchange = bound(&comm, DataPath::Quickest)?;
        std::mem::forget(exchange.start()?);
        let spare = Numbers::new(&device()?, &line(&comm)?)?;
        let field = std::mem::replace(exchange.fields_mut(), spare);
        let mut second = line(&comm)?.bind(field)?;
        assert_eq!(second.run(), Err(ExchangeError::InFlightElsewhere));
        std::mem::swap(exchange.fields_mut(), second.fields_mut());
        exchange.complete()?;
        std::mem::swap(exchange.fields_mut(), second.fields_mut());
        second.run()?;
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_neighbour_that_does_not_come_is_named_after_the_time_limit() {
    for path in [DataPath::Quickest, DataPath::Messages] {
        let at_end = Barrier::new(2);
        let error = run_ranks(2, |comm| -> Result<(), Failure> {
            let mut exchange = bound(&comm, path)?;
            if comm.rank() == 1 {
                at_end.wait();
                return Ok(());
            }
            comm.set_time_limit(Some(Duration::from_millis(200)));
            assert_eq!(comm.time_limit(), Some(Duration::from_millis(200)));
            let began = Instant::now();
            let ended = exchange.run();
            at_end.wait();
            let error = ended.unwrap_err();
            assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
            let again = exchange.run().unwrap_err();
            assert!(matches!(again, ExchangeError::Poisoned(_)), "{again}");
            assert!(exchange.fields().view(0).is_ok(), "the field of a poisoned exchange is at rest");
            Err(error.into())
        })
        .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("rank 1") && text.contains("200ms"), "{text}");
    }
}

#[test]
fn a_neighbour_that_has_given_up_is_known_at_once() {
    let given_up = Barrier::new(2);
    run_ranks(2, |comm| -> Result<(), Failure> {
        let mut exchange = bound(&comm, DataPath::Quickest)?;
        if comm.rank() == 1 {
            comm.set_time_limit(Some(Duration::from_millis(100)));
            let ended = exchange.run();
            given_up.wait();
            assert!(ended.is_err());
        } else {
            given_up.wait();
            let began = Instant::now();
            let error = exchange.run().unwrap_err();
            assert_eq!(error.to_string(), "rank 1 has given up the exchange");
            assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
        }
        comm.set_time_limit(Some(Duration::from_secs(30)));
        comm.barrier()?;
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_panic_poisons_the_exchange_and_ends_the_neighbours() {
    for path in [DataPath::Quickest, DataPath::Messages] {
        let error = run_ranks(3, |comm| -> Result<(), Failure> {
            let mut exchange = bound(&comm, path)?;
            if comm.rank() == 1 {
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    let _pending = exchange.start();
                    std::panic::panic_any("on purpose");
                }));
                assert!(caught.is_err());
                // A neighbour may have come so far that nothing was left to give up. Then its halos are complete.
                let after = exchange.run().unwrap_err();
                assert!(matches!(after, ExchangeError::Poisoned(_)), "{after}");
                return Err("gone".into());
            }
            comm.set_time_limit(Some(Duration::from_secs(20)));
            let began = Instant::now();
            // Rank 1 is missing from the second exchange at the latest.
            let outcome = exchange.run().and_then(|()| exchange.run());
            assert!(outcome.is_err());
            assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
            Ok(())
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "rank 1: gone");
    }
}

#[test]
fn the_callback_runs_once_for_each_exchange() {
    everywhere(|comm, path| {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let options = BindOptions::default().prefer(path).on_complete(move |outcome| {
            assert!(outcome.is_ok());
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let pattern = line(comm)?;
        let mut exchange = pattern.bind_with(Numbers::new(&device()?, &pattern)?, options)?;
        for round in 1..=5 {
            let pending = exchange.start()?;
            while !pending.is_ready() {
                std::thread::yield_now();
            }
            assert_eq!(count.load(Ordering::SeqCst), round, "before `finish`, which has nothing to wait for");
            pending.finish()?;
        }
        assert_eq!(count.load(Ordering::SeqCst), 5);
        Ok(())
    });
}

#[test]
fn the_progress_thread_completes_exchanges_of_the_host_if_asked() {
    everywhere(|comm, path| {
        let (tell, told) = mpsc::channel();
        let options = BindOptions::default().prefer(path).on_complete(move |_| tell.send(()).unwrap());
        let pattern = line(comm)?;
        let mut exchange = pattern.bind_with(Numbers::new(&device()?, &pattern)?, options)?;
        comm.set_progress(Progress::Thread)?;
        for round in 0..3 {
            prepare(exchange.fields_mut(), round)?;
            let pending = exchange.start()?;
            // No call of this rank makes progress meanwhile.
            told.recv_timeout(Duration::from_secs(20)).expect("the exchange is complete");
            pending.finish()?;
            verify(exchange.fields(), round, comm.size())?;
        }
        Ok(())
    });
}

#[test]
fn a_callback_on_the_progress_thread_may_make_progress() {
    let turn = Barrier::new(2);
    run_ranks(2, |comm| -> Result<(), Failure> {
        let ((inside, entered), (go, gone), (leave, left)) =
            (mpsc::channel(), mpsc::channel(), mpsc::channel());
        let (inner, mut is_first) = (comm.clone(), comm.rank() == 0);
        let options = BindOptions::default().path(DataPath::Messages).on_complete(move |_| {
            if std::mem::take(&mut is_first) {
                inside.send(()).unwrap();
                gone.recv().unwrap();
                // The next exchange can be completed by now.
                inner.progress();
                leave.send(()).unwrap();
            }
        });
        let pattern = line(&comm)?;
        let mut exchange = pattern.bind_with(Numbers::new(&device()?, &pattern)?, options)?;
        if comm.rank() == 1 {
            for _ in 0..2 {
                // Rank 0 has started.
                turn.wait();
                exchange.run()?;
            }
            turn.wait();
            return Ok(());
        }
        comm.set_progress(Progress::Thread)?;
        let soon = Duration::from_secs(20);
        let first = exchange.start()?;
        turn.wait();
        entered.recv_timeout(soon).expect("the callback runs on the progress thread");
        first.finish()?;
        let second = exchange.start()?;
        turn.wait();
        turn.wait();
        go.send(()).unwrap();
        left.recv_timeout(soon).expect("the callback does not wait for its own end");
        second.finish()?;
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_callback_hears_of_a_failure() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let heard = Arc::new(AtomicUsize::new(0));
        let hearing = Arc::clone(&heard);
        let options = BindOptions::default().on_complete(move |outcome| {
            hearing.fetch_add(if outcome.is_err() { 1 } else { 100 }, Ordering::SeqCst);
        });
        let pattern = line(&comm)?;
        let mut exchange = pattern.bind_with(Numbers::new(&device()?, &pattern)?, options)?;
        comm.set_time_limit(Some(Duration::from_millis(100)));
        if comm.rank() == 0 {
            assert!(exchange.run().is_err());
            assert_eq!(heard.load(Ordering::SeqCst), 1);
        }
        comm.set_time_limit(Some(Duration::from_secs(20)));
        comm.barrier()?;
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_callback_that_panics_is_an_error_of_its_exchange_alone() {
    everywhere(|comm, path| {
        let pattern = line(comm)?;
        let panics = comm.rank() == 0;
        let options =
            BindOptions::default().prefer(path).on_complete(move |_| assert!(!panics, "out of {}", "fish"));
        let mut broken = pattern.bind_with(Numbers::new(&device()?, &pattern)?, options)?;
        let mut whole = bound(comm, path)?;
        // The exchange goes on, whichever call makes the last progress.
        let (one, other) = (broken.start()?, whole.start()?);
        other.finish()?;
        let ended = one.finish();
        if panics {
            assert_eq!(ended, Err(ExchangeError::CallbackPanicked("out of fish".into())));
            let next = broken.run().unwrap_err().to_string();
            assert!(next.contains("poisoned") && next.contains("panicked: out of fish"), "{next}");
        } else {
            ended?;
        }
        prepare(whole.fields_mut(), 1)?;
        whole.run()?;
        verify(whole.fields(), 1, comm.size())
    });
}

#[test]
fn a_collective_in_a_callback_is_an_error_and_not_a_deadlock() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let (inner, refused) = (comm.clone(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&refused);
        let options = BindOptions::default().on_complete(move |_| {
            if inner.rank() == 0 && inner.barrier() == Err(TransportError::Busy) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let pattern = line(&comm)?;
        let mut exchange = pattern.bind_with(Numbers::new(&device()?, &pattern)?, options)?;
        if comm.rank() == 0 {
            // Rank 1 starts later, so this exchange completes while rank 0 waits at the barrier.
            let pending = exchange.start()?;
            comm.barrier()?;
            pending.finish()?;
            assert_eq!(refused.load(Ordering::SeqCst), 1);
        } else {
            std::thread::sleep(Duration::from_millis(50));
            let pending = exchange.start()?;
            std::thread::sleep(Duration::from_millis(50));
            comm.barrier()?;
            pending.finish()?;
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_rank_at_a_barrier_or_in_a_bind_serves_its_pending_exchange() {
    everywhere(|comm, path| {
        let mut exchange = bound(comm, path)?;
        prepare(exchange.fields_mut(), 1)?;
        let pending = exchange.start()?;
        if comm.rank() == 0 {
            // The others finish first, for which rank 0 must do its part.
            comm.barrier()?;
            bound(comm, path)?;
            pending.finish()?;
        } else {
            pending.finish()?;
            comm.barrier()?;
            bound(comm, path)?;
        }
        verify(exchange.fields(), 1, comm.size())
    });
}
