//! The meshes and the exact solution.

use std::iter::successors;

use haloport_demos::poisson::model::harmonic::Harmonic;
use haloport_mesh::Mesh;

use super::args::PoissonArgs;
use crate::command::failure::Failure;
use crate::command::memory::{gib, room_on_host};
use crate::mesh::name::MeshName;

/// Bytes of memory for each triangle, about: the mesh, its parts on all ranks, and the equations.
const BYTES_PER_TRIANGLE: u128 = 1500;

/// The most meshes.
const MESHES: usize = 3;

/// Parts of the icosahedron's edges from which on the error follows a power of the triangles' size, for each degree of the harmonic.
const FINE_ENOUGH: usize = 4;

/// The problem, the same on all ranks.
#[derive(Debug)]
pub(super) struct Problem {
    /// The coarsest first.
    pub(super) meshes: Vec<(MeshName, Mesh)>,
    pub(super) exact: Harmonic,
}

impl Problem {
    /// Makes the meshes.
    ///
    /// # Errors
    /// [`Failure::BadInput`] if one cannot be made or is too large for the machine.
    pub(super) fn new(args: &PoissonArgs) -> Result<Problem, Failure> {
        let needed = (args.mesh.cells().unwrap_or(usize::MAX) as u128).saturating_mul(BYTES_PER_TRIANGLE);
        if let Some(room) = room_on_host().filter(|room| room.is_below(needed)) {
            return Err(Failure::BadInput(format!(
                "--mesh: expected a mesh that fits into the {room}, found {}, which needs about {:.1} GiB",
                args.mesh,
                gib(needed)
            )));
        }
        let fine = FINE_ENOUGH.saturating_mul(args.degree as usize).max(2 * FINE_ENOUGH);
        if args.verify && args.mesh.divisions().is_some_and(|parts| parts < fine) {
            return Err(Failure::BadInput(format!(
                "--verify: expected a mesh whose error shows its order, for degree {} icosahedral:{fine} or a finer one, found {}",
                args.degree, args.mesh
            )));
        }
        let made = successors(Some(args.mesh), |name| name.coarser()).take(MESHES).map(|name| {
            let mesh = name.make().map_err(|error| Failure::BadInput(format!("--mesh: {error}")))?;
            Ok((name, mesh))
        });
        let mut meshes = made.collect::<Result<Vec<_>, Failure>>()?;
        meshes.reverse();
        Ok(Problem { meshes, exact: Harmonic { degree: args.degree } })
    }
}
