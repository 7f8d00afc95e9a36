//! Steps that are recorded and replayed on a device that captures nothing: the order of the calls, and failures.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::common::*;
use haloport_core::*;

const DEFAULT: Schedule<'static> = Schedule::DefaultStream;

#[test]
fn a_replay_runs_the_interior_before_the_halo_is_there_and_the_boundary_after() {
    for ranks in [1, 2, 3] {
        run_ranks(ranks, |comm| -> Result<(), Failure> {
            let mut exchange = bound(&comm, DataPath::Quickest)?;
            prepare(exchange.fields_mut(), 0)?;
            let first = 4 * comm.rank() as i64;
            let (order, round) = (RefCell::new(Vec::new()), Cell::new(0));
            // SAFETY: nothing is put into streams.
            let mut step = unsafe {
                exchange.record(
                    DEFAULT,
                    (),
                    |pending, ()| {
                        order.borrow_mut().push("interior");
                        assert_eq!(pending.owned(|field| field, 0)?.get(&[first - 1]), None);
                        Ok(())
                    },
                    |field, ()| {
                        order.borrow_mut().push("boundary");
                        verify(field, round.get(), comm.size())?;
                        round.set(round.get() + 1);
                        prepare(field, round.get())
                    },
                )?
            };
            assert!(order.borrow().is_empty(), "something was done when it was recorded");
            assert!(!step.is_captured() && step.fallback_reason().is_some(), "{step:?}");
            for number in 1..=10 {
                step.replay()?;
                assert_eq!(order.take(), ["interior", "boundary"]);
                assert_eq!(
                    step.fields().view(0)?.get(&[first]),
                    Some((1000 * number + first as usize) as f64)
                );
            }
            // The host may write in between.
            round.set(77);
            prepare(step.fields_mut(), 77)?;
            step.replay()?;
            step.synchronize()?;
            drop(step);
            // The exchange can be used as before.
            exchange.run()?;
            verify(exchange.fields(), 78, comm.size())
        })
        .unwrap();
    }
}

#[test]
fn work_that_fails_fails_its_replay_after_the_neighbours_have_their_halos() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let mut exchange = bound(&comm, DataPath::Quickest)?;
        prepare(exchange.fields_mut(), 1)?;
        let fails = Cell::new(comm.rank() == 1);
        let heat = |_: &mut Pending<'_, Numbers>, _: &mut &mut i32| {
            if fails.get() { Err("no heat".into()) } else { Ok(()) }
        };
        let mut bounds = 0;
        let boundary = |field: &mut Numbers, bounds: &mut &mut i32| {
            **bounds += 1;
            verify(field, 1, comm.size())
        };
        // SAFETY: nothing is put into streams.
        let mut step = unsafe { exchange.record(DEFAULT, &mut bounds, heat, boundary)? };
        match step.replay() {
            Err(error) => assert_eq!((comm.rank(), error.to_string().as_str()), (1, "no heat")),
            Ok(()) => assert_ne!(comm.rank(), 1),
        }
        verify(step.fields(), 1, comm.size())?;
        fails.set(false);
        step.replay()?;
        drop(step);
        assert_eq!(bounds, if comm.rank() == 1 { 1 } else { 2 });
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_step_of_other_fields_is_refused_until_they_are_put_back() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let mut exchange = bound(&comm, DataPath::Quickest)?;
        prepare(exchange.fields_mut(), 1)?;
        let mut other = Numbers::new(&device()?, &line(&comm)?)?;
        // SAFETY: nothing is put into streams.
        let mut step = unsafe { exchange.record(DEFAULT, (), |_, ()| Ok(()), |_, ()| Ok(()))? };
        std::mem::swap(step.fields_mut(), &mut other);
        assert!(matches!(step.replay(), Err(StepError::Exchange(ExchangeError::FieldsReplaced))));
        std::mem::swap(step.fields_mut(), &mut other);
        step.replay()?;
        verify(step.fields(), 1, comm.size())
    })
    .unwrap();
}

#[test]
fn a_forgotten_step_leaves_the_exchange_as_it_is() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let mut exchange = bound(&comm, DataPath::Quickest)?;
        prepare(exchange.fields_mut(), 1)?;
        // SAFETY: nothing is put into streams.
        let mut step = unsafe { exchange.record(DEFAULT, (), |_, ()| Ok(()), |_, ()| Ok(()))? };
        step.replay()?;
        std::mem::forget(step);
        verify(exchange.fields(), 1, comm.size())?;
        prepare(exchange.fields_mut(), 2)?;
        exchange.run()?;
        verify(exchange.fields(), 2, comm.size())
    })
    .unwrap();
}

#[test]
fn a_halo_that_does_not_come_is_an_error_and_poisons_the_step() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let mut exchange = bound(&comm, DataPath::Messages)?;
        // SAFETY: nothing is put into streams.
        let mut step = unsafe {
            exchange.record(
                DEFAULT,
                (),
                |_, ()| Ok(()),
                |_, ()| panic!("the boundary runs without a halo"),
            )?
        };
        if comm.rank() == 0 {
            comm.set_time_limit(Some(Duration::from_millis(100)));
            let error = step.replay().unwrap_err().to_string();
            assert!(error.contains("rank 1") && error.contains("100ms"), "{error}");
            assert!(matches!(step.replay(), Err(StepError::Exchange(ExchangeError::Poisoned(_)))));
        }
        drop(step);
        comm.set_time_limit(Some(Duration::from_secs(30)));
        comm.barrier()?;
        Ok(())
    })
    .unwrap();
}
