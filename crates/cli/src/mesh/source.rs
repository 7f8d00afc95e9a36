//! Meshes by name, or from files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use haloport_cli::mesh_name::{MeshName, UnknownMesh};
use haloport_mesh::{GmshMesh, Mesh};

use crate::failure::Failure;

/// Where a mesh comes from.
#[derive(Clone, Debug)]
pub(super) enum MeshSource {
    /// A file of Gmsh.
    File(PathBuf),
    /// A mesh of a family.
    Named(MeshName),
}

impl MeshSource {
    /// Reads or makes the mesh.
    ///
    /// # Errors
    /// [`Failure::BadInput`] for a file that gives no mesh, or a mesh that would be empty or too large.
    pub(super) fn load(&self) -> Result<Mesh, Failure> {
        let made = match self {
            MeshSource::File(path) => GmshMesh::read(path).map(|file| file.mesh).map_err(|e| e.to_string()),
            MeshSource::Named(name) => name.make().map_err(|e| e.to_string()),
        };
        made.map_err(Failure::BadInput)
    }
}

impl FromStr for MeshSource {
    type Err = UnknownMesh;

    /// Anything that names no family is a file.
    fn from_str(text: &str) -> Result<MeshSource, UnknownMesh> {
        if ["icon:", "icosahedral:"].iter().any(|family| text.starts_with(family)) {
            return text.parse().map(MeshSource::Named);
        }
        Ok(MeshSource::File(text.into()))
    }
}

impl fmt::Display for MeshSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeshSource::File(path) => path.display().fmt(f),
            MeshSource::Named(name) => name.fmt(f),
        }
    }
}
