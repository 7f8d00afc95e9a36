//! METIS, on the graph whose nodes are cells and whose links are shared edges.

use std::sync::{Mutex, PoisonError};

use metis::{Graph, Idx, option};

use super::PartitionError;
use crate::mesh::Mesh;

/// METIS takes random numbers of the C library, which all threads share: two calls at once would disturb each other,
/// and ranks would get different partitions.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The part that METIS gives to each cell.
pub(super) fn part_of_cell(mesh: &Mesh, parts: usize) -> Result<Vec<usize>, PartitionError> {
    if parts == 1 {
        return Ok(vec![0; mesh.cells()]);
    }
    let too_large = || PartitionError::Metis("the mesh is too large for its 32-bit indices".to_string());
    let index = |number: usize| Idx::try_from(number).map_err(|_| too_large());

    let (mut starts, mut neighbours) = (vec![0], Vec::new());
    for cell in 0..mesh.cells() {
        for neighbour in mesh.cell_neighbours(cell).flatten() {
            neighbours.push(index(neighbour)?);
        }
        starts.push(index(neighbours.len())?);
    }
    let failed = |error: &dyn std::fmt::Display| PartitionError::Metis(error.to_string());
    let graph = Graph::new(1, index(parts)?, &starts, &neighbours).map_err(|error| failed(&error))?;
    let mut parts_of_cells: Vec<Idx> = vec![0; mesh.cells()];
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let cut = graph.set_option(option::Seed(1)).part_kway(&mut parts_of_cells);
    drop(alone);
    cut.map_err(|error| failed(&error))?;
    parts_of_cells.into_iter().map(|part| usize::try_from(part).map_err(|_| too_large())).collect()
}
