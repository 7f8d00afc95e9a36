//! The tsunami on ranks: fields do not depend on the cells computed while halos travel.

use haloport::cpu::CpuDevice;
use haloport::run_ranks;
use haloport_conformance::usual;
use haloport_demos::tsunami::model::SHIPPED;
use haloport_demos::tsunami::model::relief::Relief;
use haloport_demos::tsunami::model::scheme::Physics;
use haloport_demos::tsunami::model::solver::{Solver, Whole};
use haloport_demos::tsunami::model::uplift::{Uplift, initial_state};

/// The fields after some steps.
fn fields(relief: &Relief, uplift: &Uplift, ranks: usize, overlap: bool) -> Whole {
    let wholes = run_ranks(ranks, |comm| {
        let device = CpuDevice::with_threads(1)?;
        let mut solver = Solver::new(&comm, &device, relief, &Physics::default(), overlap)?;
        solver.set_state(&initial_state(solver.block(), relief, uplift))?;
        for _ in 0..usual(8, 60) {
            solver.step(f64::INFINITY)?;
        }
        solver.gather()
    });
    wholes.unwrap().into_iter().next().flatten().unwrap()
}

#[test]
fn overlap_and_ranks_change_no_bit() {
    let uplift = Uplift { height: 6.0, ..Uplift::default() };
    let compare = |relief: &Relief, ranks: &[usize]| {
        let alone = fields(relief, &uplift, 1, false);
        assert!(alone.hu.iter().any(|&hu| hu.abs() > 0.1), "nothing moves");
        for &ranks in ranks {
            for overlap in [true, false] {
                let together = fields(relief, &uplift, ranks, overlap);
                assert_eq!(together.differing(&alone), 0, "{ranks} ranks, overlap: {overlap}");
            }
        }
    };
    let shipped = Relief::from_bytes(SHIPPED).unwrap();
    // From blocks of several chunks of columns, with neighbours on all sides, to blocks that are all boundary.
    compare(&shipped, &[1, 9, 59]);
    compare(&shipped.refine(2).unwrap(), &[6]);
}
