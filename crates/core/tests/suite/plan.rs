//! Plans: exchanges of fields that are passed at each start.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::*;
use haloport_core::device::Pointer;
use haloport_core::*;
use haloport_cpu::CpuDevice;

/// Runs `body` on several numbers of ranks.
fn everywhere(body: impl Fn(&Communicator) -> Result<(), Failure> + Sync) {
    for ranks in [1, 2, 3, 5] {
        run_ranks(ranks, |comm| body(&comm)).unwrap_or_else(|error| panic!("{ranks} ranks: {error}"));
    }
}

fn numbers(pattern: &Pattern) -> Result<Numbers, Failure> {
    Ok(Numbers::new(&device()?, pattern)?)
}

fn lend<'m>(
    values: &'m mut [f64],
    layout: &BlockLayout,
) -> Result<BorrowedField<'m, f64, CpuDevice>, Failure> {
    Ok(BorrowedField::new(&device()?, [(values, layout.clone())])?)
}

fn text(result: Result<(), ExchangeError>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn one_field_takes_part_in_several_exchanges() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let (mut u, mut v, mut t) = (numbers(&pattern)?, numbers(&pattern)?, numbers(&pattern)?);
        let mut dynamics = pattern.plan((&mut u, &mut v))?;
        let mut physics = pattern.plan((&mut u, &mut t))?;
        for round in 0..10 {
            [&mut u, &mut v, &mut t].into_iter().try_for_each(|field| prepare(field, round))?;
            dynamics.start((&mut u, &mut v))?.finish()?;
            verify(&u, round, comm.size())?;
            verify(&v, round, comm.size())?;
            prepare(&mut u, round + 100)?;
            physics.run((&mut u, &mut t))?;
            verify(&u, round + 100, comm.size())?;
            verify(&t, round, comm.size())?;
        }
        Ok(())
    });
}

#[test]
fn fields_change_places_between_steps_on_some_ranks_only() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let (mut now, mut next) = (numbers(&pattern)?, numbers(&pattern)?);
        let mut plan = pattern.plan(&mut now)?;
        for round in 0..20 {
            prepare(&mut now, round)?;
            prepare(&mut next, round + 1000)?;
            plan.run(&mut now)?;
            verify(&now, round, comm.size())?;
            assert_eq!(next.view(0)?.get(&[4 * comm.rank() as i64 - 1]), Some(-1.0));
            if (round + comm.rank()) % 2 == 0 {
                std::mem::swap(&mut now, &mut next);
            }
        }
        Ok(())
    });
}

#[test]
fn a_field_may_be_gone_before_the_next_start() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let mut plan = pattern.plan(&mut numbers(&pattern)?)?;
        for round in 0..10 {
            let mut field = numbers(&pattern)?;
            prepare(&mut field, round)?;
            plan.run(&mut field)?;
            verify(&field, round, comm.size())?;
        }
        Ok(())
    });
}

#[test]
fn the_owner_of_lent_memory_uses_it_between_exchanges() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let layout = numbers(&pattern)?.layout(0)?.clone();
        let (mut values, mut others) = (vec![0.0; 6], [0.0; 6]);
        let mut plan = pattern.plan(lend(&mut values, &layout)?)?;
        let (below, above) = (comm.rank() + comm.size() - 1, comm.rank() + 1);
        for round in 0..10 {
            let lent = if round % 3 == 0 { &mut others } else { &mut values[..] };
            lent.fill((10 * round + comm.rank()) as f64);
            plan.run(lend(lent, &layout)?)?;
            assert_eq!(lent[0], (10 * round + below % comm.size()) as f64);
            assert_eq!(lent[5], (10 * round + above % comm.size()) as f64);
        }
        Ok(())
    });
}

#[test]
fn other_fields_than_those_of_the_plan_are_refused_and_change_nothing() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let (mut u, mut v) = (numbers(&pattern)?, numbers(&pattern)?);
        let mut plan = pattern.plan((&mut u, &mut v))?;
        let mut single = Field::<f32, _>::new(&device()?, &pattern)?;
        let mut wider = Numbers::builder(&pattern).wider_margin(1).build(&device()?)?;
        let error = text(plan.run((&mut u, &mut single)));
        let expected = "field 1 has the element type f32, but the plan was made for f64; pass a field like that, or make \
                        another plan";
        assert_eq!(error, expected);
        let error = text(plan.run((&mut wider, &mut v)));
        let expected = "field 0 has the layout -2..";
        assert!(error.starts_with(expected) || comm.rank() > 0, "{error}");
        let error = text(plan.run(&mut u));
        let expected = "the plan was made for 2 fields, found 1; pass the same number in the same order";
        assert_eq!(error, expected);
        let error = text(plan.run((&mut u, &mut v, &mut wider)));
        let expected = "the plan was made for 2 fields, found 3; pass the same number in the same order";
        assert_eq!(error, expected);
        prepare(&mut u, 1)?;
        prepare(&mut v, 2)?;
        plan.run((&mut u, &mut v))?;
        verify(&u, 1, comm.size())?;
        verify(&v, 2, comm.size())
    });
}

#[test]
fn a_forgotten_pending_exchange_leaves_its_fields_in_flight_until_it_is_completed() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let (mut field, mut other) = (numbers(&pattern)?, numbers(&pattern)?);
        let mut plan = pattern.plan(&mut field)?;
        let mut second = pattern.plan(&mut field)?;
        prepare(&mut field, 1)?;
        std::mem::forget(plan.start(&mut field)?);
        assert_eq!(field.view(0).err(), Some(FieldError::InFlight));
        assert_eq!(field.view_mut(0).err(), Some(FieldError::InFlight));
        assert_eq!(second.run(&mut field), Err(ExchangeError::InFlightElsewhere));
        plan.complete()?;
        verify(&field, 1, comm.size())?;

        // The next start completes a forgotten exchange, and so does dropping the plan.
        prepare(&mut field, 2)?;
        prepare(&mut other, 3)?;
        std::mem::forget(plan.start(&mut field)?);
        plan.run(&mut other)?;
        verify(&field, 2, comm.size())?;
        verify(&other, 3, comm.size())?;
        second.run(&mut field)?;
        Ok(())
    });
}

#[test]
fn forgetting_a_pending_exchange_of_lent_memory_leaves_that_alone_and_poisons_the_plan() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let layout = numbers(&pattern)?.layout(0)?.clone();
        let mut values = vec![comm.rank() as f64; 6];
        let mut plan = pattern.plan(lend(&mut values, &layout)?)?;
        std::mem::forget(plan.start(lend(&mut values, &layout)?)?);
        let before = values.clone();
        comm.barrier()?;
        comm.barrier()?;
        // A rank that exchanges only with itself has its halo already.
        if comm.size() > 1 {
            assert_eq!(values, before);
        }
        let error = text(plan.run(lend(&mut values, &layout)?));
        assert!(
            error.starts_with("the exchange is poisoned: a pending exchange of borrowed memory"),
            "{error}"
        );
        Ok(())
    });
}

#[test]
fn dropping_a_pending_exchange_completes_it() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let mut field = numbers(&pattern)?;
        let mut plan = pattern.plan(&mut field)?;
        prepare(&mut field, 1)?;
        drop(plan.start(&mut field)?);
        verify(&field, 1, comm.size())
    });
}

#[test]
fn fields_are_read_and_written_while_they_travel() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let (mut u, mut v) = (numbers(&pattern)?, numbers(&pattern)?);
        let first = 4 * comm.rank() as i64;
        let mut plan = pattern.plan((&mut u, &mut v))?;
        prepare(&mut u, 1)?;
        let mut pending = plan.start((&mut u, &mut v))?;
        let second = pending.owned(|(u, _)| u, 0)?.get(&[first + 1]);
        pending.interior_mut(|(_, v)| v, 0)?.row_mut(&[first + 1]).ok_or("no row")?.fill(5.0);
        pending.finish()?;
        assert_eq!(second, Some((1001 + first) as f64));
        assert_eq!(v.view(0)?.get(&[first + 2]), Some(5.0));
        Ok(())
    });
}

#[test]
fn a_step_of_a_plan_computes_while_its_fields_travel() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let (mut now, mut next) = (numbers(&pattern)?, numbers(&pattern)?);
        let mut plan = pattern.plan(&mut now)?;
        let regions = pattern.regions(0).ok_or("no domain")?;
        let sum = |cells: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>| {
            for i in cells.lower()[0]..cells.upper()[0] {
                next[[i]] = now[[i - 1]] + now[[i + 1]];
            }
        };
        let extent = 4 * comm.size() as i64;
        for round in 0..4 {
            prepare(&mut now, round)?;
            plan.overlap(
                &mut now,
                &mut next.view_mut(0)?,
                |pending, next| {
                    let now = pending.owned(|field| field, 0)?;
                    regions.interior.iter().for_each(|cells| sum(cells, &now, next));
                    Ok(())
                },
                |field, next| {
                    let now = field.view(0)?;
                    regions.boundary.iter().for_each(|cells| sum(cells, &now, next));
                    Ok(())
                },
            )?;
            let view = next.view(0)?;
            for i in 4 * comm.rank() as i64..4 * comm.rank() as i64 + 4 {
                let beside = (i - 1).rem_euclid(extent) + (i + 1).rem_euclid(extent);
                assert_eq!(view[[i]], (2000 * round) as f64 + beside as f64);
            }
            std::mem::swap(&mut now, &mut next);
        }
        Ok(())
    });
}

#[test]
fn memory_of_dropped_fields_is_released() {
    struct Owner(Arc<AtomicUsize>);
    impl Drop for Owner {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    everywhere(|comm| {
        let pattern = line(comm)?;
        let options = BindOptions::default().in_flight(2);
        let layout = numbers(&pattern)?.layout(0)?.clone();
        let mut plan = pattern.plan_with(&mut numbers(&pattern)?, options)?;
        let released = Arc::new(AtomicUsize::new(0));
        for round in 0..10 {
            let mut values = vec![0.0f64; 6];
            let block = vec![(Pointer::new(values.as_mut_ptr().cast()), layout.clone())];
            let owner = Box::new((Owner(Arc::clone(&released)), values));
            // SAFETY: the owner keeps the values, which only the field uses.
            let mut field = unsafe { Numbers::from_raw(&device()?, block, true, owner) };
            // In both slots of the plan.
            for _ in 0..2 {
                prepare(&mut field, round)?;
                plan.run(&mut field)?;
                verify(&field, round, comm.size())?;
            }
        }
        // The plan may keep the memory of the last starts.
        assert!(
            released.load(Ordering::SeqCst) >= 8,
            "{} of 10 were released",
            released.load(Ordering::SeqCst)
        );
        drop(plan);
        assert_eq!(released.load(Ordering::SeqCst), 10);
        Ok(())
    });
}
