//! Messages that are sent from fields and received in halos, without a copy.

use std::time::Duration;

use crate::common::*;
use haloport_core::exchange::Traffic;
use haloport_core::*;

/// Cells of a plane along each axis: one plane of `f64` has 20,000 bytes.
const ROW: i64 = 50;

/// Slabs of four planes across the first axis of a periodic grid, with halos of one plane across that axis only.
fn slabs(comm: &Communicator) -> Result<Pattern, Failure> {
    let (rank, size) = (comm.rank() as i64, comm.size());
    let grid = Grid::new([4 * size, ROW as usize, ROW as usize])?.periodic([true; 3])?;
    let mine = IndexBox::new([4 * rank, 0, 0], [4 * rank + 4, ROW, ROW]);
    Ok(Pattern::structured(comm, &grid, &[mine], &Halo::per_axis([1, 0, 0]))?)
}

fn value(cell: &[i64], planes: i64, round: i64) -> f64 {
    (cell[0].rem_euclid(planes) * 10_000 + cell[1] * 100 + cell[2] + round * 1_000_000) as f64
}

fn prepare(view: &mut ViewMut<'_, f64>, owned: &IndexBox, planes: i64, round: i64) {
    view.fill_with(|cell, _| if owned.contains(cell) { value(cell, planes, round) } else { -1.0 });
}

fn verify(view: &View<'_, f64>, planes: i64, round: i64) {
    let all = view.region();
    for z in all.lower()[0]..all.upper()[0] {
        for y in 0..ROW {
            for x in 0..ROW {
                assert_eq!(view.get(&[z, y, x]), Some(value(&[z, y, x], planes, round)), "{z} {y} {x}");
            }
        }
    }
}

/// Exchanges fields of the library three times; returns the traffic.
fn exchanged(pattern: &Pattern, fields: Vec<Numbers>) -> Result<Traffic, Failure> {
    let planes = 4 * pattern.comm().size() as i64;
    let mut exchange = pattern.bind_with(fields, BindOptions::default().path(DataPath::Messages))?;
    for round in 0..3 {
        for field in exchange.fields_mut() {
            let owned = field.layout(0)?.owned();
            prepare(&mut field.view_mut(0)?, &owned, planes, round);
        }
        exchange.start()?.finish()?;
        exchange
            .fields()
            .iter()
            .try_for_each(|field| field.view(0).map(|view| verify(&view, planes, round)))?;
    }
    pattern.comm().barrier()?;
    Ok(exchange.traffic())
}

#[test]
fn planes_without_gaps_are_never_packed() {
    for ranks in [2, 3] {
        run_ranks(ranks, |comm| -> Result<(), Failure> {
            let pattern = slabs(&comm)?;
            let device = device()?;
            let whole = || Numbers::new(&device, &pattern);
            let gaps = || Numbers::builder(&pattern).padding([0, 0, 1]).build(&device);
            let turned = || Numbers::builder(&pattern).axis_order([2, 1, 0]).build(&device);
            let plane = (ROW * ROW) as usize * size_of::<f64>();
            let of = |traffic: Traffic| {
                [traffic.message_bytes, traffic.sent_in_place_bytes, traffic.received_in_place_bytes]
                    .map(|bytes| bytes / plane)
            };
            assert_eq!(of(exchanged(&pattern, vec![whole()?, whole()?])?), [4, 4, 4]);
            assert_eq!(of(exchanged(&pattern, vec![whole()?, gaps()?, turned()?])?), [6, 2, 2]);
            // Only one rank has gaps: the others need not pack for it.
            let mixed = exchanged(&pattern, vec![if comm.rank() == 0 { gaps()? } else { whole()? }])?;
            assert_eq!(of(mixed), if comm.rank() == 0 { [2, 0, 0] } else { [2, 2, 2] });
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn lent_memory_is_never_used_by_messages_under_way() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let pattern = slabs(&comm)?;
        let layout = Numbers::new(&device()?, &pattern)?.layout(0)?.clone();
        let (planes, owned) = (4 * comm.size() as i64, layout.owned());
        let mut memory = vec![0.0; layout.span().1 as usize];
        {
            let field = BorrowedField::new(&device()?, vec![(&mut memory[..], layout)])?;
            let mut exchange = pattern.bind(field)?;
            for round in 0..2 {
                prepare(&mut exchange.fields_mut().view_mut(0)?, &owned, planes, round);
                exchange.run()?;
                verify(&exchange.fields().view(0)?, planes, round);
            }
            let traffic = exchange.traffic();
            assert_eq!((traffic.sent_in_place_bytes, traffic.received_in_place_bytes), (0, 0));
            if comm.rank() == 1 {
                comm.barrier()?;
            }
            std::mem::forget(exchange.start()?);
            std::mem::forget(exchange);
        }
        // Messages still arrive and are served, but no rank writes or reads here: rank 1 begins once rank 0 is here.
        memory.fill(7.0);
        if comm.rank() == 0 {
            comm.barrier()?;
        }
        comm.barrier()?;
        comm.barrier()?;
        assert!(memory.iter().all(|value| *value == 7.0));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_forgotten_exchange_leaves_its_field_in_flight_until_it_is_completed() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let pattern = slabs(&comm)?;
        let planes = 4 * comm.size() as i64;
        let options = BindOptions::default().path(DataPath::Messages);
        let mut exchange = pattern.bind_with(Numbers::new(&device()?, &pattern)?, options)?;
        let owned = exchange.fields().layout(0)?.owned();
        prepare(&mut exchange.fields_mut().view_mut(0)?, &owned, planes, 1);
        std::mem::forget(exchange.start()?);
        assert_eq!(exchange.fields().view(0).err(), Some(FieldError::InFlight));
        comm.barrier()?;
        verify(&exchange.into_fields()?.view(0)?, planes, 1);
        comm.barrier()?;
        Ok(())
    })
    .unwrap();
}

/// The neighbour may take part at any time, and does not reach a field that has another owner by then.
#[test]
fn a_field_is_at_rest_once_no_message_that_was_given_up_can_touch_it() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let pattern = slabs(&comm)?;
        let options = BindOptions::default().path(DataPath::Messages);
        let mut exchange = pattern.bind_with(Numbers::new(&device()?, &pattern)?, options)?;
        if comm.rank() == 0 {
            comm.set_time_limit(Some(Duration::from_millis(50)));
            let error = exchange.run().unwrap_err();
            assert!(matches!(error, ExchangeError::TimeLimit { .. }), "{error}");
            comm.set_time_limit(Some(Duration::from_secs(20)));
            exchange.fields_mut().view_mut(0)?.fill_with(|_, _| 7.0);
        }
        comm.barrier()?;
        if comm.rank() == 1 {
            exchange.run().unwrap_err();
        }
        comm.barrier()?;
        if comm.rank() == 0 {
            assert!(exchange.fields().to_vec(0)?.iter().all(|value| *value == 7.0));
        }
        Ok(())
    })
    .unwrap();
}
