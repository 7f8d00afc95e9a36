//! Parts of meshes.

use haloport_mesh::{Mesh, Partition, PartitionError};

/// The partition along a space-filling curve; with more ranks than cells, some parts are empty.
///
/// # Errors
/// [`PartitionError`].
pub(crate) fn by_curve(mesh: &Mesh, ranks: usize) -> Result<Partition, PartitionError> {
    let cells = mesh.cells();
    let parts = Partition::by_curve(mesh, ranks.min(cells))?;
    if ranks <= cells {
        return Ok(parts);
    }
    Partition::with_empty_parts(mesh, (0..cells).map(|cell| parts.part(cell)).collect(), ranks)
}
