//! Several handles to the memory of one field.

use crate::common::*;
use haloport_core::*;
use haloport_cpu::CpuDevice;

type Numbers = AnyField<CpuDevice>;

const DEFAULT: Schedule<'_> = Schedule::DefaultStream;

/// A field of zeros on the pattern.
fn field(pattern: &Pattern) -> Result<Numbers, Failure> {
    Ok(AnyField::builder(pattern).node_shared(true).build_any(&device()?, ElementType::F64)?)
}

/// A second handle to a field.
fn share(field: &Numbers) -> Numbers {
    // SAFETY: no view of the tests lives while another handle is used, and no exchange is in flight while its cells
    // are.
    unsafe { field.share() }
}

/// Fills the owned cells with `round` and their index, the halo with -1.
fn fill(field: &mut Numbers, round: usize) -> Result<(), Failure> {
    let owned = field.layout(0)?.owned();
    field.view_mut::<f64>(0)?.fill_with(|cell, _| {
        if owned.contains(cell) { (1000 * round) as f64 + cell[0] as f64 } else { -1.0 }
    });
    Ok(())
}

/// Checks that the halo holds what the neighbours had in `round`.
fn check(field: &Numbers, round: usize, ranks: usize) -> Result<(), Failure> {
    let view = field.view::<f64>(0)?;
    for cell in view.region().lower()[0]..view.region().upper()[0] {
        let expected = (1000 * round) as f64 + cell.rem_euclid(4 * ranks as i64) as f64;
        assert_eq!(view.get(&[cell]), Some(expected), "cell {cell} in round {round}");
    }
    Ok(())
}

#[test]
fn exchanges_of_one_memory_take_turns() {
    for ranks in [1, 2, 3] {
        run_ranks(ranks, |comm| {
            let pattern = line(&comm)?;
            let mut held = field(&pattern)?;
            let direct = || BindOptions::default().prefer(DataPath::Direct);
            let mut one = pattern.bind_with(share(&held), direct())?;
            let mut both = pattern.bind_with((share(&held), field(&pattern)?), direct())?;
            let mut plan = pattern.plan(&mut held)?;
            if ranks > 1 {
                for traffic in [one.traffic(), both.traffic()] {
                    assert!(traffic.direct_bytes > 0, "{traffic:?}");
                    assert_eq!((traffic.message_bytes, traffic.shared_bytes), (0, 0), "{traffic:?}");
                }
            }
            for round in 0..12 {
                fill(&mut held, round)?;
                fill(&mut both.fields_mut().1, round + 1)?;
                match round % 3 {
                    0 => one.run()?,
                    1 => both.run()?,
                    _ => plan.run(&mut held)?,
                }
                check(&held, round, ranks)?;
                check(one.fields(), round, ranks)?;
                check(&both.fields().0, round, ranks)?;
                if round % 3 == 1 {
                    check(&both.fields().1, round + 1, ranks)?;
                }
            }
            // The others go on without the field that was built, and without its first exchange.
            drop((one, held, plan));
            fill(&mut both.fields_mut().0, 20)?;
            fill(&mut both.fields_mut().1, 21)?;
            both.run()?;
            check(&both.fields().0, 20, ranks)?;
            check(&both.fields().1, 21, ranks)
        })
        .unwrap();
    }
}

#[test]
fn handles_are_in_flight_together() {
    run_ranks(2, |comm| {
        let pattern = line(&comm)?;
        let mut held = field(&pattern)?;
        let mut one = pattern.bind(share(&held))?;
        let mut other = pattern.bind(share(&held))?;
        let mut plan = pattern.plan(&mut held)?;
        for round in 0..4 {
            fill(&mut held, round)?;
            let ticket = one.start_detached(DEFAULT)?;
            assert_eq!(other.start_detached(DEFAULT), Err(ExchangeError::InFlightElsewhere));
            assert_eq!(plan.run(&mut held), Err(ExchangeError::InFlightElsewhere));
            assert_eq!(held.view::<f64>(0).unwrap_err(), FieldError::InFlight);
            assert_eq!(other.fields_mut().view_mut::<f64>(0).unwrap_err(), FieldError::InFlight);
            one.finish(ticket, DEFAULT)?;
            check(&held, round, 2)?;
            fill(&mut held, round + 1)?;
            other.run()?;
            check(&held, round + 1, 2)?;
            std::mem::swap(&mut one, &mut other);
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn several_fields_are_read_from_one_memory() {
    for prefer in [DataPath::Direct, DataPath::Shared, DataPath::Messages] {
        run_ranks(2, |comm| {
            let pattern = line(&comm)?;
            let mut source = field(&pattern)?;
            let from = |target| SourceTarget { source: share(&source), target };
            let fields = (from(field(&pattern)?), from(field(&pattern)?));
            let mut both = pattern.bind_with(fields, BindOptions::default().prefer(prefer))?;
            for round in 0..3 {
                fill(&mut source, round)?;
                let ticket = both.start_detached(DEFAULT)?;
                assert_eq!(source.view::<f64>(0).unwrap_err(), FieldError::InFlight);
                both.finish(ticket, DEFAULT)?;
                for target in [&both.fields().0.target, &both.fields().1.target] {
                    let view = target.view::<f64>(0)?;
                    let (below, above) = (view.region().lower()[0], view.region().upper()[0] - 1);
                    for cell in [below, above] {
                        let expected = (1000 * round) as f64 + cell.rem_euclid(8) as f64;
                        assert_eq!(
                            view.get(&[cell]),
                            Some(expected),
                            "cell {cell} in round {round} by {prefer:?}"
                        );
                    }
                }
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn one_exchange_takes_a_memory_once() {
    let twice = |comm: &Communicator| -> Result<(), Failure> {
        let pattern = line(comm)?;
        let first = field(&pattern)?;
        pattern.bind((share(&first), field(&pattern)?, share(&first)))?;
        Ok(())
    };
    let expected = "rank 0: field 2 is in the same memory as field 0: bind each memory once";
    assert_eq!(refused(2, twice), expected);
    let onto_itself = |comm: &Communicator| -> Result<(), Failure> {
        let pattern = line(comm)?;
        let first = field(&pattern)?;
        pattern.bind(SourceTarget { source: share(&first), target: first })?;
        Ok(())
    };
    let expected = "rank 0: the source of field 1 is in the same memory as field 1: bind each memory once";
    assert_eq!(refused(2, onto_itself), expected);
    let onto_a_source = |comm: &Communicator| -> Result<(), Failure> {
        let pattern = line(comm)?;
        let first = field(&pattern)?;
        let from = SourceTarget { source: share(&first), target: field(&pattern)? };
        pattern.bind((from, SourceTarget { source: field(&pattern)?, target: first }))?;
        Ok(())
    };
    let expected = "rank 0: field 3 is in the same memory as the source of field 1: bind each memory once";
    assert_eq!(refused(2, onto_a_source), expected);
    run_ranks(2, |comm| {
        let pattern = line(&comm)?;
        let (mut one, mut other) = (field(&pattern)?, field(&pattern)?);
        let mut plan = pattern.plan((&mut one, &mut other))?;
        let mut same = share(&one);
        assert_eq!(plan.run((&mut one, &mut same)), Err(ExchangeError::InFlightElsewhere));
        fill(&mut one, 1)?;
        fill(&mut other, 2)?;
        plan.run((&mut one, &mut other))?;
        check(&one, 1, 2)?;
        check(&other, 2, 2)
    })
    .unwrap();
}
