//! Reading Gmsh's `.msh` files, version 4.1, through the `mshio` crate.

mod error;
mod orient;
mod text;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use mshio::{ElementBlock, ElementType, Elements, Nodes};

pub use error::{GmshError, GmshProblem};

use crate::mesh::{Mesh, Surface};

/// A mesh from a file of Gmsh, with the numbers (tags) that nodes and elements have there.
#[derive(Clone, Debug, PartialEq)]
pub struct GmshMesh {
    /// The mesh: cells in the order of the file's triangles and quadrangles, vertices in that of its nodes.
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
    /// Gmsh does not promise that neighbouring surfaces run in the same sense. Cells are turned where they do not: a
    /// closed piece becomes counter-clockwise seen from outside, any other seen from above (from +z).
    ///
    /// # Errors
    /// [`GmshError`] for a file that cannot be read or is cut off, other versions, binary files, nodes that are
    /// missing or there twice, volumes and elements of other types, and cells that form no surface.
    pub fn read(path: &Path) -> Result<GmshMesh, GmshError> {
        let read = fs::read(path).map_err(GmshProblem::File).and_then(|bytes| GmshMesh::parse(&bytes));
        read.map_err(|problem| GmshError { path: path.into(), problem })
    }

    /// As [`read`](GmshMesh::read), from the content of a file.
    ///
    /// # Errors
    /// As those of [`read`](GmshMesh::read).
    pub fn parse(content: &[u8]) -> Result<GmshMesh, GmshProblem> {
        let text = text::prepare(content)?;
        let file = mshio::parse_msh_bytes(text.as_bytes()).map_err(|error| text::explain(&text, &error))?;
        let elements = file.data.elements.ok_or(GmshProblem::NoCells)?;
        let (element_tags, corners) = polygons(&elements)?;
        let nodes = Named::new(&file.data.nodes.ok_or(GmshProblem::NoSection("Nodes"))?)?;
        assemble(&nodes, element_tags, &corners)
    }
}

/// Nodes in the order of the file.
struct Named {
    tags: Vec<u64>,
    positions: Vec<[f64; 3]>,
    place: HashMap<u64, usize>,
}

impl Named {
    fn new(nodes: &Nodes<u64, i32, f64>) -> Result<Named, GmshProblem> {
        let mut named = Named { tags: Vec::new(), positions: Vec::new(), place: HashMap::new() };
        for block in &nodes.node_blocks {
            // `text::prepare` makes mshio keep the tags; it keeps one of two equal ones.
            let places = block.node_tags.iter().flatten().map(|(&tag, &index)| (index, tag));
            let mut tags: Vec<(usize, u64)> = places.collect();
            tags.sort_unstable();
            if tags.len() != block.nodes.len() {
                let (entity, dimension) = (block.entity_tag, block.entity_dim);
                return Err(GmshProblem::RepeatedTags { entity, dimension });
            }
            for (node, (_, tag)) in block.nodes.iter().zip(tags) {
                if named.place.insert(tag, named.tags.len()).is_some() {
                    return Err(GmshProblem::RepeatedNode(tag));
                }
                named.tags.push(tag);
                named.positions.push([node.x, node.y, node.z]);
            }
        }
        Ok(named)
    }
}

/// The tags of the cells, and the tags of the nodes of each.
fn polygons(elements: &Elements<u64, i32>) -> Result<(Vec<u64>, Vec<&[u64]>), GmshProblem> {
    let (mut tags, mut corners) = (Vec::new(), Vec::new());
    for block in elements.element_blocks.iter().filter(|block| block.entity_dim >= 2) {
        if !matches!(block.element_type, ElementType::Tri3 | ElementType::Qua4) {
            return Err(unsupported(block));
        }
        tags.extend(block.elements.iter().map(|element| element.element_tag));
        corners.extend(block.elements.iter().map(|element| &element.nodes[..]));
    }
    if tags.is_empty() { Err(GmshProblem::NoCells) } else { Ok((tags, corners)) }
}

fn unsupported(block: &ElementBlock<u64, i32>) -> GmshProblem {
    let name = format!("{:?}", block.element_type);
    GmshProblem::ElementType { name, number: block.element_type as i32, dimension: block.entity_dim }
}

/// The mesh of the nodes that cells have.
fn assemble(nodes: &Named, element_tags: Vec<u64>, corners: &[&[u64]]) -> Result<GmshMesh, GmshProblem> {
    let mut vertex_of_node = vec![None; nodes.tags.len()];
    let mut cells = Vec::with_capacity(corners.len());
    for (&element, tags) in element_tags.iter().zip(corners) {
        let place = |node: &u64| {
            nodes.place.get(node).copied().ok_or(GmshProblem::MissingNode { element, node: *node })
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
