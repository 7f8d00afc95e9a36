//! Partitions: the part of every cell.

mod curve;
mod error;
mod file;
#[cfg(feature = "metis")]
mod metis;

pub use error::PartitionError;
pub use file::read_parts;

use crate::lists::Lists;
use crate::mesh::Mesh;

/// The most parts: METIS counts in 32 bits, and every part takes a few words.
const LIMIT: usize = 1 << 24;

/// The part of every cell of a mesh. Parts are numbered from 0.
///
/// The same mesh and number of parts give the same partition on every rank, so ranks that have the mesh need not
/// communicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    part_of_cell: Vec<usize>,
    cells_of_part: Lists,
}

impl Partition {
    /// Cuts a space-filling curve through the centres of the cells into `parts` pieces whose numbers of cells differ
    /// by one at most. It is Hilbert's curve in space, or in the plane if the mesh is flat along x, y or z.
    ///
    /// # Errors
    /// [`PartitionError`] for no parts, or for more parts than cells.
    pub fn by_curve(mesh: &Mesh, parts: usize) -> Result<Partition, PartitionError> {
        check_parts(mesh, parts)?;
        let mut part_of_cell = vec![0; mesh.cells()];
        for (place, cell) in curve::order(mesh).into_iter().enumerate() {
            part_of_cell[cell] = (place as u128 * parts as u128 / mesh.cells() as u128) as usize;
        }
        Partition::given(mesh, part_of_cell, parts)
    }

    /// Makes METIS (multilevel k-way, G. Karypis and V. Kumar, SIAM J. Sci. Comput. 20 (1998)) cut the mesh into parts
    /// of nearly equal size that share few edges. Needs the feature `metis`.
    ///
    /// # Errors
    /// [`PartitionError`] for no parts, more parts than cells, a part that METIS left empty, or an error of METIS.
    #[cfg(feature = "metis")]
    pub fn metis(mesh: &Mesh, parts: usize) -> Result<Partition, PartitionError> {
        check_parts(mesh, parts)?;
        Partition::given(mesh, metis::part_of_cell(mesh, parts)?, parts)
    }

    /// Makes the partition whose cell `c` is in part `part_of_cell[c]` of `parts` parts. Each part must have a cell.
    ///
    /// # Errors
    /// [`PartitionError`] if the list has not one part for each cell, a part is not below `parts`, or a part is empty.
    pub fn given(mesh: &Mesh, part_of_cell: Vec<usize>, parts: usize) -> Result<Partition, PartitionError> {
        check_given(mesh, &part_of_cell, parts)?;
        // Checked before memory is allocated for each part: a file may name parts far beyond the number of cells.
        let mut has_cell = vec![false; parts.min(mesh.cells() + 1)];
        for &part in &part_of_cell {
            if let Some(has_cell) = has_cell.get_mut(part) {
                *has_cell = true;
            }
        }
        match has_cell.iter().position(|has_cell| !has_cell) {
            Some(part) => Err(PartitionError::EmptyPart { part, parts }),
            None => Partition::with_empty_parts(mesh, part_of_cell, parts),
        }
    }

    /// The same as [`given`](Partition::given), but parts may be empty.
    ///
    /// # Errors
    /// Those of [`given`](Partition::given), except for empty parts.
    pub fn with_empty_parts(
        mesh: &Mesh,
        part_of_cell: Vec<usize>,
        parts: usize,
    ) -> Result<Partition, PartitionError> {
        check_given(mesh, &part_of_cell, parts)?;
        let pairs = part_of_cell.iter().enumerate().map(|(cell, &part)| (part, cell));
        let cells_of_part = Lists::grouped(parts, pairs);
        Ok(Partition { part_of_cell, cells_of_part })
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        self.cells_of_part.len()
    }

    /// The part of `cell`.
    ///
    /// # Panics
    /// Like the indexing of a slice, this and the next method panic if there is no such cell or part.
    pub fn part(&self, cell: usize) -> usize {
        self.part_of_cell[cell]
    }

    /// The cells of `part`, ascending.
    pub fn cells_of(&self, part: usize) -> &[usize] {
        self.cells_of_part.of(part)
    }

    /// The number of edges of `mesh`, for which the partition was made, between cells of two parts.
    pub fn edge_cut(&self, mesh: &Mesh) -> usize {
        let cut = |edge: &usize| {
            let (left, right) = mesh.edge_cells(*edge);
            right.is_some_and(|right| self.part(left) != self.part(right))
        };
        (0..mesh.edges()).filter(cut).count()
    }
}

fn check_given(mesh: &Mesh, part_of_cell: &[usize], parts: usize) -> Result<(), PartitionError> {
    let cells = mesh.cells();
    if !(1..=LIMIT).contains(&parts) {
        return Err(PartitionError::Parts { found: parts, limit: LIMIT });
    }
    if part_of_cell.len() != cells {
        return Err(PartitionError::Length { found: part_of_cell.len(), cells });
    }
    match part_of_cell.iter().position(|&part| part >= parts) {
        Some(cell) => Err(PartitionError::NoSuchPart { cell, part: part_of_cell[cell], parts }),
        None => Ok(()),
    }
}

fn check_parts(mesh: &Mesh, parts: usize) -> Result<(), PartitionError> {
    let cells = mesh.cells();
    match parts {
        0 => Err(PartitionError::Parts { found: parts, limit: LIMIT }),
        _ if parts > cells => Err(PartitionError::MoreThanCells { parts, cells }),
        _ => Ok(()),
    }
}
