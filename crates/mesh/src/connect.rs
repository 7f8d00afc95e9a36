//! Edges and neighbours, derived from the cells' vertices.

use std::collections::HashMap;

use crate::error::MeshError;
use crate::lists::Lists;

/// The edges of a mesh.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Edges {
    /// The ends of each edge, in the order in which its first cell meets them.
    pub(crate) vertices: Vec<[usize; 2]>,
    /// The cell that met the edge first, and the one on the other side.
    pub(crate) cells: Vec<(usize, Option<usize>)>,
    /// The edges of each cell: edge `k` leads from its vertex `k` to the next one.
    pub(crate) of_cells: Lists,
}

/// Numbers the edges in the order in which the cells, one after the other, meet them.
pub(crate) fn edges(cell_vertices: &Lists) -> Result<Edges, MeshError> {
    let expected = cell_vertices.total() / 2 + 1;
    let mut numbers: HashMap<[usize; 2], usize> = HashMap::with_capacity(expected);
    let mut edges = Edges {
        vertices: Vec::with_capacity(expected),
        cells: Vec::with_capacity(expected),
        of_cells: Lists::new(),
    };
    let mut around = Vec::new();
    for (cell, vertices) in cell_vertices.iter().enumerate() {
        around.clear();
        for (k, &from) in vertices.iter().enumerate() {
            let to = vertices[(k + 1) % vertices.len()];
            let number = *numbers.entry([from.min(to), from.max(to)]).or_insert(edges.vertices.len());
            if number == edges.vertices.len() {
                edges.vertices.push([from, to]);
                edges.cells.push((cell, None));
            } else {
                edges.join(number, cell, [from, to])?;
            }
            around.push(number);
        }
        edges.of_cells.push(around.iter().copied());
    }
    Ok(edges)
}

impl Edges {
    /// `cell` meets `edge`, which another cell has met before, and walks along it from `ends[0]` to `ends[1]`.
    fn join(&mut self, edge: usize, cell: usize, ends: [usize; 2]) -> Result<(), MeshError> {
        let vertices = self.vertices[edge];
        match self.cells[edge] {
            (first, Some(second)) => Err(MeshError::NonManifold { vertices, cells: [first, second, cell] }),
            (first, None) if vertices == ends => {
                Err(MeshError::Orientation { vertices, cells: [first, cell] })
            }
            (first, None) => {
                self.cells[edge] = (first, Some(cell));
                Ok(())
            }
        }
    }
}
