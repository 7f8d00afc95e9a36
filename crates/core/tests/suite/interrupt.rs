//! Waits that the program ends itself.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::*;
use haloport_core::line::Payloads;
use haloport_core::*;

/// The time between two calls of the function.
const EVERY: Duration = Duration::from_millis(20);
/// No wait ends by it.
const LIMIT: Duration = Duration::from_secs(60);
/// Waits that are interrupted end sooner.
const SOON: Duration = Duration::from_secs(10);

/// Rank 0 of two calls `wait` with a communicator whose waits are interrupted; rank 1 only calls `prepare`.
fn interrupted<T: Send>(
    prepare: impl Fn(&Communicator) -> Result<T, Failure> + Sync,
    wait: impl Fn(&Communicator, T) -> Result<(), Failure> + Sync,
) {
    let over = Over::default();
    run_ranks(2, |comm| {
        comm.set_time_limit(Some(LIMIT));
        let prepared = prepare(&comm)?;
        if comm.rank() == 1 {
            over.wait();
            return Ok(());
        }
        comm.set_interrupt(Some(Arc::new(|| true)));
        let began = Instant::now();
        over.after(|| wait(&comm, prepared))?;
        let elapsed = began.elapsed();
        assert!((EVERY..SOON).contains(&elapsed), "it took {elapsed:?}");
        Ok(())
    })
    .unwrap();
}

/// The text of an error.
fn text<T: std::fmt::Debug, E: std::error::Error>(result: Result<T, E>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_collective_call_is_interrupted() {
    interrupted(
        |_| Ok(()),
        |comm, ()| {
            let error = comm.barrier().unwrap_err();
            let what = "rank 1 to come to a barrier".to_string();
            assert_eq!(error, TransportError::Interrupted { what });
            assert_eq!(error.to_string(), "waiting for rank 1 to come to a barrier was interrupted");
            comm.set_interrupt(None);
            assert!(matches!(comm.barrier(), Err(TransportError::Broken(_))));
            Ok(())
        },
    );
}

#[test]
fn the_binding_of_fields_is_interrupted() {
    interrupted(line, |_, pattern| {
        let field = Numbers::new(&device()?, &pattern)?;
        let error = pattern.bind(field).unwrap_err();
        assert!(matches!(error, BindError::Transport(TransportError::Interrupted { .. })), "{error}");
        Ok(())
    });
}

#[test]
fn the_end_of_an_exchange_is_interrupted_and_poisons_it() {
    for path in [DataPath::Direct, DataPath::Messages] {
        let prepare = |comm: &Communicator| bound(comm, path);
        interrupted(prepare, |_, mut exchange| {
            let error = text(exchange.run());
            assert!(error.starts_with("waiting for the ") && error.contains("rank 1"), "{error}");
            assert!(error.ends_with(" was interrupted"), "{error}");
            let again = text(exchange.run());
            assert!(again.contains("poisoned") && again.contains("was interrupted"), "{again}");
            Ok(())
        });
        interrupted(prepare, |_, mut exchange| {
            let ticket = exchange.start_detached(Schedule::DefaultStream)?;
            let error = exchange.finish(ticket, Schedule::DefaultStream).unwrap_err();
            assert!(matches!(error, ExchangeError::Transport(TransportError::Interrupted { .. })), "{error}");
            Ok(())
        });
        interrupted(prepare, |_, mut exchange| {
            drop(exchange.start()?);
            let again = text(exchange.run());
            assert!(again.contains("was interrupted"), "{again}");
            Ok(())
        });
        interrupted(prepare, |_, mut exchange| {
            exchange.start_detached(Schedule::DefaultStream)?;
            drop(exchange);
            Ok(())
        });
    }
}

#[test]
fn the_end_of_a_plan_is_interrupted() {
    let prepare = |comm: &Communicator| {
        let pattern = line(comm)?;
        let mut field = Numbers::new(&device()?, &pattern)?;
        Ok((pattern.plan(&mut field)?, field))
    };
    interrupted(prepare, |_, (mut plan, field)| {
        // SAFETY: the field is used for nothing else, and lives as long as the plan.
        let ticket = unsafe { plan.start_at(&[field.pointer(0)?], Schedule::DefaultStream)? };
        let error = plan.finish(ticket, Schedule::DefaultStream).unwrap_err();
        assert!(matches!(error, ExchangeError::Transport(TransportError::Interrupted { .. })), "{error}");
        drop(plan);
        Ok(())
    });
}

#[test]
fn rounds_of_sparse_exchanges_and_of_lines_are_interrupted() {
    interrupted(
        |comm| Ok(SparseExchange::new(comm)?),
        |_, mut exchange| {
            let error = exchange.begin()?.wait().unwrap_err();
            assert!(matches!(error, SparseError::Transport(TransportError::Interrupted { .. })), "{error}");
            assert!(matches!(exchange.begin(), Err(SparseError::Poisoned(_))));
            Ok(())
        },
    );
    interrupted(
        |comm| Ok(SparseExchange::between(comm, &[1 - comm.rank()], &[1 - comm.rank()])?),
        |_, mut exchange| {
            drop(exchange.begin()?);
            let error = text(exchange.begin());
            assert!(error.contains("was interrupted") && error.contains("rank 1"), "{error}");
            Ok(())
        },
    );
    interrupted(
        |comm| Ok(LineExchange::new(&Line::even(comm, 4)?)?),
        |_, mut exchange| {
            let error = text(exchange.pass(Payloads::default()));
            assert!(error.contains("was interrupted") && error.contains("rank 1"), "{error}");
            Ok(())
        },
    );
}

#[test]
fn the_function_is_called_seldom_by_the_thread_that_waits() {
    run_ranks(2, |comm| {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&calls);
        let began = Instant::now();
        comm.set_interrupt(Some(Arc::new(move || {
            noted.lock().unwrap().push((began.elapsed(), thread::current().id()));
            false
        })));
        if comm.rank() == 1 {
            thread::sleep(20 * EVERY);
        }
        comm.barrier()?;
        let most = began.elapsed().div_duration_f64(EVERY) as usize;
        let calls = calls.lock().unwrap();
        if comm.rank() == 0 {
            assert!((4..=most).contains(&calls.len()), "{} calls, at most {most} expected", calls.len());
            assert!(calls[0].0 >= EVERY, "{calls:?}");
            assert!(calls.iter().all(|(_, thread)| *thread == thread::current().id()), "{calls:?}");
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_function_may_wait_for_another_thread() {
    run_ranks(2, |comm| {
        let mut halo = bound(&comm, DataPath::Messages)?;
        let mut sparse = SparseExchange::new(&comm)?;
        let calls = Arc::new(AtomicUsize::new(0));
        let (other, counted) = (comm.clone(), Arc::clone(&calls));
        let check: InterruptCheck = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let other = other.clone();
            thread::spawn(move || other.progress()).join().is_err()
        });
        let late = || {
            if comm.rank() == 0 {
                comm.set_interrupt(Some(Arc::clone(&check)));
            } else {
                thread::sleep(5 * EVERY);
            }
        };
        late();
        halo.run()?;
        late();
        sparse.begin()?.wait()?;
        late();
        comm.barrier()?;
        assert!(comm.rank() == 1 || calls.load(Ordering::Relaxed) >= 3, "{calls:?}");
        comm.set_interrupt(None); // the function holds a handle to the communicator
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_function_may_remove_itself_but_make_no_collective_call() {
    let [called, refused] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    run_ranks(2, |comm| {
        if comm.rank() == 1 {
            while !called.load(Ordering::Acquire) {
                thread::sleep(EVERY);
            }
            comm.barrier()?;
            return Ok(());
        }
        let (inner, noted, told) = (comm.clone(), Arc::clone(&refused), Arc::clone(&called));
        comm.set_interrupt(Some(Arc::new(move || {
            noted.store(inner.barrier() == Err(TransportError::Busy), Ordering::Relaxed);
            inner.set_interrupt(None);
            told.store(true, Ordering::Release);
            false
        })));
        comm.barrier()?;
        assert!(refused.load(Ordering::Relaxed));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_function_that_panics_interrupts() {
    interrupted(
        |_| Ok(()),
        |comm, ()| {
            comm.set_interrupt(Some(Arc::new(|| panic!("as the test wants it"))));
            assert!(matches!(comm.barrier(), Err(TransportError::Interrupted { .. })));
            Ok(())
        },
    );
}
