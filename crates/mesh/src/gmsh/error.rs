//! Errors of Gmsh's files.

use std::path::PathBuf;

use thiserror::Error;

use crate::error::MeshError;

/// The error of a file that holds no mesh.
#[derive(Debug, Error)]
#[error("{}: {problem}", path.display())]
pub struct GmshError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: GmshProblem,
}

/// The problem of a file of Gmsh. Nodes and elements are named by their tags in the file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GmshProblem {
    /// The file cannot be read.
    #[error("{0}")]
    File(std::io::Error),
    /// The file does not begin with a header of Gmsh.
    #[error("not a mesh of Gmsh: expected `$MeshFormat` in the first line, and numbers in the second")]
    NotGmsh,
    /// The file has another version of the format.
    #[error(
        "expected version 4.1 of the MSH format, found {0}; convert it with `gmsh -0 -format msh41 FILE`"
    )]
    Version(String),
    /// The file is binary.
    #[error("expected an ASCII file, found a binary one; convert it with `gmsh -0 -format msh41 FILE`")]
    Binary,
    /// The file ends too early.
    #[error("the file is cut off: it ends within the section ${0}")]
    Truncated(String),
    /// A section that a mesh needs is missing.
    #[error("the file has no section ${0}")]
    NoSection(&'static str),
    /// A line is not what the format requires.
    #[error("line {line}: {what}")]
    Content {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// There are no cells.
    #[error("the file has no triangles or quadrangles; make a mesh of two dimensions (`gmsh -2`)")]
    NoCells,
    /// Some elements are not cells of a surface.
    #[error(
        "elements of {dimension} dimensions and type {name} (number {number} in Gmsh); expected a surface of \
         triangles and quadrangles of first order"
    )]
    ElementType {
        /// The name of the type, with its number of nodes.
        name: String,
        /// The number of the type in Gmsh.
        number: i64,
        /// The dimension.
        dimension: i64,
    },
    /// A cell names a missing node.
    #[error("element {element} has a node {node}, which is missing from the section $Nodes")]
    MissingNode {
        /// The element.
        element: u64,
        /// The node.
        node: u64,
    },
    /// Two nodes have the same tag.
    #[error("two nodes have the tag {0}")]
    RepeatedNode(u64),
    /// A position is not finite.
    #[error("node {node} is at {position:?}: expected finite numbers")]
    NotFinite {
        /// The node.
        node: u64,
        /// Its position.
        position: [f64; 3],
    },
    /// A cell has the same node twice.
    #[error("element {element} has node {node} twice")]
    Degenerate {
        /// The element.
        element: u64,
        /// The node.
        node: u64,
    },
    /// Two cells have the same nodes.
    #[error("elements {} and {} have the same nodes", .0[0], .0[1])]
    RepeatedElement([u64; 2]),
    /// An edge has more than two cells.
    #[error(
        "the edge between nodes {} and {} has three elements, {}, {} and {}; expected one or two: they do not form \
         a surface", .nodes[0], .nodes[1], .elements[0], .elements[1], .elements[2]
    )]
    NonManifold {
        /// The ends of the edge.
        nodes: [u64; 2],
        /// The elements.
        elements: [u64; 3],
    },
    /// The surface has only one side.
    #[error(
        "elements {} and {} run along the edge between nodes {} and {} in the same sense, and cannot be turned: \
         the surface has one side only", .elements[0], .elements[1], .nodes[0], .nodes[1]
    )]
    OneSided {
        /// The ends of the edge.
        nodes: [u64; 2],
        /// The elements.
        elements: [u64; 2],
    },
    /// Another error of the mesh, with the mesh's own numbers.
    #[error(transparent)]
    Mesh(MeshError),
}

impl GmshProblem {
    /// The same error with the tags of the file.
    pub(super) fn of_mesh(error: MeshError, nodes: &[u64], elements: &[u64]) -> GmshProblem {
        match error {
            MeshError::NotFinite { vertex, position } => {
                GmshProblem::NotFinite { node: nodes[vertex], position }
            }
            MeshError::RepeatedVertex { cell, vertex } => {
                GmshProblem::Degenerate { element: elements[cell], node: nodes[vertex] }
            }
            MeshError::NonManifold { vertices, cells } => GmshProblem::NonManifold {
                nodes: vertices.map(|vertex| nodes[vertex]),
                elements: cells.map(|cell| elements[cell]),
            },
            MeshError::Orientation { vertices, cells } => GmshProblem::OneSided {
                nodes: vertices.map(|vertex| nodes[vertex]),
                elements: cells.map(|cell| elements[cell]),
            },
            other => GmshProblem::Mesh(other),
        }
    }
}
