//! Edges and neighbours, derived from the cells' vertices.

use std::collections::HashMap;

use crate::error::MeshError;
use crate::lists::Lists;

/// The edges of a mesh.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Edges {
    /// The ends of each edge, in the order of its first cell.
    pub(crate) vertices: Vec<[usize; 2]>,
    /// The first cell of each edge, and the one on the other side.
    pub(crate) cells: Vec<(usize, Option<usize>)>,
    /// The edges of each cell: edge `k` leads from its vertex `k` to the next one.
    pub(crate) of_cells: Lists,
}

/// Numbers the edges in the order of the cells, and of the edges within a cell.
pub(crate) fn edges(cell_vertices: &Lists) -> Result<Edges, MeshError> {
    let expected = cell_vertices.total() / 2 + 1;
    let mut numbers: HashMap<[usize; 2], usize> = HashMap::with_capacity(expected);
    let mut edges = Edges {
        vertices: Vec::with_capacity(expected),
        cells: Vec::with_capacity(expected),
        of_cells: Lists::new(),
    };
    let mut around = Vec::new();
    // If an edge has three cells, that is the better error, although two of them also run in the same direction.
    let mut misoriented = None;
    for (cell, vertices) in cell_vertices.iter().enumerate() {
        around.clear();
        for (k, &from) in vertices.iter().enumerate() {
            let to = vertices[(k + 1) % vertices.len()];
            let number = *numbers.entry([from.min(to), from.max(to)]).or_insert(edges.vertices.len());
            if number == edges.vertices.len() {
                edges.vertices.push([from, to]);
                edges.cells.push((cell, None));
            } else {
                edges.join(number, cell)?;
                if edges.vertices[number] == [from, to] {
                    let (vertices, cells) = ([from, to], [edges.cells[number].0, cell]);
                    misoriented = misoriented.or(Some(MeshError::Orientation { vertices, cells }));
                }
            }
            around.push(number);
        }
        edges.of_cells.push(around.iter().copied());
    }
    misoriented.map_or(Ok(edges), Err)
}

impl Edges {
    /// Adds `cell` to `edge`, which has another cell already.
    fn join(&mut self, edge: usize, cell: usize) -> Result<(), MeshError> {
        match self.cells[edge] {
            (first, None) => {
                self.cells[edge] = (first, Some(cell));
                Ok(())
            }
            (first, Some(second)) => {
                let vertices = self.vertices[edge];
                Err(MeshError::NonManifold { vertices, cells: [first, second, cell] })
            }
        }
    }
}
