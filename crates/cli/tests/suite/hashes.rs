//! Fields have one hash on any number of ranks, also if they were saved halfway by any number of ranks, and restored on another.

use std::path::Path;

use crate::common::SMALL_RELIEF;
use haloport::comm::RanksError;
use haloport::cpu::CpuDevice;
use haloport::run_ranks;
use haloport_demos::advection::model::solver::{Model, Solver as TracerSolver};
use haloport_demos::advection::model::wind::Wind;
use haloport_demos::advection::states::{Run, SavedTracer, TracerWriter};
use haloport_demos::tsunami::model::relief::Relief;
use haloport_demos::tsunami::model::scheme::Physics;
use haloport_demos::tsunami::model::solver::Solver;
use haloport_demos::tsunami::model::uplift::{Uplift, initial_state};
use haloport_demos::tsunami::states::{SavedState, StateWriter};
use haloport_mesh::{Mesh, Partition};

/// The steps of each half of a run.
const STEPS: usize = 4;

/// The ranks that write or read a store, if there are as many.
const FILES: usize = 2;

/// Where a run begins.
#[derive(Clone, Copy)]
enum Begin<'p> {
    /// At the start; it is saved halfway in a store.
    Start { save: &'p Path },
    /// Halfway, as a store has it.
    Store(&'p Path),
}

/// Checks that `run` on any of 1 to 8 ranks, and from what any of 1 to 8 ranks have saved, ends with one hash on all ranks.
/// Returns it.
fn one_hash(run: impl Fn(usize, Begin<'_>) -> Result<Vec<u64>, RanksError>) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let mut one = None;
    for before in 1..=8 {
        let store = folder.path().join(format!("{before}.zarr"));
        let hashes = run(before, Begin::Start { save: &store }).unwrap();
        let one = *one.get_or_insert(hashes[0]);
        assert_eq!(hashes, vec![one; before], "{before} ranks");
        for after in 1..=8 {
            let hashes = run(after, Begin::Store(&store)).unwrap();
            assert_eq!(hashes, vec![one; after], "from {before} to {after} ranks");
        }
    }
    one.unwrap()
}

#[test]
fn a_tsunami_has_one_hash_on_any_ranks_and_after_any_restart() {
    let relief = Relief::from_path(SMALL_RELIEF).unwrap();
    let run = |height: f64, overlap: bool| {
        let (relief, uplift) = (&relief, Uplift { height, ..Uplift::SHIPPED });
        one_hash(|ranks, begin| {
            run_ranks(ranks, |comm| {
                let device = CpuDevice::with_threads(1)?;
                let mut solver = Solver::new(&comm, &device, relief, &Physics::default(), overlap)?;
                match begin {
                    Begin::Start { save } => {
                        solver.set_state(&initial_state(solver.block(), relief, &uplift))?;
                        (0..STEPS).try_for_each(|_| solver.step(f64::INFINITY).map(drop))?;
                        let mut writer = StateWriter::new(&comm, &mut solver, relief, &uplift, save, FILES)?;
                        writer.save(&mut solver, 600.0)?;
                    }
                    Begin::Store(store) => {
                        SavedState::open(store, relief)?.restore(&comm, &mut solver, relief, FILES)?;
                    }
                }
                (0..STEPS).try_for_each(|_| solver.step(f64::INFINITY).map(drop))?;
                solver.hash()
            })
        })
    };
    let one = run(2.5, true);
    assert_ne!(run(2.500001, false), one);
}

#[test]
fn a_tracer_has_one_hash_on_any_parts_and_after_any_restart() {
    let mesh = Mesh::icosahedral(3).unwrap();
    let (mesh, cells, levels) = (&mesh, mesh.cells(), 2);
    let about =
        Run { mesh: "icosahedral:3".into(), tracer: "a test".into(), alpha: 0.5, days: 1.0, limited: true };
    let model = Model { mesh, wind: Wind::tilted(0.5), levels, limited: true, overlap: true };
    one_hash(|ranks, begin| {
        // Along a curve before the restart, dealt out in turns after it.
        let partition = match begin {
            Begin::Start { .. } => Partition::by_curve(mesh, ranks).unwrap(),
            Begin::Store(_) => {
                Partition::given(mesh, (0..cells).map(|cell| cell % ranks).collect(), ranks).unwrap()
            }
        };
        run_ranks(ranks, |comm| {
            let device = CpuDevice::with_threads(1)?;
            let mut solver = TracerSolver::new(&comm, &device, &model, &partition, model.longest_step())?;
            match begin {
                Begin::Start { save } => {
                    solver.set_tracer(|cell, level| (cell * levels + level) as f64)?;
                    (0..STEPS).try_for_each(|_| solver.step())?;
                    let mut writer = TracerWriter::new(&comm, &mut solver, mesh, &about, save, FILES)?;
                    writer.save(&mut solver, 600.0)?;
                }
                Begin::Store(store) => {
                    SavedTracer::open(store, cells, levels, &about)?.restore(&comm, &mut solver, FILES)?;
                }
            }
            (0..STEPS).try_for_each(|_| solver.step())?;
            solver.hash()
        })
    });
}
