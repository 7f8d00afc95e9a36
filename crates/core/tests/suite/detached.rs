//! Exchanges that are started and finished without a borrow, and plans to which addresses are passed.

use crate::common::one_thread::OneThread;
use crate::common::*;
use haloport_core::device::Pointer;
use haloport_core::*;
use haloport_cpu::CpuDevice;

const DEFAULT: Schedule<'static> = Schedule::DefaultStream;

fn everywhere(body: impl Fn(&Communicator) -> Result<(), Failure> + Sync) {
    for ranks in [1, 2, 3] {
        run_ranks(ranks, |comm| body(&comm)).unwrap_or_else(|error| panic!("{ranks} ranks: {error}"));
    }
}

/// A plan for one field on [`line`], of which `most` exchanges can be in flight.
fn line_plan(comm: &Communicator, most: usize) -> Result<Exchange<Passed>, Failure> {
    let pattern = line(comm)?;
    let layouts = Numbers::builder(&pattern).layouts()?;
    let field = FieldLayout::new(&device()?, ElementType::F64, layouts);
    Ok(pattern.plan_layouts(&[field], BindOptions::default().in_flight(most))?)
}

fn address(values: &mut [f64]) -> [Pointer; 1] {
    [Pointer::new(values.as_mut_ptr().cast())]
}

/// What the halo cells of this rank's 6 values must hold if each rank's owned cells hold `value(rank)`.
fn halo(comm: &Communicator, value: impl Fn(usize) -> f64) -> [f64; 2] {
    let (rank, ranks) = (comm.rank(), comm.size());
    [value((rank + ranks - 1) % ranks), value((rank + 1) % ranks)]
}

#[test]
fn an_exchange_is_started_and_finished_without_a_borrow() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let mut exchange = pattern.bind(Numbers::new(&device()?, &pattern)?)?;
        for round in 0..10 {
            prepare(exchange.fields_mut(), round)?;
            let ticket = exchange.start_detached(DEFAULT)?;
            assert_eq!(exchange.fields().view(0).unwrap_err(), FieldError::InFlight);
            while !exchange.is_ready(ticket) {
                std::thread::yield_now();
            }
            exchange.finish(ticket, DEFAULT)?;
            verify(exchange.fields(), round, comm.size())?;
        }
        Ok(())
    });
}

/// Whichever way the cells take: a thread that works on one node alone would be a surprise on the next machine.
#[test]
fn a_thread_that_may_not_call_the_transport_is_refused_and_changes_nothing() {
    let wrong = |done: Result<(), ExchangeError>| {
        assert!(
            matches!(done, Err(ExchangeError::Transport(TransportError::WrongThread { .. }))),
            "{done:?}"
        );
    };
    for path in [DataPath::Quickest, DataPath::Messages] {
        everywhere(|comm| {
            let comm = &OneThread::around(comm);
            let mut exchange = bound(comm, path)?;
            prepare(exchange.fields_mut(), 1)?;
            std::thread::scope(|scope| scope.spawn(|| wrong(exchange.run())).join()).unwrap();
            let ticket = exchange.start_detached(DEFAULT)?;
            std::thread::scope(|scope| {
                let elsewhere = scope.spawn(|| {
                    exchange.is_ready(ticket);
                    wrong(exchange.finish(ticket, DEFAULT));
                });
                elsewhere.join()
            })
            .unwrap();
            exchange.finish(ticket, DEFAULT)?;
            verify(exchange.fields(), 1, comm.size())
        });
    }
}

#[test]
fn a_round_that_is_polled_on_a_wrong_thread_fails_no_other_exchange() {
    everywhere(|comm| {
        let comm = &OneThread::around(comm);
        let mut exchange = bound(comm, DataPath::Messages)?;
        let mut round = SparseExchange::new(comm)?;
        prepare(exchange.fields_mut(), 1)?;
        let ticket = exchange.start_detached(DEFAULT)?;
        round.begin_with([(comm.rank(), vec![5])])?;
        std::thread::scope(|scope| scope.spawn(|| round.is_ready()).join()).unwrap();
        exchange.finish(ticket, DEFAULT)?;
        assert_eq!(round.end()?, [(comm.rank(), vec![5])]);
        verify(exchange.fields(), 1, comm.size())
    });
}

#[test]
fn an_exchange_is_started_once_and_finished_once() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let mut exchange = pattern.bind(Numbers::new(&device()?, &pattern)?)?;
        prepare(exchange.fields_mut(), 1)?;
        let ticket = exchange.start_detached(DEFAULT)?;
        assert_eq!(exchange.start_detached(DEFAULT).unwrap_err(), ExchangeError::AllInFlight { most: 1 });
        assert_eq!(exchange.run().unwrap_err(), ExchangeError::AllInFlight { most: 1 });
        // Fields that were put elsewhere meanwhile are not touched.
        let field = std::mem::replace(exchange.fields_mut(), Numbers::new(&device()?, &pattern)?);
        assert_eq!(exchange.finish(ticket, DEFAULT).unwrap_err(), ExchangeError::FieldsReplaced);
        *exchange.fields_mut() = field;
        exchange.finish(ticket, DEFAULT)?;
        assert_eq!(exchange.finish(ticket, DEFAULT).unwrap_err(), ExchangeError::NotInFlight);
        verify(exchange.fields(), 1, comm.size())?;
        // `complete` ends it, too.
        prepare(exchange.fields_mut(), 2)?;
        let ticket = exchange.start_detached(DEFAULT)?;
        exchange.complete()?;
        verify(exchange.fields(), 2, comm.size())?;
        assert_eq!(exchange.finish(ticket, DEFAULT).unwrap_err(), ExchangeError::NotInFlight);
        // One that was started and dropped leaves no neighbour waiting.
        exchange.start_detached(DEFAULT)?;
        Ok(())
    });
}

#[test]
fn addresses_differ_at_each_start_on_some_ranks_only() {
    everywhere(|comm| {
        let mut plan = line_plan(comm, 1)?;
        let mut arrays = [[0.0; 6], [0.0; 6], [0.0; 6]];
        for round in 0..30 {
            let values = &mut arrays[if comm.rank() == 0 { 0 } else { round % 3 }];
            values.fill((10 * round + comm.rank()) as f64);
            // SAFETY: the values have the layout of the plan and are used again after the exchange.
            unsafe { plan.run_at(&address(values), DEFAULT)? };
            assert_eq!([values[0], values[5]], halo(comm, |rank| (10 * round + rank) as f64));
        }
        Ok(())
    });
}

#[test]
fn several_exchanges_of_a_plan_are_in_flight() {
    everywhere(|comm| {
        let mut plan = line_plan(comm, 3)?;
        let mut arrays = [[0.0; 6]; 3];
        for round in 0..20 {
            let value = |rank: usize, which: usize| (100 * round + 10 * which + rank) as f64;
            let mut tickets = Vec::new();
            for (which, values) in arrays.iter_mut().enumerate() {
                values.fill(value(comm.rank(), which));
                // SAFETY: the values have the layout of the plan and are used again after `finish`.
                tickets.push(unsafe { plan.start_at(&address(values), DEFAULT)? });
            }
            let mut other = [0.0; 6];
            // SAFETY: this is refused.
            let refused = unsafe { plan.start_at(&address(&mut other), DEFAULT) };
            assert_eq!(refused.unwrap_err(), ExchangeError::AllInFlight { most: 3 });
            // Each rank finishes them in an order of its own.
            tickets.rotate_left((comm.rank() + round) % 3);
            for ticket in tickets {
                plan.finish(ticket, DEFAULT)?;
                assert!(plan.is_ready(ticket));
                assert_eq!(plan.finish(ticket, DEFAULT).unwrap_err(), ExchangeError::NotInFlight);
            }
            for (which, values) in arrays.iter().enumerate() {
                assert_eq!([values[0], values[5]], halo(comm, |rank| value(rank, which)));
            }
        }
        Ok(())
    });
}

#[test]
fn a_plan_finishes_its_own_exchanges_alone() {
    everywhere(|comm| {
        let [mut one, mut other] = [line_plan(comm, 1)?, line_plan(comm, 1)?];
        let mut arrays = [[comm.rank() as f64; 6]; 2];
        let [mine, others] = &mut arrays;
        // SAFETY: the values have the layout of the plans and are used again after `finish`.
        let (ticket, of_other) =
            unsafe { (one.start_at(&address(mine), DEFAULT)?, other.start_at(&address(others), DEFAULT)?) };
        assert_ne!(ticket, of_other);
        assert_eq!(one.finish(of_other, DEFAULT).unwrap_err(), ExchangeError::NotInFlight);
        assert!(one.is_ready(of_other));
        other.finish(of_other, DEFAULT)?;
        one.finish(ticket, DEFAULT)?;
        for values in arrays {
            assert_eq!([values[0], values[5]], halo(comm, |rank| rank as f64));
        }
        Ok(())
    });
}

#[test]
fn a_plan_that_is_dropped_in_flight_leaves_nobody_waiting() {
    everywhere(|comm| {
        let mut plan = line_plan(comm, 2)?;
        let mut arrays = [[comm.rank() as f64; 6]; 2];
        let [first, second] = &mut arrays;
        // SAFETY: the values have the layout of the plan, and outlive it.
        let tickets =
            unsafe { [plan.start_at(&address(first), DEFAULT)?, plan.start_at(&address(second), DEFAULT)?] };
        if comm.rank() == 0 {
            // Neither is finished.
            drop(plan);
        } else {
            tickets.into_iter().try_for_each(|ticket| plan.finish(ticket, DEFAULT))?;
            assert_eq!([second[0], second[5]], halo(comm, |rank| rank as f64));
        }
        comm.barrier()?;
        Ok(())
    });
}

#[test]
fn wrong_addresses_are_refused_and_change_nothing() {
    everywhere(|comm| {
        let mut plan = line_plan(comm, 1)?;
        let mut values = [comm.rank() as f64; 7];
        let first = Pointer::new(values.as_mut_ptr().cast());
        let null = Pointer::new(std::ptr::null_mut());
        // SAFETY: all three are refused.
        let mut refused =
            |addresses: &[Pointer]| unsafe { plan.run_at(addresses, DEFAULT).unwrap_err().to_string() };
        let expected =
            "the plan was made for 1 blocks, found 2 addresses; pass one for each domain of each field";
        assert_eq!(refused(&[first, first]), expected);
        let expected = "field 0, domain 0: expected an address that is a multiple of 8 and not 0, found ";
        assert!(refused(&[null]).starts_with(&format!("{expected}0x0;")), "{}", refused(&[null]));
        assert!(refused(&[first.offset(4)]).starts_with(expected));
        // SAFETY: the values have the layout of the plan.
        unsafe { plan.run_at(&[first], DEFAULT)? };
        assert_eq!([values[0], values[5]], halo(comm, |rank| rank as f64));
        Ok(())
    });
}

#[test]
fn ranks_that_disagree_about_exchanges_in_flight_are_refused() {
    let text = refused(3, |comm| {
        line_plan(comm, 1 + comm.rank() / 2)?;
        Ok(())
    });
    assert!(text.contains("`in_flight` is 2 here and 1 on rank 0"), "{text}");
    for (most, expected) in [(0, "is 0, expected 1 to 64"), (65, "is 65, expected 1 to 64")] {
        let text = refused(2, |comm| line_plan(comm, most).map(drop));
        assert!(text.contains(expected), "{text}");
    }
    let text = refused(2, |comm| {
        let pattern = line(comm)?;
        pattern.bind_with(Numbers::new(&device()?, &pattern)?, BindOptions::default().in_flight(2))?;
        Ok(())
    });
    assert!(text.contains("is 2, expected 1 to 1"), "{text}");
}

#[test]
fn fields_of_types_known_at_run_time_travel_together() {
    everywhere(|comm| {
        let pattern = line(comm)?;
        let record = ElementType::record(12).ok_or("no record")?;
        let device = device()?;
        let make = |element| AnyField::builder(&pattern).build_any(&device, element);
        let numbers = AnyField::from(Numbers::new(&device, &pattern)?);
        let mut exchange = pattern.bind(vec![make(ElementType::I16)?, make(record)?, numbers])?;
        let [small, records, numbers] = &mut exchange.fields_mut()[..] else { return Err("not 3".into()) };
        small.view_mut::<i16>(0)?.fill_with(|cell, _| cell[0] as i16);
        records.copy_from_bytes(0, &[comm.rank() as u8 + 1; 72])?;
        numbers.view_mut::<f64>(0)?.fill_with(|cell, _| cell[0] as f64);
        exchange.run()?;
        let [small, records, numbers] = &exchange.fields()[..] else { return Err("not 3".into()) };
        let cells = 4 * comm.size() as i64;
        let below = 4 * comm.rank() as i64 - 1;
        assert_eq!(i64::from(small.view::<i16>(0)?[[below]]), below.rem_euclid(cells));
        assert_eq!(numbers.view::<f64>(0)?[[below]], below.rem_euclid(cells) as f64);
        let bytes = records.to_bytes(0)?;
        let ends = halo(comm, |rank| rank as f64 + 1.0);
        assert_eq!(
            [bytes[0], bytes[11], bytes[60], bytes[71]],
            [ends[0], ends[0], ends[1], ends[1]].map(|x| x as u8)
        );
        // Types are compared where a view names one.
        let error = small.view::<u16>(0).unwrap_err().to_string();
        assert!(error.contains("u16") && error.contains("i16"), "{error}");
        assert!(exchange.into_fields()?.remove(2).typed::<f32>().is_err());
        Ok(())
    });
}

#[test]
fn ranks_with_records_of_other_sizes_are_refused() {
    let text = refused(2, |comm| {
        let pattern = line(comm)?;
        let element = ElementType::record(12 + comm.rank()).ok_or("no record")?;
        pattern.bind(AnyField::<CpuDevice>::builder(&pattern).build_any(&device()?, element)?)?;
        Ok(())
    });
    assert!(text.contains("records of 13 bytes") && text.contains("records of 12 bytes"), "{text}");
}
