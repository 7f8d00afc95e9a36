//! Meshes by name.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use haloport_mesh::{GmshMesh, Mesh};

use crate::failure::Failure;

/// Where a mesh comes from.
#[derive(Clone, Debug)]
pub(super) enum MeshSource {
    /// A file of Gmsh.
    File(PathBuf),
    /// An icosahedral mesh of so many divisions.
    Icosahedral(usize),
    /// A grid of ICON's family.
    Icon { root: usize, bisections: u32 },
}

impl MeshSource {
    /// Reads or makes the mesh.
    ///
    /// # Errors
    /// [`Failure::BadInput`] for a file that gives no mesh, or a mesh that would be empty or too large.
    pub(super) fn load(&self) -> Result<Mesh, Failure> {
        let made = match self {
            MeshSource::File(path) => GmshMesh::read(path).map(|file| file.mesh).map_err(|e| e.to_string()),
            MeshSource::Icosahedral(divisions) => Mesh::icosahedral(*divisions).map_err(|e| e.to_string()),
            MeshSource::Icon { root, bisections } => {
                Mesh::icon(*root, *bisections).map_err(|e| e.to_string())
            }
        };
        made.map_err(Failure::BadInput)
    }
}

impl FromStr for MeshSource {
    type Err = String;

    /// Anything that names no generator is a file.
    fn from_str(text: &str) -> Result<MeshSource, String> {
        if let Some(divisions) = text.strip_prefix("icosahedral:") {
            let wrong = |_| "expected a number of divisions, as in `icosahedral:16`".to_string();
            return divisions.parse().map(MeshSource::Icosahedral).map_err(wrong);
        }
        if let Some(grid) = text.strip_prefix("icon:") {
            let upper = grid.to_ascii_uppercase();
            let numbers = upper.strip_prefix('R').and_then(|rest| rest.split_once('B'));
            let parsed = numbers.and_then(|(root, times)| Some((root.parse().ok()?, times.parse().ok()?)));
            let grid = parsed.map(|(root, bisections)| MeshSource::Icon { root, bisections });
            return grid.ok_or_else(|| "expected a grid of ICON, as in `icon:R2B4`".to_string());
        }
        Ok(MeshSource::File(text.into()))
    }
}

impl fmt::Display for MeshSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeshSource::File(path) => path.display().fmt(f),
            MeshSource::Icosahedral(divisions) => write!(f, "icosahedral:{divisions}"),
            MeshSource::Icon { root, bisections } => write!(f, "icon:R{root}B{bisections:02}"),
        }
    }
}
