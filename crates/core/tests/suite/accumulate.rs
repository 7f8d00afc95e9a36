//! Halos that are accumulated: what a program may do meanwhile, and what is refused. Values are in the conformance suite.

use crate::common::*;
use haloport_core::device::Combine;
use haloport_core::exchange::Obstacle;
use haloport_core::*;

/// Runs `on_rank` on two ranks, with a ring of two cells for each and a halo of one cell.
fn on_ring(on_rank: impl Fn(&Communicator, &Pattern) -> Result<(), Failure> + Sync) {
    run_ranks(2, |comm| {
        let pattern = Pattern::on_grid(&comm, [4]).periodic([true]).halo(1).build()?;
        on_rank(&comm, &pattern)
    })
    .unwrap();
}

fn sum() -> BindOptions {
    BindOptions::default().accumulate(Combine::Sum)
}

/// The values of a block: the halo below, both owned cells, the halo above.
fn values<T: Element>(field: &Field<T, haloport_cpu::CpuDevice>) -> Result<Vec<T>, Failure> {
    Ok(field.to_vec(0)?)
}

#[test]
fn a_detached_exchange_adds_halos_to_their_owners() {
    on_ring(|comm, pattern| {
        let mut field = Field::<i64, _>::new(&device()?, pattern)?;
        let base = 100 * comm.rank() as i64;
        field.copy_from(0, &[base + 1, 0, 0, base + 2])?;
        let mut exchange = pattern.bind_with(field, sum())?;
        let ticket = exchange.start_detached(Schedule::DefaultStream)?;
        comm.barrier()?;
        exchange.finish(ticket, Schedule::DefaultStream)?;
        let other = 100 * (1 - comm.rank()) as i64;
        assert_eq!(values(exchange.fields())?, [base + 1, other + 2, other + 1, base + 2]);
        Ok(())
    });
}

#[test]
fn the_exchange_and_its_transpose_have_one_product() {
    on_ring(|comm, pattern| {
        let of = |seed: i64| -> Vec<i64> {
            (0..4).map(|cell| (7 * cell + seed + 3 * comm.rank() as i64) % 11).collect()
        };
        let field = |values: &[i64]| -> Result<_, Failure> {
            let mut field = Field::<i64, _>::new(&device()?, pattern)?;
            field.copy_from(0, values)?;
            Ok(field)
        };
        let (x, y) = (of(5), of(2));
        let mut forward = pattern.bind(field(&x)?)?;
        forward.run()?;
        let mut reverse = pattern.bind_with(field(&y)?, sum().zero_halo(true))?;
        reverse.run()?;
        let product = |a: &[i64], b: &[i64]| -> i64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let mut products =
            [product(&values(forward.fields())?, &y), product(&x[1..3], &values(reverse.fields())?[1..3])];
        products = comm.all_reduce(products, Reduction::Sum)?;
        assert_eq!(products[0], products[1]);
        Ok(())
    });
}

#[test]
fn several_plans_of_passed_memory_are_in_flight() {
    on_ring(|comm, pattern| {
        let mut fields =
            [Field::<f64, _>::new(&device()?, pattern)?, Field::<f64, _>::new(&device()?, pattern)?];
        for (number, field) in fields.iter_mut().enumerate() {
            field.copy_from(0, &[(number + 1) as f64; 4])?;
        }
        let layout = FieldLayout::new(
            &device()?,
            ElementType::F64,
            AnyField::<haloport_cpu::CpuDevice>::builder(pattern).layouts()?,
        );
        let mut plan = pattern.plan_layouts(&[layout], sum().in_flight(2))?;
        let mut tickets = Vec::new();
        for field in &fields {
            let at = [field.pointer(0)?];
            // SAFETY: the memory lives until both exchanges have finished, and nothing else uses it.
            tickets.push(unsafe { plan.start_at(&at, Schedule::DefaultStream)? });
        }
        // Owned cells may change until `finish` combines them.
        fields[0].copy_from(0, &[1.0, 5.0, 6.0, 1.0])?;
        for ticket in tickets.into_iter().rev() {
            plan.finish(ticket, Schedule::DefaultStream)?;
        }
        assert_eq!(fields[0].to_vec(0)?, [1.0, 6.0, 7.0, 1.0]);
        assert_eq!(fields[1].to_vec(0)?, [2.0, 4.0, 4.0, 2.0]);
        comm.barrier()?;
        Ok(())
    });
}

#[test]
fn an_exchange_tells_that_it_accumulates() {
    on_ring(|comm, pattern| {
        let of_path = |path| {
            let bound = pattern.bind_with(Numbers::new(&device()?, pattern)?, sum().path(path))?;
            let described = bound.describe();
            assert_eq!(described.routes.len(), 2);
            assert_eq!(described.choice.order, exchange::HaloOrder::AllNeighbours);
            let first = &described.routes[0];
            assert!(
                described.routes.iter().all(|it| (it.path, it.why) == (first.path, first.why)),
                "{comm:?}"
            );
            Ok::<_, Failure>((first.path, first.why, described.traffic))
        };
        let (path, why, traffic) = of_path(DataPath::Quickest)?;
        assert_eq!((path, why, traffic.direct_bytes), (DataPath::Direct, None, 16));
        let (path, why, traffic) = of_path(DataPath::Shared)?;
        assert_eq!((path, why, traffic.shared_bytes), (DataPath::Shared, Some(Obstacle::Asked), 16));
        let (path, why, traffic) = of_path(DataPath::Messages)?;
        assert_eq!((path, why), (DataPath::Messages, Some(Obstacle::Asked)));
        assert!(traffic.message_bytes >= 16, "{traffic:?}");
        Ok(())
    });
}

#[test]
fn what_cannot_be_accumulated_is_refused_on_all_ranks() {
    let least = || BindOptions::default().accumulate(Combine::Min);
    let on = |rank: usize, comm: &Communicator| {
        if comm.rank() == rank { sum() } else { BindOptions::default() }
    };
    type Options<'o> = &'o (dyn Fn(&Communicator) -> BindOptions + Sync);
    let refusals: [(&str, ElementType, Options<'_>); 5] = [
        ("is of complex numbers of 64-bit floats, which have no `min`", ElementType::Complex64, &|_| least()),
        ("is of records of 3 bytes, which have no `sum`", ElementType::record(3).unwrap(), &|_| sum()),
        ("`zero_halo` is set without `accumulate`", ElementType::F32, &|_| {
            BindOptions::default().zero_halo(true)
        }),
        ("the option `accumulate` is", ElementType::F32, &|comm| on(0, comm)),
        ("the option `zero_halo` is", ElementType::F32, &|comm| sum().zero_halo(comm.rank() == 0)),
    ];
    for (text, element, options) in refusals {
        let refused = refused(2, |comm| {
            let pattern = Pattern::on_grid(comm, [4]).periodic([true]).halo(1).build()?;
            let mut field = AnyField::builder(&pattern).build_any(&device()?, element)?;
            let before: Vec<u8> = (0..field.to_bytes(0)?.len()).map(|byte| byte as u8).collect();
            field.copy_from_bytes(0, &before)?;
            let refusal = pattern.bind_with(&mut field, options(comm)).map(drop);
            assert_eq!(field.to_bytes(0)?, before, "{text}");
            Ok(refusal?)
        });
        // Errors say which rank asks for what.
        assert!(refused.contains(text), "expected {text:?}, found {refused:?}");
    }
}

/// With another order of ranks or places, the sum of rank 0 would be 2.
#[test]
fn contributions_are_added_by_rank_and_by_place() {
    run_ranks(3, |comm| {
        type Lists = &'static [(usize, &'static [u32])];
        let (sends, receives): (Lists, Lists) = match comm.rank() {
            0 => (&[(1, &[0, 0, 0]), (2, &[0])], &[]),
            1 => (&[], &[(0, &[1, 2, 3])]),
            _ => (&[], &[(0, &[1])]),
        };
        let pattern = Pattern::from_lists(&comm, 4, sends, receives)?;
        let mut load = Numbers::new(&device()?, &pattern)?;
        let values = if comm.rank() == 1 { [0.0, 1.0, 1e16, -1e16] } else { [0.0, 1.0, 0.0, 0.0] };
        load.copy_from(0, if comm.rank() == 0 { &[0.0; 4] } else { &values })?;
        let mut exchange = pattern.bind_with(load, sum())?;
        exchange.run()?;
        if comm.rank() == 0 {
            assert_eq!(exchange.fields().to_vec(0)?[0], 1.0);
        }
        Ok::<_, Failure>(())
    })
    .unwrap();
}

#[test]
fn work_beside_an_accumulation_has_the_regions_of_the_pattern() {
    on_ring(|_, pattern| {
        let wide = Pattern::on_grid(pattern.comm(), [12]).periodic([true]).halo(1).build()?;
        let mut load = Field::<i64, _>::new(&device()?, &wide)?;
        load.copy_from(0, &[1; 8])?;
        let mut exchange = wide.bind_with(load, sum())?;
        let mut pending = exchange.start()?;
        let first = wide.boxes()[0].lower()[0];
        let interior = pending.interior_mut(|field| field, 0)?.region();
        assert_eq!((interior.lower()[0], interior.upper()[0]), (first + 1, first + 5));
        pending.interior_mut(|field| field, 0)?.fill_with(|_, _| 7);
        pending.finish()?;
        assert_eq!(exchange.fields().to_vec(0)?, [1, 2, 7, 7, 7, 7, 2, 1]);
        Ok(())
    });
}

#[test]
fn a_cell_that_several_are_to_replace_is_named() {
    let text = refused(2, |comm| {
        // Both ranks have the cell 0 of rank 0, in two places of rank 1.
        type Lists = &'static [(usize, &'static [u32])];
        let (sends, receives): (Lists, Lists) = match comm.rank() {
            0 => (&[(1, &[0, 0])], &[]),
            _ => (&[], &[(0, &[1, 2])]),
        };
        let pattern = Pattern::from_lists(comm, 3, sends, receives)?;
        let mut load = Numbers::new(&device()?, &pattern)?;
        load.copy_from(0, &[1.0, 2.0, 3.0])?;
        let replace = BindOptions::default().accumulate(Combine::Replace);
        let refusal = pattern.bind_with(&mut load, replace).map(drop);
        assert_eq!(load.to_vec(0)?, [1.0, 2.0, 3.0]);
        Ok(refusal?)
    });
    assert!(text.contains("several halo cells belong to the cell 0 of domain 0"), "{text}");
}

#[test]
fn of_a_set_only_patterns_with_fields_decide_what_can_be_replaced() {
    on_ring(|comm, narrow| {
        // Halos that take both cells of the other rank, above and below.
        let wide = Pattern::on_grid(comm, [4]).periodic([true]).halo(2).build()?;
        let both = PatternSet::new(&[narrow, &wide])?;
        let replace = || BindOptions::default().accumulate(Combine::Replace);
        let mut load = Numbers::new(&device()?, narrow)?;
        load.copy_from(0, &[10.0, 1.0, 2.0, 20.0])?;
        let mut exchange = both.bind_with(load, replace())?;
        exchange.run()?;
        assert_eq!(exchange.fields().to_vec(0)?, [10.0, 20.0, 10.0, 20.0]);
        let fields = (
            Numbers::new(&device()?, narrow)?,
            OfPattern { pattern: 1, fields: Numbers::new(&device()?, &wide)? },
        );
        let text = both.bind_with(fields, replace()).map(drop).unwrap_err().to_string();
        assert!(text.contains("several halo cells belong to the cell"), "{text}");
        Ok(())
    });
}

/// Ranks that finish several exchanges in different orders do not wait for each other: a halo that nobody reads yet is
/// left in a message.
#[test]
fn exchanges_are_finished_in_any_order_on_every_path() {
    for path in [DataPath::Direct, DataPath::Shared, DataPath::Messages] {
        on_ring(|comm, pattern| {
            let mut exchanges = Vec::new();
            for number in 1..=3 {
                let mut load = Field::<i64, _>::new(&device()?, pattern)?;
                load.copy_from(0, &[number; 4])?;
                exchanges.push(pattern.bind_with(load, sum().zero_halo(true).prefer(path))?);
            }
            for round in 1..=3 {
                let mut tickets = Vec::new();
                for exchange in &mut exchanges {
                    tickets.push(exchange.start_detached(Schedule::DefaultStream)?);
                }
                let mut order = [0, 1, 2];
                if comm.rank() == 1 {
                    order.reverse();
                }
                for number in order {
                    exchanges[number].finish(tickets[number], Schedule::DefaultStream)?;
                    // The first round has set the halo to zero.
                    let owned = 2 * (number as i64 + 1);
                    assert_eq!(values(exchanges[number].fields())?, [0, owned, owned, 0], "round {round}");
                }
            }
            Ok(())
        });
    }
}

#[test]
fn an_exchange_is_ready_before_its_cells_are_combined() {
    for path in [DataPath::Direct, DataPath::Shared, DataPath::Messages] {
        on_ring(|comm, pattern| {
            let mut load = Field::<i64, _>::new(&device()?, pattern)?;
            load.copy_from(0, &[1; 4])?;
            let mut exchange = pattern.bind_with(load, sum().prefer(path))?;
            let ticket = exchange.start_detached(Schedule::DefaultStream)?;
            // Nobody finishes until all are ready.
            while !exchange.is_ready(ticket) {
                std::thread::yield_now();
            }
            comm.barrier()?;
            exchange.finish(ticket, Schedule::DefaultStream)?;
            assert_eq!(values(exchange.fields())?, [1, 2, 2, 1]);
            Ok(())
        });
    }
}

/// A rank that gives up an exchange in flight has sent its halo.
#[test]
fn a_neighbour_that_drops_an_exchange_has_sent_its_halo() {
    for path in [DataPath::Direct, DataPath::Shared, DataPath::Messages] {
        on_ring(|comm, pattern| {
            let mut load = Field::<i64, _>::new(&device()?, pattern)?;
            load.copy_from(0, &[1; 4])?;
            let mut exchange = pattern.bind_with(load, sum().prefer(path))?;
            let ticket = exchange.start_detached(Schedule::DefaultStream)?;
            if comm.rank() == 1 {
                drop(exchange);
                comm.barrier()?;
                return Ok(());
            }
            comm.barrier()?;
            exchange.finish(ticket, Schedule::DefaultStream)?;
            assert_eq!(values(exchange.fields())?, [1, 2, 2, 1]);
            Ok(())
        });
    }
}

/// Runs `on_rank` on two ranks by a pattern in which rank 0 has a halo cell of rank 1, and rank 1 has none.
fn one_way(path: DataPath, on_rank: impl Fn(&Communicator, Exchange<Numbers>) -> Result<(), Failure> + Sync) {
    run_ranks(2, |comm| {
        type Lists = &'static [(usize, &'static [u32])];
        let (sends, receives): (Lists, Lists) =
            if comm.rank() == 0 { (&[], &[(1, &[1])]) } else { (&[(0, &[0])], &[]) };
        let pattern = Pattern::from_lists(&comm, 2, sends, receives)?;
        let mut load = Numbers::new(&device()?, &pattern)?;
        load.copy_from(0, if comm.rank() == 0 { &[0.0, 1.0] } else { &[0.0, 0.0] })?;
        on_rank(&comm, pattern.bind_with(load, sum().prefer(path))?)
    })
    .unwrap();
}

/// The owner of the cell has not finished the first exchange: until it does, the second one is not ready.
#[test]
fn an_exchange_is_not_ready_while_a_neighbour_is_one_behind() {
    for path in [DataPath::Direct, DataPath::Shared] {
        one_way(path, |comm, mut exchange| {
            let order = Schedule::DefaultStream;
            let ticket = exchange.start_detached(order)?;
            if comm.rank() == 0 {
                exchange.finish(ticket, order)?;
                let ticket = exchange.start_detached(order)?;
                assert!(!exchange.is_ready(ticket), "{path}");
                comm.barrier()?;
                comm.barrier()?;
                assert!(exchange.is_ready(ticket), "{path}");
                exchange.finish(ticket, order)?;
                return Ok(());
            }
            comm.barrier()?;
            exchange.finish(ticket, order)?;
            comm.barrier()?;
            exchange.run()?;
            assert_eq!(exchange.fields().to_vec(0)?[0], 2.0, "{path}");
            Ok(())
        });
    }
}

#[test]
fn a_neighbour_that_drops_an_exchange_ahead_has_sent_its_halo() {
    for path in [DataPath::Direct, DataPath::Shared] {
        one_way(path, |comm, mut exchange| {
            let order = Schedule::DefaultStream;
            let ticket = exchange.start_detached(order)?;
            if comm.rank() == 0 {
                exchange.finish(ticket, order)?;
                exchange.start_detached(order)?;
                comm.barrier()?;
                drop(exchange);
                return Ok(());
            }
            comm.barrier()?;
            exchange.finish(ticket, order)?;
            exchange.run()?;
            assert_eq!(exchange.fields().to_vec(0)?[0], 2.0, "{path}");
            Ok(())
        });
    }
}

/// The owner gives up with an unread message of the exchange before: the other one finishes its own.
#[test]
fn a_neighbour_behind_that_gives_up_keeps_nobody_waiting() {
    for path in [DataPath::Direct, DataPath::Shared] {
        one_way(path, |comm, mut exchange| {
            let order = Schedule::DefaultStream;
            let ticket = exchange.start_detached(order)?;
            if comm.rank() == 1 {
                comm.barrier()?;
                drop(exchange);
                comm.barrier()?;
                return Ok(());
            }
            exchange.finish(ticket, order)?;
            let ticket = exchange.start_detached(order)?;
            comm.barrier()?;
            comm.barrier()?;
            assert!(exchange.is_ready(ticket), "{path}");
            exchange.finish(ticket, order)?;
            Ok(())
        });
    }
}

/// The callback hears of an exchange once, and before its cells are combined.
#[test]
fn the_callback_is_called_once() {
    on_ring(|comm, pattern| {
        let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = std::sync::Arc::clone(&calls);
        let options = sum().on_complete(move |_| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        let mut exchange = pattern.bind_with(Numbers::new(&device()?, pattern)?, options)?;
        for times in 1..=3 {
            let ticket = exchange.start_detached(Schedule::DefaultStream)?;
            while !exchange.is_ready(ticket) {
                std::thread::yield_now();
            }
            assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), times);
            exchange.finish(ticket, Schedule::DefaultStream)?;
            assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), times);
        }
        comm.barrier()?;
        Ok(())
    });
}
