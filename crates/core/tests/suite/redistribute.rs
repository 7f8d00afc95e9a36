//! Cells that go from their owners in one pattern to those in another one: what a program may do, and what is refused. Random
//! cases of all kinds of patterns are in the conformance suite.

use crate::common::*;
use haloport_core::device::{Combine, Pointer};
use haloport_core::*;
use haloport_cpu::CpuDevice;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const EXTENTS: [usize; 3] = [5, 6, 4];

fn everywhere(body: impl Fn(&Communicator) -> Result<(), Failure> + Sync) {
    for ranks in 1..=5 {
        run_ranks(ranks, |comm| body(&comm)).unwrap_or_else(|error| panic!("{ranks} ranks: {error}"));
    }
}

/// A pattern of slabs across `axis`, one for each of `owners`, which may name a rank several times.
fn slabs(comm: &Communicator, axis: usize, owners: &[usize], halo: usize) -> Result<Pattern, Failure> {
    let grid = Grid::new(EXTENTS)?.periodic([true, false, true])?;
    let mut parts = [1; 3];
    parts[axis] = owners.len();
    let split = Split::even(&grid, parts)?;
    let mine = (0..owners.len()).filter(|&part| owners[part] == comm.rank());
    let mine: Vec<IndexBox> = mine.filter_map(|part| split.part(part)).collect();
    Ok(Pattern::structured(comm, &grid, &mine, &Halo::uniform(halo))?)
}

fn value(cell: &[i64], component: usize, round: i64) -> f64 {
    (round * 10_000 + cell[0] * 1000 + cell[1] * 100 + cell[2] * 10 + component as i64) as f64
}

/// The value that a cell of the target holds: that of the cell in the grid, -1 where no exchange writes.
fn expected(owned: &IndexBox, cell: &[i64], component: usize, round: i64, fills_halo: bool) -> f64 {
    let beyond = !(0..EXTENTS[1] as i64).contains(&cell[1]);
    if beyond || !fills_halo && !owned.contains(cell) {
        return -1.0;
    }
    let cell: [i64; 3] = std::array::from_fn(|axis| cell[axis].rem_euclid(EXTENTS[axis] as i64));
    value(&cell, component, round)
}

fn fill(source: &mut Numbers, target: &mut Numbers, round: i64) -> Result<(), Failure> {
    for domain in 0..source.domain_count() {
        let owned = source.layout(domain)?.owned();
        source.view_mut(domain)?.fill_with(|cell, component| {
            if owned.contains(cell) { value(cell, component, round) } else { -2.0 }
        });
    }
    (0..target.domain_count()).try_for_each(|domain| {
        target.view_mut(domain)?.fill_with(|_, _| -1.0);
        Ok(())
    })
}

fn verify(target: &Numbers, round: i64, fills_halo: bool) -> Result<(), Failure> {
    for domain in 0..target.domain_count() {
        let (layout, view) = (target.layout(domain)?, target.view(domain)?);
        let (owned, all) = (layout.owned(), layout.allocated());
        for i in all.lower()[0]..all.upper()[0] {
            for j in all.lower()[1]..all.upper()[1] {
                for k in all.lower()[2]..all.upper()[2] {
                    for component in 0..layout.components() {
                        let found = view.component(&[i, j, k], component);
                        let wanted = expected(&owned, &[i, j, k], component, round, fills_halo);
                        if found != Some(wanted) {
                            let text = format!("cell {i}, {j}, {k}: found {found:?}, expected {wanted}");
                            return Err(text.into());
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Ranks that own slabs: all in turn, some, or one.
fn random_owners(random: &mut StdRng, ranks: usize) -> Vec<usize> {
    let count = random.random_range(1..=4);
    let first = random.random_range(0..ranks);
    let among = random.random_range(1..=ranks);
    (0..count).map(|_| (first + random.random_range(0..among)) % ranks).collect()
}

#[test]
fn cells_of_any_owners_arrive_at_any_others() {
    everywhere(|comm| {
        let (ranks, device) = (comm.size(), device()?);
        for case in 0..24 {
            let random = &mut StdRng::seed_from_u64(case + 100 * ranks as u64);
            let side = |random: &mut StdRng| {
                let (axis, halo) = (random.random_range(0..3), random.random_range(0..=2));
                slabs(comm, axis, &random_owners(random, ranks), halo)
            };
            let (from, to) = (side(random)?, side(random)?);
            let fills_halo = random.random_bool(0.5);
            let moved = if fills_halo { from.redistribute_with_halo(&to)? } else { from.redistribute(&to)? };
            let orders = [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]];
            let (there, here) = (orders[random.random_range(0..4)], orders[random.random_range(0..4)]);
            let (mut source, mut target) = (
                Numbers::builder(&from)
                    .components(2, ComponentPlace::Slowest)
                    .axis_order(there)
                    .build(&device)?,
                Numbers::builder(&to)
                    .components(2, ComponentPlace::Fastest)
                    .axis_order(here)
                    .build(&device)?,
            );
            let layouts = |field: &Numbers| -> Result<FieldLayout, Failure> {
                let blocks = (0..field.domain_count()).map(|domain| field.layout(domain).cloned());
                Ok(FieldLayout::new(&device, ElementType::F64, blocks.collect::<Result<_, _>>()?))
            };
            let pair = layouts(&target)?.with_source(layouts(&source)?);
            let mut plan = moved.plan(SourceTarget { source: &mut source, target: &mut target })?;
            let mut by_address = moved.plan_layouts(&[pair], BindOptions::default())?;
            fill(&mut source, &mut target, 1)?;
            plan.run(SourceTarget { source: &mut source, target: &mut target })?;
            verify(&target, 1, fills_halo)?;
            fill(&mut source, &mut target, 2)?;
            let blocks = |field: &Numbers| {
                (0..field.domain_count())
                    .map(|domain| field.pointer(domain))
                    .collect::<Result<Vec<Pointer>, _>>()
            };
            let addresses = [blocks(&source)?, blocks(&target)?].concat();
            // SAFETY: the fields have these layouts, and are used again after the exchange.
            unsafe { by_address.run_at(&addresses, Schedule::DefaultStream)? };
            verify(&target, 2, fills_halo)?;
            let mut exchange = moved.bind(SourceTarget { source, target })?;
            for round in 3..6 {
                let SourceTarget { source, target } = exchange.fields_mut();
                fill(source, target, round)?;
                exchange.start()?.finish()?;
                verify(&exchange.fields().target, round, fills_halo)?;
            }
        }
        Ok(())
    });
}

#[test]
fn all_fields_for_one_rank_travel_in_one_message() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let (rows, columns) = (slabs(&comm, 0, &[0, 1, 2], 0)?, slabs(&comm, 1, &[0, 1, 2], 0)?);
        let to_columns = rows.redistribute(&columns)?;
        let device = device()?;
        let pair = || -> Result<_, Failure> {
            Ok(SourceTarget {
                source: Numbers::new(&device, &rows)?,
                target: Numbers::new(&device, &columns)?,
            })
        };
        let small = SourceTarget {
            source: Field::<i16, _>::new(&device, &rows)?,
            target: Field::<i16, _>::new(&device, &columns)?,
        };
        let options = BindOptions::default().path(DataPath::Messages);
        let exchange = to_columns.bind_with((vec![pair()?, pair()?], small), options)?;
        assert_eq!(exchange.traffic().messages, 2);
        assert_eq!(exchange.pattern().number(), columns.number());
        assert_eq!(exchange.choice().order, HaloOrder::AllNeighbours);
        Ok(())
    })
    .unwrap();
}

#[test]
fn fields_that_own_their_memory_are_copied_straight_between_threads() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let (rows, columns) = (slabs(&comm, 0, &[0, 1, 2], 1)?, slabs(&comm, 1, &[2, 0, 1], 1)?);
        let (source, target) = (Numbers::new(&device()?, &rows)?, Numbers::new(&device()?, &columns)?);
        let options = BindOptions::default().path(DataPath::Direct);
        let pair = SourceTarget { source, target };
        let mut exchange = rows.redistribute_with_halo(&columns)?.bind_with(pair, options)?;
        assert_eq!(exchange.traffic().messages, 0);
        assert!(exchange.traffic().direct_bytes > 0);
        for round in 0..3 {
            let SourceTarget { source, target } = exchange.fields_mut();
            fill(source, target, round)?;
            exchange.run()?;
            verify(&exchange.fields().target, round, true)?;
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn owners_that_stay_copy_within_their_rank() {
    everywhere(|comm| {
        let pattern = slabs(comm, 0, &(0..comm.size()).collect::<Vec<_>>(), 1)?;
        let device = device()?;
        let pair = SourceTarget {
            source: Numbers::new(&device, &pattern)?,
            target: Numbers::new(&device, &pattern)?,
        };
        let mut exchange = pattern.redistribute(&pattern)?.bind(pair)?;
        assert_eq!(exchange.traffic().messages, 0);
        let SourceTarget { source, target } = exchange.fields_mut();
        fill(source, target, 7)?;
        exchange.run()?;
        verify(&exchange.fields().target, 7, false)
    });
}

#[test]
fn a_pending_redistribution_lends_no_cells() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let (rows, columns) = (slabs(&comm, 0, &[0, 1], 0)?, slabs(&comm, 1, &[0, 1], 0)?);
        let device = device()?;
        let pair =
            SourceTarget { source: Numbers::new(&device, &rows)?, target: Numbers::new(&device, &columns)? };
        let mut exchange = rows.redistribute(&columns)?.bind(pair)?;
        let mut pending = exchange.start()?;
        assert!(pending.owned(|pair| &pair.target, 0)?.region().is_empty());
        assert!(pending.owned(|pair| &pair.source, 0)?.region().is_empty());
        assert!(pending.interior_mut(|pair| &pair.target, 0)?.region().is_empty());
        pending.finish()?;
        Ok(())
    })
    .unwrap();
}

/// Numbered cells: `owned` and `halo` of this rank.
fn numbered(comm: &Communicator, owned: &[i64], halo: &[i64]) -> Result<Pattern, Failure> {
    Ok(Pattern::unstructured(comm, &[IndexSet::new(owned, halo)], &HaloCells::All)?)
}

#[test]
fn lists_are_gathered_on_one_rank_and_scattered() {
    everywhere(|comm| {
        let (ranks, me) = (comm.size() as i64, comm.rank() as i64);
        // Ids that are dealt in turn, with gaps, and with the next rank's first one in the halo.
        let dealt: Vec<i64> = (0..7).map(|number| 10 * (number * ranks + me)).collect();
        let all: Vec<i64> = (0..7 * ranks).rev().map(|number| 10 * number).collect();
        let spread = numbered(comm, &dealt, &[10 * ((me + 1) % ranks)])?;
        let one = numbered(comm, if me == ranks - 1 { &all } else { &[] }, &[])?;
        let device = device()?;
        let (mut on_all, mut on_one) = (Numbers::new(&device, &spread)?, Numbers::new(&device, &one)?);
        let ids = |pattern: &Pattern| pattern.index_sets()[0].ids().to_vec();
        on_all.view_mut(0)?.fill_with(|cell, _| {
            let index = cell[0] as usize;
            if index < 7 { dealt[index] as f64 } else { -1.0 }
        });
        let mut gather =
            spread.redistribute(&one)?.plan(SourceTarget { source: &mut on_all, target: &mut on_one })?;
        gather.run(SourceTarget { source: &mut on_all, target: &mut on_one })?;
        let numbers = |ids: Vec<i64>| ids.into_iter().map(|id| id as f64).collect::<Vec<f64>>();
        assert_eq!(on_one.to_vec(0)?, numbers(ids(&one)));
        on_all.view_mut(0)?.fill_with(|_, _| -1.0);
        let scatter = one.redistribute_with_halo(&spread)?;
        let mut scatter = scatter.plan(SourceTarget { source: &mut on_one, target: &mut on_all })?;
        scatter.run(SourceTarget { source: &mut on_one, target: &mut on_all })?;
        assert_eq!(on_all.to_vec(0)?, numbers(ids(&spread)));
        Ok(())
    });
}

#[test]
fn patterns_of_other_cells_are_refused_on_all_ranks() {
    let refusal = |make: fn(&Communicator) -> Result<(Pattern, Pattern), Failure>| {
        refused(2, |comm| {
            let (from, to) = make(comm)?;
            Ok(from.redistribute(&to).map(drop)?)
        })
    };
    fn grid<const N: usize>(comm: &Communicator, extents: [usize; N]) -> Result<Pattern, Failure> {
        Ok(Pattern::on_grid(comm, extents).halo(0).build()?)
    }
    let text = refusal(|comm| Ok((grid(comm, [4, 6])?, grid(comm, [4, 7])?)));
    assert!(text.contains("only the target has the cell [0, 6]"), "{text}");
    let text = refusal(|comm| Ok((grid(comm, [5, 6])?, grid(comm, [4, 7])?)));
    assert!(text.contains("only the source has the cell [4, 0]"), "{text}");
    let text = refusal(|comm| Ok((grid(comm, [4, 6])?, grid(comm, [24])?)));
    assert!(text.contains("a grid of 0..4 × 0..6 cells and its target one of 0..24"), "{text}");
    let text = refused(2, |comm| {
        let (one, other) = (grid(comm, [4])?, grid(comm, [4])?);
        let patterns = if comm.rank() == 0 { [&one, &other] } else { [&other, &one] };
        Ok(patterns[0].redistribute(patterns[1]).map(drop)?)
    });
    assert!(text.contains("from pattern 2 to pattern 1 here and a redistribution from pattern 1"), "{text}");
    let text = refused(2, |comm| {
        let (one, other) = (grid(comm, [4])?, grid(comm, [4])?);
        let made =
            if comm.rank() == 0 { one.redistribute(&other) } else { one.redistribute_with_halo(&other) };
        Ok(made.map(drop)?)
    });
    assert!(text.contains("to pattern 2 with its halo here"), "{text}");
}

#[test]
fn a_grid_and_numbered_cells_that_differ_are_refused_on_all_ranks() {
    let refusal = |to_ids: bool, fills_halo: bool, ids: [&[i64]; 2]| {
        refused(2, |comm| {
            let grid = Pattern::on_grid(comm, [2, 3]).halo(0).build()?;
            let mesh = numbered(comm, ids[comm.rank()], &[])?;
            let (from, to) = if to_ids { (&grid, &mesh) } else { (&mesh, &grid) };
            let made = if fills_halo { from.redistribute_with_halo(to) } else { from.redistribute(to) };
            Ok(made.map(drop)?)
        })
    };
    let all: [&[i64]; 2] = [&[5, 1, 0], &[4, 2, 3]];
    let fewer: [&[i64]; 2] = [&[0, 1], &[2, 3, 5]];
    let more: [&[i64]; 2] = [&[5, 1, 0], &[4, 2, 6, 3]];
    let text = refusal(true, false, fewer);
    assert!(text.contains("no rank owns the cell [1, 1] with the id 4, which domain 0 of rank"), "{text}");
    let text = refusal(true, false, more);
    assert!(text.contains("domain 0 of rank 1 owns the id 6, but no rank owns it in the source"), "{text}");
    let text = refusal(false, false, fewer);
    assert!(text.contains("owns the cell [1, 1] with the id 4, but no rank owns it in the source"), "{text}");
    let text = refusal(false, false, more);
    assert!(text.contains("no rank owns the id 6, which domain 0 of rank 1 owns in the source"), "{text}");
    let text = refusal(false, true, all);
    assert!(text.contains("whose halo has no ids; leave the halo out"), "{text}");
    let text = refused(2, |comm| {
        // 2^32 cells on rank 0, which no field has memory for.
        let grid = Grid::new([1 << 16, (1 << 16) + 1])?;
        let parts = [
            IndexBox::new([0, 0], [1 << 16, 1 << 16]),
            IndexBox::new([0, 1 << 16], [1 << 16, (1 << 16) + 1]),
        ];
        let boxes = Pattern::structured(comm, &grid, &parts[comm.rank()..][..1], &Halo::uniform(0))?;
        Ok(numbered(comm, &[comm.rank() as i64], &[])?.redistribute(&boxes).map(drop)?)
    });
    assert!(text.contains("domain 0 has 4294967296 cells of a grid, expected fewer than 2^32"), "{text}");
}

/// Cells of a cubed sphere with two levels, whose ids one rank keeps in descending order.
#[test]
fn a_cubed_sphere_is_gathered_by_ids_and_scattered() {
    everywhere(|comm| {
        let (grid, device) = (Grid::cubed_sphere(3)?, device()?);
        let split = Split::balanced(&grid, comm.size())?;
        let mine: Vec<IndexBox> = split.part(comm.rank()).into_iter().collect();
        let sphere = Pattern::structured(comm, &grid, &mine, &Halo::uniform(1))?;
        let last = comm.rank() + 1 == comm.size();
        let ids: Vec<i64> = if last { (0..54).rev().collect() } else { Vec::new() };
        let list = numbered(comm, &ids, &[])?;
        let mut on_sphere =
            Numbers::builder(&sphere).further_axes([2]).axis_order([3, 1, 2, 0]).build(&device)?;
        let mut in_list = Numbers::builder(&list).further_axes([2]).build(&device)?;
        let value = |cell: &[i64]| (2 * ((cell[0] * 3 + cell[1]) * 3 + cell[2]) + cell[3]) as f64;
        on_sphere
            .view_mut(0)?
            .fill_with(|cell, _| if mine[0].contains(&cell[..3]) { value(cell) } else { -1.0 });

        let gather = sphere.redistribute(&list)?;
        for piece in gather.receives().values().flatten() {
            assert!(matches!(&piece.source, Cells::ListInBox { axes: 3, .. }), "{piece:?}");
        }
        gather.bind(SourceTarget { source: &mut on_sphere, target: &mut in_list })?.run()?;
        let expected = ids.iter().flat_map(|id| [2 * id, 2 * id + 1]).map(|number| number as f64);
        assert_eq!(in_list.to_vec(0)?, expected.collect::<Vec<f64>>());

        on_sphere.view_mut(0)?.fill_with(|_, _| -1.0);
        list.redistribute(&sphere)?
            .bind(SourceTarget { source: &mut in_list, target: &mut on_sphere })?
            .run()?;
        let view = on_sphere.view(0)?;
        let cells = on_sphere.layout(0)?.allocated();
        for index in (0..cells.cells() as i64).map(|number| {
            let mut rest = number;
            let mut index = [0; 4];
            for axis in (0..4).rev() {
                let extent = cells.extent(axis) as i64;
                (rest, index[axis]) = (rest / extent, cells.lower()[axis] + rest % extent);
            }
            index
        }) {
            let expected = if mine[0].contains(&index[..3]) { value(&index) } else { -1.0 };
            assert_eq!(view.get(&index), Some(expected), "{index:?}");
        }
        Ok(())
    });
}

/// They are turned across edges of tiles, and on no way to numbered cells.
#[test]
fn vectors_of_a_cubed_sphere_arrive_in_numbered_cells_as_they_are() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let (grid, device) = (Grid::cubed_sphere(2)?, device()?);
        let mine = Split::balanced(&grid, 2)?.part(comm.rank()).ok_or("no such part")?;
        let sphere = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
        let ids: Vec<i64> = (12 * (1 - comm.rank() as i64)..).take(12).collect();
        let list = numbered(&comm, &ids, &[])?;
        let mut source =
            Numbers::builder(&sphere).components(2, ComponentPlace::Slowest).vector([1, 2]).build(&device)?;
        let mut target = Numbers::builder(&list).components(2, ComponentPlace::Fastest).build(&device)?;
        source.view_mut(0)?.fill_with(|cell, component| {
            (10 * ((2 * cell[0] + cell[1]) * 2 + cell[2]) + component as i64) as f64
        });
        sphere.redistribute(&list)?.bind(SourceTarget { source: &mut source, target: &mut target })?.run()?;
        let expected = ids.iter().flat_map(|id| [10 * id, 10 * id + 1]).map(|number| number as f64);
        assert_eq!(target.to_vec(0)?, expected.collect::<Vec<f64>>());
        Ok(())
    })
    .unwrap();
}

#[test]
fn fields_of_a_grid_and_of_numbered_cells_that_differ_are_refused_on_all_ranks() {
    type Bound = fn(&Redistribution, &CpuDevice) -> Result<(), Failure>;
    let refusal = |bind: Bound| {
        refused(2, |comm| {
            let boxes = slabs(comm, 0, &[0, 1], 0)?;
            let ids: Vec<i64> = (60 * comm.rank() as i64..60 * (comm.rank() as i64 + 1)).collect();
            bind(&boxes.redistribute(&numbered(comm, &ids, &[])?)?, &device()?)
        })
    };
    let text = refusal(|moved, device| {
        let source = Numbers::builder(moved.source()).further_axes([2]).build(device)?;
        let target = Numbers::new(device, moved.target())?;
        Ok(moved.bind(SourceTarget { source, target }).map(drop)?)
    });
    assert!(text.contains("field 1 has 0 axes of levels here and 1 in its source"), "{text}");
    let text = refusal(|moved, device| {
        let source = Numbers::builder(moved.source()).further_axes([2]).build(device)?;
        let target = Numbers::builder(moved.target()).further_axes([3]).build(device)?;
        Ok(moved.bind(SourceTarget { source, target }).map(drop)?)
    });
    assert!(
        text.contains("field 1 has 3 exchanged levels along their first axis here and 2 in its source"),
        "{text}"
    );
    // Memory that need not exist: a layout alone.
    let text = refusal(|moved, device| {
        let blocks = moved
            .source()
            .boxes()
            .iter()
            .map(|owned| BlockLayout::new(*owned, *owned, [1 << 34, 4, 1], 1, 1));
        let source = FieldLayout::new(device, ElementType::F64, blocks.collect::<Result<Vec<_>, _>>()?);
        let target = Numbers::new(device, moved.target())?;
        let blocks = vec![target.layout(0)?.clone()];
        let pair = FieldLayout::new(device, ElementType::F64, blocks).with_source(source);
        Ok(moved.plan_layouts(&[pair], BindOptions::default()).map(drop)?)
    });
    assert!(text.contains("field 0 has cells of domain 0 that are too far apart in memory"), "{text}");
}

#[test]
fn patterns_of_different_communicators_are_refused() {
    let others: Vec<_> =
        threads(2).unwrap().into_iter().map(|comm| std::sync::Mutex::new(Some(comm))).collect();
    let text = refused(2, |comm| {
        let other = others[comm.rank()].lock().unwrap().take().ok_or("each rank has one")?;
        let here = Pattern::on_grid(comm, [4]).build()?;
        let there = Pattern::on_grid(&other, [4]).build()?;
        Ok(here.redistribute(&there).map(drop)?)
    });
    assert!(text.contains("patterns of different communicators"), "{text}");
}

/// The refusal where this rank owns `from` in the source and `to` in the target, of three ranks. Owners are named, so that
/// making the patterns finds no error.
fn refusal_of_ids(from: [&[i64]; 3], to: [&[i64]; 3]) -> String {
    refused(3, |comm| {
        let named = |owned: &[i64]| {
            let set = IndexSet::new(owned, &[]).with_owners(Vec::new());
            Pattern::unstructured(comm, &[set], &HaloCells::All)
        };
        Ok(named(from[comm.rank()])?.redistribute(&named(to[comm.rank()])?).map(drop)?)
    })
}

#[test]
fn ids_that_are_not_owned_once_on_either_side_are_refused_with_an_example() {
    let whole: [&[i64]; 3] = [&[1, 5], &[3], &[8, 13]];
    let text = refusal_of_ids([&[1, 5], &[3, 8], &[8, 13]], whole);
    assert!(
        text.contains(
            "in the source of a redistribution, the id 8 is owned twice: by domain 0 of rank 1 and by"
        ),
        "{text}"
    );
    let text = refusal_of_ids([&[1, 5], &[3], &[13]], whole);
    assert!(text.contains("domain 0 of rank 2 owns the id 8, but no rank owns it in the source"), "{text}");
    let text = refusal_of_ids(whole, [&[13, 3], &[], &[3, 5, 8, 1]]);
    assert!(
        text.contains("the id 3 is owned twice: by domain 0 of rank 0 and by domain 0 of rank 2"),
        "{text}"
    );
    let text = refusal_of_ids(whole, [&[1, 3], &[], &[5, 8]]);
    assert!(text.contains("no rank owns the id 13, which domain 0 of rank 2 owns in the source"), "{text}");
}

#[test]
fn fields_that_do_not_fit_are_refused_on_all_ranks() {
    type Bound = fn(&Redistribution, &CpuDevice) -> Result<(), Failure>;
    let refusal = |bind: Bound| {
        refused(2, |comm| {
            let (rows, columns) = (slabs(comm, 0, &[0, 1], 1)?, slabs(comm, 1, &[0], 1)?);
            bind(&rows.redistribute_with_halo(&columns)?, &device()?)
        })
    };
    let text = refusal(|moved, device| Ok(moved.bind(Numbers::new(device, moved.target())?).map(drop)?));
    assert!(text.contains("field 0 has no source; expected a `SourceTarget`"), "{text}");
    let text = refusal(|moved, device| {
        let (source, target) = (Numbers::new(device, moved.target())?, Numbers::new(device, moved.source())?);
        Ok(moved.bind(SourceTarget { source, target }).map(drop)?)
    });
    assert!(text.contains("domain"), "{text}");
    let text = refusal(|moved, device| {
        let source = Field::<f32, _>::new(device, moved.source())?;
        Ok(moved.bind(SourceTarget { source, target: Numbers::new(device, moved.target())? }).map(drop)?)
    });
    assert!(text.contains("field 1 holds 64-bit floats and its source 32-bit floats"), "{text}");
    // Rank 1 has no target, and knows only the components of the source.
    let text = refusal(|moved, device| {
        let components = 2 - moved.target().boxes().len();
        let source =
            Numbers::builder(moved.source()).components(components, ComponentPlace::Fastest).build(device)?;
        Ok(moved.bind(SourceTarget { source, target: Numbers::new(device, moved.target())? }).map(drop)?)
    });
    assert!(text.contains("components here and 2 on another rank"), "{text}");
    let text = refusal(|moved, device| {
        let (source, target) = (Numbers::new(device, moved.source())?, Numbers::new(device, moved.target())?);
        let options = BindOptions::default().accumulate(Combine::Sum);
        Ok(moved.bind_with(SourceTarget { source, target }, options).map(drop)?)
    });
    assert!(text.contains("`accumulate` is set for a redistribution"), "{text}");
}
