//! Meshes by name or from files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use haloport_mesh::{GmshMesh, Mesh};

use crate::command::failure::Failure;
use crate::command::memory::{gib, room_on_host};
use crate::mesh::name::{MeshName, UnknownMesh};

/// Bytes of memory for each cell, about: the mesh, and the figures about it.
const BYTES_PER_CELL: u128 = 400;

/// The source of a mesh.
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
    /// [`Failure::BadInput`] if the file holds no mesh, or the mesh would be empty or too large.
    pub(super) fn load(&self) -> Result<Mesh, Failure> {
        let made = match self {
            MeshSource::File(path) if !path.exists() => {
                let path = path.display();
                Err(format!(
                    "{path}: there is no such file; expected a file of Gmsh, icon:RnBk or icosahedral:n"
                ))
            }
            MeshSource::File(path) => GmshMesh::read(path).map(|file| file.mesh).map_err(|e| e.to_string()),
            MeshSource::Named(name) => make(*name),
        };
        made.map_err(Failure::BadInput)
    }
}

/// Makes a mesh, if there is memory for it.
fn make(name: MeshName) -> Result<Mesh, String> {
    let needed = name.cells().unwrap_or(usize::MAX) as u128 * BYTES_PER_CELL;
    match room_on_host().filter(|room| room.is_below(needed)) {
        Some(room) => Err(format!(
            "{name}: expected a mesh that fits into the {room}, found one that needs about {:.1} GiB",
            gib(needed)
        )),
        None => name.make().map_err(|error| error.to_string()),
    }
}

impl FromStr for MeshSource {
    type Err = UnknownMesh;

    /// Any other text is the path of a file.
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
