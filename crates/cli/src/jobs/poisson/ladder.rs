//! The solutions on all meshes, and the order of convergence.

use std::time::Instant;

use haloport::{Communicator, Reduction};
use haloport_demos::poisson::model::solver::{Errors, Poisson, Solution};
use haloport_mesh::Mesh;
use serde::Serialize;

use super::problem::Problem;
use crate::command::failure::Failure;
use crate::jobs::common::parts::by_curve;

/// The solution on one mesh.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rung {
    pub(super) mesh: String,
    pub(super) triangles: usize,
    pub(super) vertices: usize,
    /// Of all ranks: vertices of triangles that belong to another rank.
    pub(super) halo_vertices: usize,
    pub(super) iterations: usize,
    pub(super) seconds: f64,
    /// The root of the mean square of the error, as a part of that of the solution.
    pub(super) l2: f64,
    /// The largest error, as a part of the largest value.
    pub(super) linf: f64,
    /// The order of the error `l2` from the mesh before; null for the coarsest.
    pub(super) order: Option<f64>,
}

/// Collective: the solutions on all meshes, and on rank 0 the values on the finest one, by vertex.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn climb(
    comm: &Communicator,
    problem: &Problem,
) -> Result<(Vec<Rung>, Option<Vec<f64>>), Failure> {
    let (mut rungs, mut values) = (Vec::<Rung>::new(), None);
    for (name, mesh) in &problem.meshes {
        let began = Instant::now();
        let (poisson, solution) = solve(comm, problem, mesh)?;
        let seconds = began.elapsed().as_secs_f64();
        let Errors { l2, linf } = poisson.errors(&solution, |point| problem.exact.value(point))?;
        let halo = comm.all_reduce(poisson.halo_vertices() as u64, Reduction::Sum)? as usize;
        let order = rungs.last().map(|coarse| {
            let finer = (mesh.cells() as f64 / coarse.triangles as f64).sqrt();
            (coarse.l2 / l2).ln() / finer.ln()
        });
        values = poisson.gather(&solution)?;
        rungs.push(Rung {
            mesh: name.to_string(),
            triangles: mesh.cells(),
            vertices: mesh.vertices(),
            halo_vertices: halo,
            iterations: solution.iterations,
            seconds,
            l2,
            linf,
            order,
        });
    }
    Ok((rungs, values))
}

/// Collective: the equations on one mesh, and their solution.
///
/// # Errors
/// [`Failure::Run`].
pub(super) fn solve(
    comm: &Communicator,
    problem: &Problem,
    mesh: &Mesh,
) -> Result<(Poisson, Solution), Failure> {
    let mut poisson = Poisson::new(comm, mesh, &by_curve(mesh, comm.size())?)?;
    let exact = &problem.exact;
    let solution = poisson.solve(|point| exact.eigenvalue() * exact.value(point))?;
    Ok((poisson, solution))
}
