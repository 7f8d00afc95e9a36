//! Files of parts, in METIS's own format: the number of a part on each line, in the order of the cells.

use std::fs;
use std::path::Path;

use super::{Partition, PartitionError};
use crate::mesh::Mesh;

impl Partition {
    /// Reads the part of every cell: a number on each line, from 0, as METIS's `gpmetis` writes it. The number of parts
    /// is `parts` if that is given, and otherwise one more than the highest number. No part may be empty; to allow
    /// empty parts, read the file with [`read_parts`] and use [`Partition::with_empty_parts`].
    ///
    /// # Errors
    /// [`PartitionError`] for a file that cannot be read or holds anything but numbers, and those of
    /// [`Partition::given`].
    pub fn read(mesh: &Mesh, path: &Path, parts: Option<usize>) -> Result<Partition, PartitionError> {
        let part_of_cell = read_parts(path)?;
        if part_of_cell.len() != mesh.cells() {
            return Err(PartitionError::Length { found: part_of_cell.len(), cells: mesh.cells() });
        }
        let highest = part_of_cell.iter().max().map_or(0, |&part| part);
        Partition::given(mesh, part_of_cell, parts.unwrap_or(highest.saturating_add(1)))
    }

    /// The part of every cell, one on each line: the text that [`read`](Partition::read) reads.
    pub fn to_text(&self) -> String {
        self.part_of_cell.iter().map(|part| format!("{part}\n")).collect()
    }

    /// Writes the part of every cell, for [`read`](Partition::read).
    ///
    /// # Errors
    /// [`PartitionError::File`] if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PartitionError> {
        fs::write(path, self.to_text()).map_err(|error| PartitionError::File { path: path.into(), error })
    }
}

/// The numbers in a file of parts. Empty lines are skipped.
///
/// # Errors
/// [`PartitionError`] for a file that cannot be read or holds anything but numbers.
pub fn read_parts(path: &Path) -> Result<Vec<usize>, PartitionError> {
    let text = fs::read_to_string(path).map_err(|error| PartitionError::File { path: path.into(), error })?;
    let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty());
    let number = |(found, line): (&str, usize)| {
        let wrong =
            |_| PartitionError::Line { path: path.into(), line, found: found.chars().take(40).collect() };
        found.parse().map_err(wrong)
    };
    lines.map(number).collect()
}
