//! Reading Gmsh's `.msh` files, version 4.1.

mod error;
mod orient;
mod read;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

pub use error::{GmshError, GmshProblem};

use crate::mesh::{Mesh, Surface};
use read::{Cells, Nodes};

/// A mesh from a file of Gmsh, with the tags that nodes and elements have there.
#[derive(Clone, Debug, PartialEq)]
pub struct GmshMesh {
    /// The mesh: cells in the order of the file's triangles and quadrangles, vertices in the order of its nodes.
    pub mesh: Mesh,
    /// The tag of each vertex.
    pub node_tags: Vec<u64>,
    /// The tag of each cell.
    pub element_tags: Vec<u64>,
}

impl GmshMesh {
    /// Reads the surface in the file at `path`: an ASCII file of version 4.1 whose elements of two dimensions are
    /// triangles and quadrangles of first order. Points and lines are skipped, and so are nodes that no cell has.
    ///
    /// In Gmsh, neighbouring surfaces may have opposite orientations. Cells are reversed so that a closed piece becomes
    /// counter-clockwise as seen from outside, and any other piece as seen from above (from +z).
    ///
    /// # Errors
    /// [`GmshError`] for a file that cannot be read, is cut off, is binary or has another version, for missing or
    /// repeated nodes, for volumes and elements of other types, and for cells that form no surface.
    pub fn read(path: &Path) -> Result<GmshMesh, GmshError> {
        let read = fs::read(path).map_err(GmshProblem::File).and_then(|bytes| GmshMesh::parse(&bytes));
        read.map_err(|problem| GmshError { path: path.into(), problem })
    }

    /// Reads the content of a file, like [`read`](GmshMesh::read).
    ///
    /// # Errors
    /// Those of [`read`](GmshMesh::read).
    pub fn parse(content: &[u8]) -> Result<GmshMesh, GmshProblem> {
        let (nodes, cells) = read::read(content)?;
        assemble(&nodes, cells)
    }
}

/// Makes the mesh of the nodes that cells have.
fn assemble(nodes: &Nodes, Cells { tags: element_tags, corners }: Cells) -> Result<GmshMesh, GmshProblem> {
    let mut place_of_tag = HashMap::with_capacity(nodes.tags.len());
    for (place, &tag) in nodes.tags.iter().enumerate() {
        if place_of_tag.insert(tag, place).is_some() {
            return Err(GmshProblem::RepeatedNode(tag));
        }
    }
    let mut vertex_of_node = vec![None; nodes.tags.len()];
    let mut cells = Vec::with_capacity(corners.len());
    for (&element, tags) in element_tags.iter().zip(&corners) {
        let place = |node: &u64| {
            place_of_tag.get(node).copied().ok_or(GmshProblem::MissingNode { element, node: *node })
        };
        let cell: Vec<usize> = tags.iter().map(place).collect::<Result<_, _>>()?;
        cell.iter().for_each(|&node| vertex_of_node[node] = Some(0));
        cells.push(cell);
    }
    check_repeated(&element_tags, &cells)?;
    let used: Vec<usize> = (0..nodes.tags.len()).filter(|&node| vertex_of_node[node].is_some()).collect();
    used.iter().enumerate().for_each(|(vertex, &node)| vertex_of_node[node] = Some(vertex));
    let number = |node: &mut usize| *node = vertex_of_node[*node].unwrap_or_default();
    cells.iter_mut().flatten().for_each(number);

    let positions: Vec<[f64; 3]> = used.iter().map(|&node| nodes.positions[node]).collect();
    let node_tags: Vec<u64> = used.iter().map(|&node| nodes.tags[node]).collect();
    orient::orient(&positions, &mut cells);
    match Mesh::new(Surface::Flat, positions, cells) {
        Ok(mesh) => Ok(GmshMesh { mesh, node_tags, element_tags }),
        Err(error) => Err(GmshProblem::of_mesh(error, &node_tags, &element_tags)),
    }
}

fn check_repeated(element_tags: &[u64], cells: &[Vec<usize>]) -> Result<(), GmshProblem> {
    let mut known = HashMap::with_capacity(cells.len());
    for (&element, cell) in element_tags.iter().zip(cells) {
        let mut corners = cell.clone();
        corners.sort_unstable();
        if let Some(other) = known.insert(corners, element) {
            return Err(GmshProblem::RepeatedElement([other, element]));
        }
    }
    Ok(())
}
