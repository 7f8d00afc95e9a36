//! Patterns of numbered cells: a small mesh by hand, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::*;
use haloport_core::*;
use haloport_cpu::CpuDevice;

/// Ids far apart; rank `r` owns those of its three cells, and has its neighbours' nearest ones in its halo.
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
                exchange.exchange(Schedule::Blocking)?;
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
