//! Errors over two refinements, and the order of convergence.

use haloport::Communicator;
use haloport::device::Device;
use serde::Serialize;

use super::carry::{Files, carry_and_measure};
use super::problem::{Case, DAY, Problem};
use crate::command::failure::Failure;
use crate::jobs::common::progress::Progress;
use crate::mesh::name::MeshName;
use haloport_demos::advection::model::norms::Norms;
use haloport_demos::advection::model::tracer::Tracer;
use haloport_demos::advection::model::wind::PERIOD;

/// Divisions of the icosahedron's edges from which on the errors of a hill follow a power of the cell's size.
const FINE_ENOUGH: usize = 16;

/// Days after which errors are larger than those of the first steps.
const LONG_ENOUGH: f64 = 1.0;

/// The errors of the first level on one mesh.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rung {
    pub(super) mesh: String,
    pub(super) cells: usize,
    pub(super) norms: Norms,
    /// From those of the next coarser mesh; null for the coarsest.
    pub(super) order: Option<Norms>,
}

/// The length of the compared runs: that of the job, but once round at most, since coarse meshes have little left of a
/// hill afterwards.
pub(super) fn days(case: &Case) -> f64 {
    case.days.clamp(LONG_ENOUGH, PERIOD)
}

/// Collective: errors on three meshes of the family, each finer than the one before, after [`days`]. The finest is the
/// job's own, or a finer one if that is too coarse to show an order. `norms` are the errors of the job, which does not
/// run again. Empty on all ranks but 0.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn ladder<D: Device>(
    comm: &Communicator,
    device: &D,
    problem: &Problem,
    norms: Norms,
) -> Result<Vec<Rung>, Failure> {
    let mut rungs: Vec<Rung> = Vec::new();
    let days = days(&problem.case);
    for name in meshes(problem.case.name) {
        let (cells, norms) = if name == problem.case.name && days == problem.case.days {
            (problem.case.mesh.cells(), norms)
        } else {
            let Case { tracer, limited, overlap, .. } = problem.case;
            let case = Case::new(name, Tracer { levels: 1, ..tracer }, days, limited, overlap)?;
            let partition = case.by_curve(comm.size())?;
            let shown = problem.show_progress && comm.rank() == 0;
            let progress = Progress::simulated(days * DAY, "other meshes", shown);
            let (_, measured) = carry_and_measure(
                comm,
                device,
                &case,
                &partition,
                &Files::default(),
                &progress,
                |_, _, _| (),
            )?;
            (case.mesh.cells(), measured.first_norms)
        };
        let order = rungs.last().map(|coarse| coarse.norms.order(norms, [coarse.cells, cells]));
        rungs.push(Rung { mesh: name.to_string(), cells, norms, order });
    }
    Ok(if comm.rank() == 0 { rungs } else { Vec::new() })
}

/// Three meshes, the coarsest first.
fn meshes(name: MeshName) -> Vec<MeshName> {
    let mut finest = name;
    while finest.divisions().is_some_and(|divisions| divisions < FINE_ENOUGH) {
        finest = finest.finer();
    }
    let mut meshes: Vec<MeshName> =
        std::iter::successors(Some(finest), |name| name.coarser()).take(3).collect();
    meshes.reverse();
    meshes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_ends_at_the_mesh_or_at_one_that_is_fine_enough() {
        let names = |name: &str| -> Vec<String> {
            meshes(name.parse().unwrap()).iter().map(ToString::to_string).collect()
        };
        assert_eq!(names("icon:R2B5"), ["icon:R2B3", "icon:R2B4", "icon:R2B5"]);
        assert_eq!(names("icon:R2B0"), ["icon:R2B1", "icon:R2B2", "icon:R2B3"]);
        assert_eq!(names("icosahedral:21"), ["icosahedral:5", "icosahedral:10", "icosahedral:21"]);
        assert_eq!(names("icosahedral:5"), ["icosahedral:5", "icosahedral:10", "icosahedral:20"]);
    }
}
