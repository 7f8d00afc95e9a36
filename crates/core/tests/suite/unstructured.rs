//! Patterns of cells with ids: a small mesh by hand, and refusals.

use std::sync::Arc;

use crate::common::*;
use haloport_core::device::Pointer;
use haloport_core::field::FieldBuilder;
use haloport_core::*;
use haloport_cpu::CpuDevice;

/// Ids far apart. Rank `r` owns the ids of its three cells, and has the nearest ones of its neighbours in its halo.
fn ring(comm: &Communicator) -> IndexSet {
    let ranks = comm.size() as i64;
    let id = |place: i64| place.rem_euclid(3 * ranks) * 5_000_000_007;
    let first = 3 * comm.rank() as i64;
    let places = [first + 3, first, first + 2, first - 1, first + 1, first - 1];
    let owned = [false, true, true, false, true, false];
    IndexSet::in_order(places.map(id), owned)
}

#[test]
fn halos_are_filled_in_any_local_order_with_levels() {
    for ranks in [1, 2, 3, 7] {
        for by_owner in [false, true] {
            run_ranks(ranks, |comm| -> Result<(), Failure> {
                let mut set = ring(&comm);
                if by_owner {
                    let (rank, ranks) = (comm.rank(), comm.size());
                    let below = (rank + ranks - 1) % ranks;
                    set = set.with_owners([(rank + 1) % ranks, below, below]);
                }
                let pattern = Pattern::unstructured(&comm, &[set.clone()], &HaloCells::All)?;
                assert_eq!(pattern.halo_cells(), 3);
                let field = Field::<f64, CpuDevice>::builder(&pattern).levels(4).build(&device()?)?;
                let mut exchange = pattern.bind(field)?;
                let value = |cell: &[i64]| (set.ids()[cell[0] as usize] * 10 + cell[1]) as f64;
                let owned = |cell: &[i64]| set.owned()[cell[0] as usize];
                exchange
                    .fields_mut()
                    .view_mut(0)?
                    .fill_with(|cell, _| if owned(cell) { value(cell) } else { -1.0 });
                exchange.run_blocking()?;
                let view = exchange.fields().view(0)?;
                for cell in 0..6 {
                    for level in 0..4 {
                        assert_eq!(view.get(&[cell, level]), Some(value(&[cell, level])), "{cell} {level}");
                    }
                }
                Ok(())
            })
            .unwrap();
        }
    }
}

/// Rank `r` owns the ids 10 r and 10 r + 1, as domain 1 of two, and has those of the next rank in its halo.
fn pairs(comm: &Communicator) -> [IndexSet; 2] {
    let (rank, ranks) = (comm.rank() as i64, comm.size() as i64);
    let next = (rank + 1) % ranks * 10;
    [IndexSet::new(&[], &[next + 1]), IndexSet::new(&[10 * rank, 10 * rank + 1], &[next, next + 1])]
}

/// Named owners for [`pairs`].
fn named(comm: &Communicator) -> [IndexSet; 2] {
    let next = (comm.rank() + 1) % comm.size();
    let [empty, pair] = pairs(comm);
    [empty.with_owners([next]), pair.with_owners([next, next])]
}

/// The error with which all ranks refuse domains that `change` has spoilt on rank `on`.
fn spoilt(ranks: usize, on: usize, change: impl Fn(&mut [IndexSet; 2]) + Sync) -> String {
    refused(ranks, |comm| {
        let mut domains = pairs(comm);
        if comm.rank() == on {
            change(&mut domains);
        }
        Ok(Pattern::unstructured(comm, &domains, &HaloCells::All).map(|_| ())?)
    })
}

#[test]
fn ids_that_nobody_owns_are_refused() {
    for ranks in [1, 2, 3, 7] {
        let last = ranks - 1;
        let text = spoilt(ranks, last, |domains| domains[0] = IndexSet::new(&[], &[0, 1 << 40]));
        assert_eq!(
            text,
            format!(
                "domain 0 of rank {last} has the id 1099511627776 in its halo (local index 1), but no rank owns it; let \
                 one domain own it, or list the halo cells to fill without it"
            )
        );
    }
}

#[test]
fn ids_that_are_owned_twice_are_refused() {
    let halo = [1, 11];
    let text = spoilt(2, 1, |domains| domains[0] = IndexSet::new(&[77, 5, 77], &halo));
    assert_eq!(text, "the id 77 is owned twice: by domain 0 of rank 1 and by domain 0 of rank 1");
    let text = spoilt(2, 1, |domains| domains[0] = IndexSet::new(&[11], &halo));
    assert_eq!(text, "the id 11 is owned twice: by domain 0 of rank 1 and by domain 1 of rank 1");
    for ranks in [3, 5] {
        // The rank that keeps the id in the directory finds the error, whichever rank that is.
        for id in [0, 1, 20, 21] {
            let text = spoilt(ranks, 1, |domains| domains[0] = IndexSet::new(&[id], &[]));
            let rank = id / 10;
            let mut owners = ["domain 0 of rank 1".into(), format!("domain 1 of rank {rank}")];
            if rank == 0 {
                owners.reverse();
            }
            assert_eq!(text, format!("the id {id} is owned twice: by {} and by {}", owners[0], owners[1]));
        }
    }
    // With named owners, each rank still sees its own error.
    let text = refused(2, |comm| {
        let mut domains = named(comm);
        if comm.rank() == 1 {
            domains[0] = IndexSet::new(&[10], &[]).with_owners([]);
        }
        Ok(Pattern::unstructured(comm, &domains, &HaloCells::All).map(|_| ())?)
    });
    assert_eq!(text, "the id 10 is owned twice: by domain 0 of rank 1 and by domain 1 of rank 1");
}

/// The same whether any rank wants a cell or not.
#[test]
fn ids_that_are_owned_twice_are_refused_without_halos_as_well() {
    for halo in [HaloCells::All, HaloCells::Ids(vec![])] {
        let text = refused(3, |comm| {
            let rank = comm.rank() as i64;
            let set = IndexSet::new(&[100 + rank, if rank == 0 { 1 } else { 7 }], &[]);
            Ok(Pattern::unstructured(comm, &[set], &halo).map(|_| ())?)
        });
        assert_eq!(text, "the id 7 is owned twice: by domain 0 of rank 1 and by domain 0 of rank 2");
    }
}

#[test]
fn lists_that_make_no_sense_are_refused() {
    for id in [-1, i64::MIN] {
        for owned in [true, false] {
            let text = spoilt(3, 2, |domains| domains[1] = IndexSet::in_order([3, id], [true, owned]));
            assert_eq!(text, format!("rank 2: domain 1 has the id {id}, expected ids of 0 and above"));
        }
    }
    let text = spoilt(2, 1, |domains| domains[0] = IndexSet::in_order([3, 4], [true]));
    assert_eq!(text, "rank 1: domain 0 has 2 ids, but 1 entries that say whether it owns them");
    let text = spoilt(2, 0, |domains| domains[1] = domains[1].clone().with_owners([1]));
    assert_eq!(text, "rank 0: domain 1 names 1 owners, expected one for each of the 2 cells of its halo");
    let text = spoilt(3, 1, |domains| domains[1] = domains[1].clone().with_owners([0, 3]));
    assert_eq!(text, "rank 1: domain 1 names rank 3 as an owner, expected ranks 0 to 2");
    let text = refused(2, |comm| {
        let halo = HaloCells::Ids(if comm.rank() == 1 { vec![1, 0, 21] } else { vec![10] });
        Ok(Pattern::unstructured(comm, &pairs(comm), &halo).map(|_| ())?)
    });
    assert_eq!(text, "rank 1: the list of halo cells has the id 21, which is in no halo of this rank");
    // A rank's own id is not in a halo either.
    let text = refused(2, |comm| {
        let halo = HaloCells::Ids(vec![10 * comm.rank() as i64]);
        Ok(Pattern::unstructured(comm, &pairs(comm), &halo).map(|_| ())?)
    });
    assert_eq!(text, "rank 0: the list of halo cells has the id 0, which is in no halo of this rank");
}

#[test]
fn owners_that_are_wrong_are_refused() {
    // All ranks name owners, or the directory finds them.
    for all in [true, false] {
        let text = refused(3, |comm| {
            let mut domains = if all || comm.rank() == 2 { named(comm) } else { pairs(comm) };
            if comm.rank() == 2 {
                domains[1] = domains[1].clone().with_owners([0, 1]);
            }
            Ok(Pattern::unstructured(comm, &domains, &HaloCells::All).map(|_| ())?)
        });
        assert_eq!(
            text,
            "domain 1 of rank 2 names rank 1 as the owner of the id 1 (local index 3), but rank 1 does not own it"
        );
    }
}

#[test]
fn cells_that_are_not_listed_need_no_owner() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let rank = comm.rank() as i64;
        let next = (rank + 1) % 3;
        let set = IndexSet::new(&[rank], &[next, 500]);
        let pattern = Pattern::unstructured(&comm, &[set], &HaloCells::Ids(vec![next]))?;
        assert_eq!(pattern.halo_cells(), 1);
        Ok(())
    })
    .unwrap();
}

#[test]
fn patterns_of_different_kinds_are_refused() {
    for boxes_on in [0, 1, 2] {
        let text = refused(3, |comm| {
            if comm.rank() == boxes_on {
                return line(comm).map(|_| ());
            }
            Ok(Pattern::unstructured(comm, &pairs(comm), &HaloCells::All).map(|_| ())?)
        });
        let expected = match boxes_on {
            0 => "rank 1: the pattern is unstructured here and structured on rank 0".into(),
            rank => format!("rank {rank}: the pattern is structured here and unstructured on rank 0"),
        };
        assert_eq!(text, expected);
    }
}

/// The error with which all ranks refuse a field of [`pairs`] that `build` makes differently on rank 1.
fn refused_field(
    build: impl Fn(FieldBuilder<f64, CpuDevice>, bool) -> FieldBuilder<f64, CpuDevice> + Sync,
) -> String {
    refused(3, |comm| {
        // A rank without domains agrees with any field.
        let domains = if comm.rank() == 0 { vec![] } else { pairs(comm).to_vec() };
        let halo = HaloCells::Ids(vec![]);
        let pattern = Pattern::unstructured(comm, &domains, &halo)?;
        let field = build(Field::builder(&pattern), comm.rank() == 1).build(&device()?)?;
        pattern.bind(field).map(|_| ())?;
        Ok(())
    })
}

#[test]
fn fields_that_differ_between_ranks_are_refused() {
    let text = refused(2, |comm| {
        let pattern = Pattern::unstructured(comm, &pairs(comm), &HaloCells::All)?;
        match comm.rank() {
            0 => pattern.bind(Field::<f64, _>::new(&device()?, &pattern)?).map(|_| ())?,
            _ => pattern.bind(Field::<i64, _>::new(&device()?, &pattern)?).map(|_| ())?,
        }
        Ok(())
    });
    assert_eq!(
        text,
        "rank 1: the fields are [64-bit integers (device 0)] here and [64-bit floats (device 0)] on rank 0; bind the same fields on every rank"
    );
    let text = refused_field(|field, odd| field.levels(if odd { 5 } else { 6 }));
    assert_eq!(
        text,
        "rank 1: field 0 has 5 exchanged levels along axis 1 here and 6 on another rank; expected the same on every rank"
    );
    let text = refused_field(|field, odd| field.levels(6).exchanged_levels(if odd { 1..3 } else { 2..4 }));
    assert_eq!(
        text,
        "rank 1: field 0 has exchanged levels along axis 1 that begin at 1 here and at 2 on another rank; expected the same on every rank"
    );
    let text = refused_field(|field, odd| {
        field.levels(6).components(if odd { 2 } else { 3 }, ComponentPlace::Slowest)
    });
    assert_eq!(
        text,
        "rank 1: field 0 has 2 components here and 3 on another rank; expected the same on every rank"
    );
    let text = refused_field(|field, odd| if odd { field } else { field.levels(1) });
    assert_eq!(
        text,
        "rank 1: field 0 has 1 axes here and 2 on another rank; expected the same on every rank"
    );
    let text = refused_field(|field, odd| field.further_axes(if odd { [3, 2] } else { [2, 3] }));
    assert_eq!(
        text,
        "rank 1: field 0 has 2 exchanged levels along axis 2 here and 3 on another rank; expected the same on every rank"
    );
}

#[test]
fn fields_that_do_not_fit_the_domains_are_refused() {
    // Of another pattern, with the same number of domains.
    let text = refused(2, |comm| {
        let pattern = Pattern::unstructured(comm, &pairs(comm), &HaloCells::All)?;
        let [empty, pair] = pairs(comm);
        let other = Pattern::unstructured(comm, &[pair, empty], &HaloCells::All)?;
        pattern.bind(Numbers::new(&device()?, &other)?).map(|_| ())?;
        Ok(())
    });
    assert_eq!(text, "rank 0: field 0 has the cells 0..4 as domain 0, expected its 0..1, halo included");
    let text = refused(2, |comm| {
        let pattern = Pattern::unstructured(comm, &pairs(comm), &HaloCells::All)?;
        let other = Pattern::unstructured(comm, &pairs(comm)[1..], &HaloCells::Ids(vec![]))?;
        pattern.bind(Numbers::new(&device()?, &other)?).map(|_| ())?;
        Ok(())
    });
    assert_eq!(text, "rank 0: field 0 has 1 blocks, expected one for each of the 2 domains");
    let text = refused(2, |comm| {
        let pattern = Pattern::unstructured(comm, &pairs(comm), &HaloCells::All)?;
        pattern.bind(Numbers::new(&device()?, &line(comm)?)?).map(|_| ())?;
        Ok(())
    });
    assert_eq!(text, "rank 0: field 0 has 1 blocks, expected one for each of the 2 domains");
    // One block with more levels than the other.
    let text = refused(2, |comm| {
        let pattern = Pattern::unstructured(comm, &pairs(comm), &HaloCells::All)?;
        let (mut one, mut two) = ([0.0; 3], [0.0; 8]);
        let block = |cells: i64, levels: i64| {
            let all = IndexBox::new([0, 0], [cells, levels]);
            BlockLayout::new(all, all, [levels, 1], 1, 1)
        };
        let blocks = vec![(&mut one[..], block(1, 3)?), (&mut two[..], block(4, 2)?)];
        pattern.bind(BorrowedField::new(&device()?, blocks)?).map(|_| ())?;
        Ok(())
    });
    assert_eq!(
        text,
        "rank 0: field 0, domain 1: it has 2 exchanged levels along axis 1 here and 3 in domain 0"
    );
}

#[test]
fn levels_that_are_not_there_are_refused() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let pattern = Pattern::unstructured(&comm, &pairs(&comm), &HaloCells::All)?;
        let text = |field: FieldBuilder<f64, CpuDevice>| {
            field.build(&CpuDevice::with_threads(1).unwrap()).unwrap_err().to_string()
        };
        let field = || Field::<f64, CpuDevice>::builder(&pattern);
        assert_eq!(
            text(field().levels(4).exchanged_levels(2..5)),
            "the exchanged levels: expected a range within 0..4, found 2..5"
        );
        assert_eq!(
            text(field().levels(4).exchanged_levels(std::ops::Range { start: 3, end: 2 })),
            "the exchanged levels: expected a range within 0..4, found 3..2"
        );
        assert_eq!(
            text(field().exchanged_levels(0..0)),
            "the exchanged levels: expected none: the field has no further axis; give it one with `levels` or \
             `further_axes`, found 0..0"
        );
        assert_eq!(
            text(field().further_axes([1, 2, 3, 4])),
            "the further axes of a field: expected at most 3 beside the 1 of the pattern; components are one more, found [1, 2, 3, 4]"
        );
        assert!(text(field().wider_margin(1)).starts_with("the margin of a field: expected 0 cells"));
        for huge in [usize::MAX, 1 << 62, 1 << 58] {
            assert!(text(field().levels(huge)).contains("memory"), "{huge} levels");
            assert!(text(field().further_axes([huge, huge])).contains("memory"), "{huge} levels twice");
        }
        let boxes = line(&comm)?;
        let field = || Field::<f64, CpuDevice>::builder(&boxes);
        assert!(text(field().exchanged_levels(0..1)).contains("the field has no further axis"));
        Ok(())
    })
    .unwrap();
}

#[test]
fn views_in_flight_reach_neither_halo_nor_sent_cells() {
    for path in [DataPath::Quickest, DataPath::Messages] {
        run_ranks(2, |comm| -> Result<(), Failure> {
            // Cells 1..3 and 5..10 are owned, with the halo between them; the other rank wants cell 6.
            let (rank, other) = (comm.rank() as i64, 1 - comm.rank() as i64);
            let owned: Vec<bool> = (0..11).map(|cell| ![0, 3, 4, 10].contains(&cell)).collect();
            let ids = (0..11)
                .zip(&owned)
                .map(|(cell, owned)| if *owned { 100 * rank + cell } else { 100 * other + 6 });
            let set = IndexSet::in_order(ids.collect::<Vec<i64>>(), owned);
            let pattern = Pattern::unstructured(&comm, &[set, IndexSet::new(&[], &[])], &HaloCells::All)?;
            assert_eq!(pattern.owned(0), Some(IndexBox::new([5], [10])));
            assert_eq!(pattern.interior(0), Some(IndexBox::new([7], [10])));
            assert_eq!((pattern.owned(1), pattern.interior(1)), (None, None));
            assert_eq!((pattern.owned(2), pattern.interior(2)), (None, None));
            for order in [[0, 1], [1, 0]] {
                let field = Field::<f64, _>::builder(&pattern).levels(3).axis_order(order).padding([2, 1]);
                let field = field.build(&device()?)?;
                let mut exchange = pattern.bind_with(field, BindOptions::default().prefer(path))?;
                let mut pending = exchange.start()?;
                let view = pending.owned(|field| field, 0)?;
                assert_eq!(view.region(), IndexBox::new([5, 0], [10, 3]));
                let mut interior = pending.interior_mut(|field| field, 0)?;
                assert_eq!(interior.region(), IndexBox::new([7, 0], [10, 3]));
                for cell in 0..11 {
                    for level in 0..4 {
                        let inside = (7..10).contains(&cell) && level < 3;
                        assert_eq!(interior.set(&[cell, level], 1.0), inside, "{cell} {level}");
                        // A row ends with the region.
                        let longest = if order == [0, 1] { 3 - level } else { 10 - cell };
                        let row = interior.row_mut(&[cell, level]).map(|row| row.len());
                        assert_eq!(row, inside.then_some(longest as usize), "{cell} {level}");
                    }
                }
                let empty = pending.owned(|field| field, 1)?;
                assert!(empty.region().is_empty());
                assert_eq!(empty.get(&[0, 0]), None);
                assert!(pending.interior_mut(|field| field, 1)?.region().is_empty());
                assert!(pending.interior_mut(|field| field, 2).is_err());
                pending.finish()?;
            }
            Ok(())
        })
        .unwrap();
    }
}

/// A block that exchanges none of its levels may hold fewer cells than its domain has.
#[test]
fn views_in_flight_end_where_the_memory_ends() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let owned: Vec<i64> = (0..10).collect();
        let pattern = Pattern::unstructured(&comm, &[IndexSet::new(&owned, &[])], &HaloCells::All)?;
        let (none, held) = (IndexBox::new([0, 3], [10, 3]), IndexBox::new([0, 0], [2, 3]));
        let layout = BlockLayout::new(none, held, [1, 2], 1, 1)?;
        let mut memory = vec![0.0; 6];
        let blocks = vec![(Pointer::new(memory.as_mut_ptr().cast()), layout)];
        // SAFETY: the block is as long as the memory, which nothing else uses and which the field keeps alive.
        let field = unsafe { Field::<f64, _>::from_raw(&device()?, blocks, true, Box::new(memory)) };
        let mut exchange = pattern.bind(field)?;
        let mut pending = exchange.start()?;
        let view = pending.owned(|field| field, 0)?;
        assert_eq!(view.region(), held);
        assert_eq!(view.row(&[0, 1]).map(<[f64]>::len), Some(2));
        let mut interior = pending.interior_mut(|field| field, 0)?;
        assert_eq!(interior.row_mut(&[1, 2]).map(|row| row.len()), Some(1));
        Ok(pending.finish()?)
    })
    .unwrap();
}

/// A rank's own cells may fill its halo, even in the same domain, whatever the rank sends elsewhere.
#[test]
fn what_a_domain_sends_to_itself_is_no_interior() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let ids: Arc<[i64]> = Arc::new([3, 4, 5, 4]);
        let set = IndexSet::in_order(ids, [true, true, true, false]);
        let pattern = Pattern::unstructured(&comm, &[set], &HaloCells::All)?;
        assert_eq!(pattern.interior(0), Some(IndexBox::new([0], [1])));
        let mut exchange = pattern.bind(Field::<i32, _>::new(&device()?, &pattern)?)?;
        exchange.fields_mut().view_mut(0)?.fill_with(|cell, _| 7 + cell[0] as i32);
        exchange.run_blocking()?;
        assert_eq!(exchange.fields().to_vec(0)?, [7, 8, 9, 8]);
        Ok(())
    })
    .unwrap();
}
