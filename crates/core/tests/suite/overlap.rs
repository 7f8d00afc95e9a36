//! Work beside an exchange: the cells that it may compute, and the order of the calls.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use crate::common::*;
use haloport_core::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// A random grid in boxes, several of them on some ranks.
struct Boxes {
    grid: Grid,
    halo: Halo,
    widths: Vec<(i64, i64)>,
    /// The boxes of each rank.
    domains: Vec<Vec<IndexBox>>,
}

impl Boxes {
    fn random(random: &mut StdRng, ranks: usize) -> Boxes {
        let axes = random.random_range(1..=4);
        let grid = if axes == 3 && random.random_bool(0.3) {
            Grid::cubed_sphere(random.random_range(2..=6)).unwrap()
        } else {
            let longest: usize = [30, 12, 7, 5][axes - 1];
            let extents: Vec<usize> = (0..axes).map(|_| random.random_range(1..=longest)).collect();
            let periodic: Vec<bool> = (0..axes).map(|_| random.random_bool(0.4)).collect();
            Grid::new(extents).unwrap().periodic(periodic).unwrap()
        };
        let width = |axis: usize, random: &mut StdRng| match grid.is_cubed_sphere() {
            true if axis == 0 => 0,
            true => random.random_range(0..=grid.extent(axis).min(3)),
            false => random.random_range(0..=3),
        };
        let widths: Vec<(usize, usize)> =
            (0..axes).map(|axis| (width(axis, random), width(axis, random))).collect();
        let kind = *[Connectivity::All, Connectivity::Faces].choose(random).unwrap();
        let mut boxes = vec![grid.bounds()];
        for _ in 0..random.random_range(0..3 * ranks) {
            let cut = boxes.swap_remove(random.random_range(0..boxes.len()));
            let axis = random.random_range(0..axes);
            let at = random.random_range(cut.lower()[axis]..=cut.upper()[axis]);
            boxes.push(cut.with_axis(axis, cut.lower()[axis], at));
            boxes.push(cut.with_axis(axis, at, cut.upper()[axis]));
        }
        let mut domains = vec![Vec::new(); ranks];
        boxes.into_iter().for_each(|domain| domains[random.random_range(0..ranks)].push(domain));
        Boxes {
            grid,
            halo: Halo::per_side(&widths).with_connectivity(kind),
            widths: widths.into_iter().map(|(below, above)| (below as i64, above as i64)).collect(),
            domains,
        }
    }

    /// Whether the stencil of `cell` meets any of `filled`.
    fn needs(&self, cell: &[i64], filled: &HashSet<Vec<i64>>) -> bool {
        let reach = IndexBox::new(
            cell.iter().zip(&self.widths).map(|(at, (below, _))| at - below).collect::<Vec<_>>(),
            cell.iter().zip(&self.widths).map(|(at, (_, above))| at + above + 1).collect::<Vec<_>>(),
        );
        let along_axes = self.halo.connectivity() == Connectivity::Faces;
        cells(&reach).into_iter().any(|other| {
            let off = other.iter().zip(cell).filter(|(one, other)| one != other).count();
            (!along_axes || off <= 1) && filled.contains(&other)
        })
    }
}

fn cells(of: &IndexBox) -> Vec<Vec<i64>> {
    (0..of.axes()).fold(vec![Vec::new()], |cells, axis| {
        let along = of.lower()[axis]..of.upper()[axis];
        cells.iter().flat_map(|cell| along.clone().map(move |at| [&cell[..], &[at]].concat())).collect()
    })
}

#[test]
fn the_interior_of_a_box_is_what_needs_no_cell_that_is_filled() {
    let mut counts = [0; 3];
    for number in 0..800 {
        let mut random = StdRng::seed_from_u64(number);
        let ranks = random.random_range(1..=4);
        let case = Boxes::random(&mut random, ranks);
        let found = run_ranks(ranks, |comm| -> Result<Vec<[usize; 3]>, Failure> {
            let domains = &case.domains[comm.rank()];
            let pattern = Pattern::structured(&comm, &case.grid, domains, &case.halo)?;
            assert_eq!(pattern.regions(domains.len()), None);
            assert_eq!(pattern.cell_regions(0, |_| []), None);
            let each = domains.iter().enumerate().map(|(domain, owned)| {
                let received = pattern.receives().values().flatten();
                let targets = received.filter(|piece| piece.target_domain == domain);
                let filled: HashSet<Vec<i64>> =
                    targets.flat_map(|piece| cells(piece.target.as_box().unwrap())).collect();
                let Regions { interior, boundary } = pattern.regions(domain).unwrap();
                assert!(interior.is_none_or(|interior| !interior.is_empty()));
                assert!(boundary.len() <= 2 * owned.axes() && boundary.iter().all(|part| !part.is_empty()));
                let mut all = HashSet::new();
                for cell in interior.iter().flat_map(cells) {
                    assert!(!case.needs(&cell, &filled), "{number}: {cell:?} needs the halo");
                    all.insert(cell);
                }
                for cell in boundary.iter().flat_map(cells) {
                    assert!(case.needs(&cell, &filled), "{number}: {cell:?} needs no halo");
                    assert!(all.insert(cell), "{number}: a cell is in two regions");
                }
                assert_eq!(all, cells(owned).into_iter().collect(), "{number}: {owned}");
                let some = |is: bool| usize::from(is && !owned.is_empty());
                [some(interior.is_none()), some(boundary.is_empty()), some(boundary.len() > 2)]
            });
            Ok(each.collect())
        });
        for kinds in found.unwrap().into_iter().flatten() {
            (0..3).for_each(|kind| counts[kind] += kinds[kind]);
        }
    }
    assert!(counts.iter().all(|&count| count > 50), "cases of a kind are rare: {counts:?}");
}

#[test]
fn what_a_pending_exchange_lends_is_touched_by_no_exchange_and_is_all_that_an_interior_needs() {
    let mut beyond = 0;
    for number in 0..300 {
        let mut random = StdRng::seed_from_u64(number);
        let ranks = random.random_range(1..=4);
        let case = Boxes::random(&mut random, ranks);
        let wider = random.random_range(0..3);
        let lent = run_ranks(ranks, |comm| {
            let domains = &case.domains[comm.rank()];
            let pattern = Pattern::structured(&comm, &case.grid, domains, &case.halo)?;
            let field = Field::<i8, _>::builder(&pattern).wider_margin(wider).build(&device()?)?;
            let mut exchange = pattern.bind(field)?;
            let mut pending = exchange.start()?;
            let mut beyond = 0;
            for (domain, owned) in domains.iter().enumerate().filter(|(_, owned)| !owned.is_empty()) {
                let of = |pieces: &BTreeMap<usize, Vec<Piece>>, which: fn(&Piece) -> (usize, &Cells)| {
                    let all = pieces.values().flatten().map(which).filter(|(of, _)| *of == domain);
                    all.map(|(_, cells)| *cells.as_box().unwrap()).collect::<Vec<_>>()
                };
                let filled = of(pattern.receives(), |piece| (piece.target_domain, &piece.target));
                let sent = of(pattern.sends(), |piece| (piece.source_domain, &piece.source));
                let readable = pending.owned(|field| field, domain)?.region();
                let writable = pending.interior_mut(|field| field, domain)?.region();
                assert!(readable.encloses(owned), "{number}: {readable} lacks some of {owned}");
                let free = |region: IndexBox, taken: &[IndexBox]| {
                    taken.iter().all(|taken| region.intersection(taken).is_none())
                };
                assert!(free(readable, &filled), "{number}: {readable} is readable and {filled:?} filled");
                assert!(free(writable, &filled), "{number}: {writable} is writable and {filled:?} filled");
                assert!(free(writable, &sent), "{number}: {writable} is writable and {sent:?} sent");
                if let Some(interior) = pattern.regions(domain).and_then(|regions| regions.interior) {
                    for axis in 0..interior.axes() {
                        let ((below, above), (lower, upper)) =
                            (case.widths[axis], (interior.lower()[axis], interior.upper()[axis]));
                        let reach = interior.with_axis(axis, lower - below, upper + above);
                        assert!(readable.encloses(&reach), "{number}: {reach} is read, not in {readable}");
                    }
                }
                beyond += usize::from(readable != *owned);
            }
            pending.finish()?;
            Ok(beyond)
        });
        beyond += lent.unwrap().iter().sum::<usize>();
    }
    assert!(beyond > 100, "views that reach beyond the domain are rare: {beyond}");
}

#[test]
fn a_halo_that_is_wider_on_one_side_cuts_that_side() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let grid = Grid::new([20])?.periodic([true])?;
        let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::per_side([(3, 1)]))?;
        let first = 10 * comm.rank() as i64;
        // The neighbour above reads three cells, the one below reads one.
        assert_eq!(pattern.interior(0), Some(IndexBox::new([first + 1], [first + 7])));
        let regions = pattern.regions(0).unwrap();
        assert_eq!(regions.interior, Some(IndexBox::new([first + 3], [first + 9])));
        let ends = [(first, first + 3), (first + 9, first + 10)];
        assert_eq!(regions.boundary, ends.map(|(lower, upper)| IndexBox::new([lower], [upper])));
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_interior_of_lists_is_what_reads_no_cell_that_is_filled() {
    for number in 0..200 {
        let mut random = StdRng::seed_from_u64(number);
        let (ranks, count) = (random.random_range(1..=4), random.random_range(0..40));
        let owners: Vec<usize> = (0..count).map(|_| random.random_range(0..ranks)).collect();
        let listed = random.random_bool(0.5);
        run_ranks(ranks, |comm| -> Result<(), Failure> {
            let mut random = StdRng::seed_from_u64(number * 10 + comm.rank() as u64);
            let mut ids: Vec<i64> = (0..count as i64).filter(|_| random.random_bool(0.7)).collect();
            ids.sort_by_key(|id| (id * 7919) % 101);
            // All owned cells must be there, wherever they are in the list.
            let missing = (0..count as i64).filter(|&id| owners[id as usize] == comm.rank());
            let missing: Vec<i64> = missing.filter(|id| !ids.contains(id)).collect();
            ids.extend(missing);
            let owned: Vec<bool> = ids.iter().map(|&id| owners[id as usize] == comm.rank()).collect();
            let halo: Vec<i64> =
                ids.iter().zip(&owned).filter(|(_, owned)| !**owned).map(|(id, _)| *id).collect();
            let wanted = if listed {
                HaloCells::Ids(halo.iter().copied().filter(|_| random.random_bool(0.5)).collect())
            } else {
                HaloCells::All
            };
            let set = IndexSet::in_order(ids.clone(), owned.clone());
            let pattern = Pattern::unstructured(&comm, &[IndexSet::new(&[], &[]), set], &wanted)?;
            // Up to three cells; one may be beyond the last.
            let reads: Vec<Vec<usize>> = (0..ids.len())
                .map(|_| (0..random.random_range(0..4)).map(|_| random.random_range(0..=ids.len())).collect())
                .collect();
            let found = pattern.cell_regions(1, |cell| reads[cell].iter().copied()).unwrap();
            let is_filled = |read: usize| match (&wanted, owned.get(read)) {
                (_, None) => true,
                (_, Some(true)) => false,
                (HaloCells::All, _) => true,
                (HaloCells::Ids(listed), _) => listed.contains(&ids[read]),
            };
            let here = (0..ids.len() as u32).filter(|&cell| owned[cell as usize]);
            let (boundary, interior): (Vec<u32>, Vec<u32>) =
                here.partition(|&cell| reads[cell as usize].iter().any(|&read| is_filled(read)));
            assert_eq!(found, CellRegions { interior, boundary }, "{number}");
            assert_eq!(pattern.cell_regions(0, |_| [0]), Some(CellRegions::default()));
            assert_eq!(pattern.cell_regions(2, |_| []), None);
            assert_eq!(pattern.regions(1), None);
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn the_interior_runs_before_the_halo_is_there_and_the_boundary_after() {
    for ranks in [1, 2, 3] {
        run_ranks(ranks, |comm| -> Result<(), Failure> {
            let mut exchange = bound(&comm, DataPath::Quickest)?;
            let first = 4 * comm.rank() as i64;
            for round in 0..10 {
                prepare(exchange.fields_mut(), round)?;
                let mut order = Vec::new();
                exchange.overlap(
                    &mut order,
                    |pending, order| {
                        order.push("interior");
                        assert_eq!(pending.owned(|field| field, 0)?.get(&[first - 1]), None);
                        assert!(pending.interior_mut(|field| field, 0)?.set(&[first + 1], 7.0));
                        Ok(())
                    },
                    |field, order| {
                        order.push("boundary");
                        assert_eq!(field.view(0)?.get(&[first + 1]), Some(7.0));
                        field.view_mut(0)?[[first + 1]] = (1000 * round) as f64 + (first + 1) as f64;
                        verify(field, round, comm.size())
                    },
                )?;
                assert_eq!(order, ["interior", "boundary"]);
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn an_interior_that_fails_fails_after_the_neighbours_have_their_halos() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let mut exchange = bound(&comm, DataPath::Quickest)?;
        prepare(exchange.fields_mut(), 1)?;
        let ended = exchange.overlap(
            &mut (),
            |_, ()| if comm.rank() == 1 { Err("no heat".into()) } else { Ok(()) },
            |_, ()| if comm.rank() == 1 { panic!("the boundary runs after a failure") } else { Ok(()) },
        );
        match ended {
            Err(error) => assert_eq!((comm.rank(), error.to_string().as_str()), (1, "no heat")),
            Ok(()) => assert_ne!(comm.rank(), 1),
        }
        verify(exchange.fields(), 1, comm.size())?;
        // The exchange can be used as before.
        prepare(exchange.fields_mut(), 2)?;
        exchange.run()?;
        verify(exchange.fields(), 2, comm.size())
    })
    .unwrap();
}

#[test]
fn the_exchange_s_own_errors_are_the_caller_s() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let mut exchange = bound(&comm, DataPath::Quickest)?;
        let mut other = Numbers::new(&device()?, &line(&comm)?)?;
        std::mem::swap(exchange.fields_mut(), &mut other);
        let ended = exchange.overlap(&mut (), |_, ()| Ok(()), |_, ()| Ok(()));
        assert!(matches!(ended, Err(StepError::Exchange(ExchangeError::FieldsReplaced))), "{ended:?}");
        std::mem::swap(exchange.fields_mut(), &mut other);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_halo_that_does_not_come_is_an_error_and_no_boundary_runs() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let mut exchange = bound(&comm, DataPath::Messages)?;
        if comm.rank() == 0 {
            comm.set_time_limit(Some(Duration::from_millis(100)));
            let mut computed = false;
            let ended = exchange.overlap(
                &mut computed,
                |_, computed| {
                    *computed = true;
                    Ok(())
                },
                |_, _| panic!("the boundary runs without a halo"),
            );
            let error = ended.unwrap_err().to_string();
            assert!(computed && error.contains("rank 1") && error.contains("100ms"), "{error}");
        }
        comm.set_time_limit(Some(Duration::from_secs(30)));
        comm.barrier()?;
        Ok(())
    })
    .unwrap();
}
