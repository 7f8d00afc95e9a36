//! Finding the owners of halos on many ranks: the result is right, and the work of a rank depends only on its own cells
//! and neighbours.

use std::time::Duration;

use crate::counting::{Counters, Counting};
use haloport_conformance::{Failure, drawn, ensure, usual};
use haloport_core::pattern::SetupCost;
use haloport_core::{
    Communicator, Field, Grid, Halo, HaloCells, IndexBox, IndexSet, Pattern, PatternError, Split, run_ranks,
};
use haloport_cpu::CpuDevice;
use haloport_mesh::{LocalItems, LocalMesh, Mesh, Neighbourhood, Partition};

const RANKS: usize = 1024;

/// The number of ranks of meshes, by default a fourth of all, and how often their mesh is bisected: each rank has 20 cells.
fn ranks_of_meshes() -> (usize, u32) {
    usual((RANKS / 4, 3), (RANKS, 4))
}

/// The most that a rank may hold and send, as a multiple of its own ids.
const MOST: f64 = 4.0;

#[test]
fn owners_on_many_ranks_are_found_at_the_cost_of_ones_own_cells() {
    let (ranks, bisections) = ranks_of_meshes();
    let mesh = Mesh::icon(2, bisections).unwrap();
    assert_eq!(mesh.cells(), 20 * ranks);
    let partition = Partition::by_curve(&mesh, ranks).unwrap();
    let worst = run_ranks(ranks, |comm| -> Result<Vec<(String, f64, f64)>, Failure> {
        comm.set_time_limit(Some(Duration::from_secs(300)));
        let (comm, counters) = Counting::around(&comm);
        let mut costs = Vec::new();
        for &(levels, neighbourhood) in drawn(&[(1, Neighbourhood::Edges), (2, Neighbourhood::Vertices)]) {
            let local = LocalMesh::new(&mesh, &partition, comm.rank(), levels, neighbourhood);
            for (what, items) in
                [("cells", local.cells()), ("edges", local.edges()), ("vertices", local.vertices())]
            {
                // A part may own no vertices; its own ids are then those of its halo.
                for named in [false, true] {
                    let set = index_set(items, named);
                    let cost = discover(&comm, &counters, &set)?;
                    let own = set.len() as f64;
                    let (table, messages) = (cost.largest_table as f64 / own, cost.messages as f64 / own);
                    let case = format!("{levels} levels, {what}, owners named: {named}");
                    ensure!(
                        table <= MOST && messages <= MOST,
                        "{case}: {cost:?} for {} ids of its own",
                        set.len()
                    );
                    costs.push((case, table, messages));
                }
            }
        }
        Ok(costs)
    })
    .unwrap();
    for case in 0..worst[0].len() {
        let most = |of: fn(&(String, f64, f64)) -> f64| {
            worst.iter().map(|costs| of(&costs[case])).fold(0.0, f64::max)
        };
        let (name, ..) = &worst[0][case];
        println!(
            "{name}: largest table {:.2}, messages {:.2} of a rank's own ids",
            most(|it| it.1),
            most(|it| it.2)
        );
    }
}

fn index_set(items: &LocalItems, named: bool) -> IndexSet {
    let (owned, halo) = items.ids().split_at(items.owned());
    let set = IndexSet::new(owned, halo);
    let owners: Vec<usize> = items.halo().map(|item| items.owner(item)).collect();
    if named { set.with_owners(owners) } else { set }
}

/// Makes the pattern, verifies it, and returns its cost, which is also counted at the transport.
fn discover(comm: &Communicator, counters: &Counters, set: &IndexSet) -> Result<SetupCost, Failure> {
    counters.take();
    let pattern = Pattern::unstructured(comm, std::slice::from_ref(set), &HaloCells::All)?;
    let cost = pattern.setup_cost();
    let counts = counters.take();
    ensure!(cost.messages == counts.sent, "{cost:?}, and the transport counts {counts:?}");
    ensure!(counts.received <= 4 * set.len(), "the transport counts {counts:?} for {} ids", set.len());
    let largest = pattern.sends().values().flatten().map(|piece| piece.source.count()).sum::<u128>();
    ensure!(cost.largest_table >= set.len(), "{cost:?}, and the rank has {} ids", set.len());
    ensure!(cost.largest_table as u128 >= largest, "{cost:?}, and the rank sends {largest} cells");

    let field = Field::<i64, CpuDevice>::new(&CpuDevice::with_threads(1)?, &pattern)?;
    let mut exchange = pattern.bind(field)?;
    let owned = set.owned();
    exchange.fields_mut().view_mut(0)?.fill_with(|cell, _| {
        let cell = cell[0] as usize;
        if owned[cell] { !set.ids()[cell] } else { 0 }
    });
    exchange.run_blocking()?;
    let view = exchange.fields().view(0)?;
    for (cell, &id) in set.ids().iter().enumerate() {
        let found = view.get(&[cell as i64]);
        ensure!(found == Some(!id), "cell {cell} with the id {id}: found {found:?}");
    }
    Ok(cost)
}

#[test]
fn runs_of_ids_are_kept_together() {
    // If each of a rank's 4096 ids had another keeper, every rank would send to almost every other one.
    const OWNED: i64 = 4096;
    let all = RANKS as i64 * OWNED;
    run_ranks(RANKS, |comm| -> Result<(), Failure> {
        comm.set_time_limit(Some(Duration::from_secs(300)));
        let (comm, counters) = Counting::around(&comm);
        let first = comm.rank() as i64 * OWNED;
        let owned: Vec<i64> = (first..first + OWNED).collect();
        let set = IndexSet::new(&owned, &[(first + all - 1) % all, (first + OWNED) % all]);
        let cost = discover(&comm, &counters, &set)?;
        ensure!(cost.messages <= 300, "{cost:?}");
        ensure!(cost.largest_table as i64 <= 2 * OWNED, "{cost:?}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn boxes_of_any_shape_are_found_at_the_cost_of_ones_own_neighbours() {
    let grid = Grid::new([64, 64, 64]).unwrap().periodic([true; 3]).unwrap();
    for (parts, neighbours) in [([4, 4, 4], 26), ([1, 8, 8], 8), ([64, 1, 1], 2), ([1, 1, 64], 2)] {
        let split = Split::even(&grid, parts).unwrap();
        run_ranks(64, |comm| -> Result<(), Failure> {
            let (comm, counters) = Counting::around(&comm);
            let mine = split.part(comm.rank());
            let pattern = Pattern::structured(&comm, &grid, mine.as_slice(), &Halo::uniform(1))?;
            let (cost, counts) = (pattern.setup_cost(), counters.take());
            ensure!(cost.messages == counts.sent, "{cost:?}, and the transport counts {counts:?}");
            // A question, an answer and a request for each neighbour; no other rank gets a message about the domain.
            ensure!(cost.messages <= 3 * neighbours, "{cost:?} for {neighbours} neighbours, {parts:?} parts");
            ensure!(
                counts.received <= 3 * neighbours,
                "{counts:?} for {neighbours} neighbours, {parts:?} parts"
            );
            // A halo has a box in each of the 26 directions.
            let halo = pattern.receives().values().flatten().count();
            ensure!((halo..=2 * halo).contains(&cost.largest_table), "{cost:?} for {halo} boxes of halo");
            Ok(())
        })
        .unwrap();
    }
}

/// Between cuts that are shifted by half a domain, each rank has two neighbours on either side.
#[test]
fn a_redistribution_on_1024_ranks_has_the_cost_of_ones_own_cells() {
    const OWNED: i64 = 16;
    let all = RANKS as i64 * OWNED;
    run_ranks(RANKS, |comm| -> Result<(), Failure> {
        comm.set_time_limit(Some(Duration::from_secs(300)));
        let (comm, counters) = Counting::around(&comm);
        let grid = Grid::new([all as usize])?;
        let first = comm.rank() as i64 * OWNED;
        let last = comm.rank() + 1 == RANKS;
        let shifted =
            [first + if first > 0 { OWNED / 2 } else { 0 }, if last { all } else { first + OWNED * 3 / 2 }];
        let boxes = |[lower, upper]: [i64; 2]| {
            Pattern::structured(&comm, &grid, &[IndexBox::new([lower], [upper])], &Halo::uniform(1))
        };
        let lists = |[lower, upper]: [i64; 2]| {
            let set = IndexSet::new(&(lower..upper).collect::<Vec<_>>(), &[]);
            Pattern::unstructured(&comm, &[set], &HaloCells::All)
        };
        let from_to = [first, first + OWNED];
        for [from, to] in [[boxes(from_to)?, boxes(shifted)?], [lists(from_to)?, lists(shifted)?]] {
            counters.take();
            let made = from.redistribute_with_halo(&to)?;
            let (cost, counts) = (made.setup_cost(), counters.take());
            ensure!(cost.messages == counts.sent, "{cost:?}, and the transport counts {counts:?}");
            let (table, messages) = if from.grid().is_some() { (32, 32) } else { (10 * OWNED as usize, 100) };
            ensure!(cost.largest_table <= table && cost.messages <= messages, "{cost:?}");
            ensure!(counts.received <= 2 * messages, "{counts:?}");
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn one_wrong_id_is_told_to_all_of_many_ranks() {
    let texts = run_ranks(256, |comm| -> Result<String, Failure> {
        let rank = comm.rank() as i64;
        let halo = if rank == 200 { 1_000_000 } else { (rank + 1) % 256 };
        let pattern = Pattern::unstructured(&comm, &[IndexSet::new(&[rank], &[halo])], &HaloCells::All);
        match pattern {
            Err(PatternError::Refused(text)) => Ok(text),
            other => Err(format!("it was not refused: {other:?}").into()),
        }
    })
    .unwrap();
    assert!(texts[0].contains("1000000") && texts[0].contains("rank 200"), "{}", texts[0]);
    assert!(texts.iter().all(|text| *text == texts[0]));
}
