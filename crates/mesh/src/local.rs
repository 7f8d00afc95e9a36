//! One part of a partitioned mesh: its own cells and the halo around them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::lists::Lists;
use crate::mesh::Mesh;
use crate::partition::Partition;

/// The cells that are one step apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbourhood {
    /// Cells that share an edge.
    Edges,
    /// Cells that share a vertex.
    Vertices,
}

/// The cells that a part owns, the halo cells around them, and the edges and vertices of both, numbered locally.
///
/// Halo level 1 has the cells one step from an owned cell, level 2 those one step further, and so on. Every list of
/// connectivity has the order of the whole mesh, so that a sum along it is the same on every part.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalMesh {
    cells: LocalItems,
    edges: LocalItems,
    vertices: LocalItems,
    cell_edges: Lists,
    cell_vertices: Lists,
    cell_neighbours: Vec<Option<usize>>,
    edge_cells: Vec<[Option<usize>; 2]>,
    edge_vertices: Vec<[usize; 2]>,
    vertex_cells: Lists,
}

impl LocalMesh {
    /// Makes the part `part` of `partition`, a partition of `mesh`, with `levels` levels of halo cells. A part without
    /// cells holds nothing.
    ///
    /// # Panics
    /// If there is no such part, like the indexing of a slice.
    pub fn new(
        mesh: &Mesh,
        partition: &Partition,
        part: usize,
        levels: usize,
        neighbourhood: Neighbourhood,
    ) -> LocalMesh {
        let levels_of_cells = cells_by_level(mesh, partition.cells_of(part), levels, neighbourhood);
        let cells = LocalItems::new(levels_of_cells, |cell| partition.part(cell));
        let edge_owner = |edge: usize| partition.part(mesh.edge_cells(edge).0);
        let edges = LocalItems::touched(&cells, part, edge_owner, |cell| mesh.cell_edges(cell));
        let vertex_owner = |vertex: usize| partition.part(mesh.vertex_cells(vertex)[0]);
        let vertices = LocalItems::touched(&cells, part, vertex_owner, |cell| mesh.cell_vertices(cell));

        let mut local = LocalMesh {
            cell_edges: Lists::new(),
            cell_vertices: Lists::new(),
            cell_neighbours: Vec::new(),
            edge_cells: Vec::new(),
            edge_vertices: Vec::new(),
            vertex_cells: Lists::new(),
            cells,
            edges,
            vertices,
        };
        local.connect(mesh);
        local
    }

    /// The cells.
    pub fn cells(&self) -> &LocalItems {
        &self.cells
    }

    /// The edges of the cells. The part of the lowest-numbered cell of an edge owns it.
    pub fn edges(&self) -> &LocalItems {
        &self.edges
    }

    /// The vertices of the cells. The part of the lowest-numbered cell around a vertex owns it.
    pub fn vertices(&self) -> &LocalItems {
        &self.vertices
    }

    /// The edges of `cell`: edge `k` leads from its vertex `k` to its next vertex. All numbers here and below are
    /// local.
    ///
    /// # Panics
    /// Like the indexing of a slice, this and the methods below panic if there is no such cell, edge or vertex.
    pub fn cell_edges(&self, cell: usize) -> &[usize] {
        self.cell_edges.of(cell)
    }

    /// The vertices of `cell`, counter-clockwise as seen from outside.
    pub fn cell_vertices(&self, cell: usize) -> &[usize] {
        self.cell_vertices.of(cell)
    }

    /// The cell across each edge of `cell`; `None` at the boundary of the mesh, and if the part does not hold the
    /// neighbour, which happens only to cells of the outermost level.
    pub fn cell_neighbours(&self, cell: usize) -> &[Option<usize>] {
        &self.cell_neighbours[self.cell_edges.range(cell)]
    }

    /// The cells on the left and on the right of `edge`; `None` at the boundary of the mesh, and if the part does not
    /// hold the cell.
    pub fn edge_cells(&self, edge: usize) -> [Option<usize>; 2] {
        self.edge_cells[edge]
    }

    /// The ends of `edge`. Its left cell is on the left as seen from the first end to the second.
    pub fn edge_vertices(&self, edge: usize) -> [usize; 2] {
        self.edge_vertices[edge]
    }

    /// The cells around `vertex` that the part holds, ascending by global id.
    pub fn vertex_cells(&self, vertex: usize) -> &[usize] {
        self.vertex_cells.of(vertex)
    }

    /// The parts that own its halo cells, ascending.
    pub fn neighbours(&self) -> Vec<usize> {
        let mut parts: Vec<usize> = self.cells.halo().map(|cell| self.cells.owner(cell)).collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// Translates the connectivity of the whole mesh.
    fn connect(&mut self, mesh: &Mesh) {
        let (cells, edges, vertices) = (&self.cells, &self.edges, &self.vertices);
        let local = |items: &LocalItems, list: &[usize]| -> Vec<usize> {
            list.iter().filter_map(|&global| items.local(global)).collect()
        };
        for cell in cells.globals() {
            self.cell_edges.push(local(edges, mesh.cell_edges(cell)));
            self.cell_vertices.push(local(vertices, mesh.cell_vertices(cell)));
            let across = mesh.cell_neighbours(cell).map(|other| other.and_then(|other| cells.local(other)));
            self.cell_neighbours.extend(across);
        }
        for edge in edges.globals() {
            let (left, right) = mesh.edge_cells(edge);
            self.edge_cells.push([cells.local(left), right.and_then(|right| cells.local(right))]);
            // Both ends are vertices of a cell that the part holds.
            self.edge_vertices.push(mesh.edge_vertices(edge).map(|end| vertices.number[&end]));
        }
        for vertex in vertices.globals() {
            self.vertex_cells.push(local(cells, mesh.vertex_cells(vertex)));
        }
    }
}

/// The cells, edges or vertices that a part holds: first those it owns, then the halo by level; each group ascending by
/// global id.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalItems {
    ids: Vec<i64>,
    /// The start of each level, from level 0, the owned items, on; then the end of the last one.
    starts: Vec<usize>,
    owners: Vec<usize>,
    /// The local number of each global number.
    number: HashMap<usize, usize>,
}

impl LocalItems {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The number of owned items. Their local numbers are below it.
    pub fn owned(&self) -> usize {
        self.starts[1]
    }

    /// The local numbers of the halo.
    pub fn halo(&self) -> Range<usize> {
        self.owned()..self.len()
    }

    /// The global ids by local number, in the order of a pattern.
    pub fn ids(&self) -> &[i64] {
        &self.ids
    }

    /// The local numbers of `level`; level 0 has the owned items. For cells, the level is the number of steps from an
    /// owned cell. Halo edges and vertices that an owned cell touches have level 1; those that a cell of level `l`
    /// touches, but none of a lower level, have level `l` + 1. So they have one level more than cells. Empty if `level`
    /// has no items.
    pub fn level(&self, level: usize) -> Range<usize> {
        let start = |level: usize| self.starts.get(level).map_or(self.len(), |&start| start);
        start(level)..start(level.saturating_add(1))
    }

    /// The level of a local number.
    pub fn level_of(&self, local: usize) -> usize {
        self.starts.partition_point(|&start| start <= local) - 1
    }

    /// The part that owns a local number.
    ///
    /// # Panics
    /// This and the next method panic if there is no such local number.
    pub fn owner(&self, local: usize) -> usize {
        self.owners[local]
    }

    /// The global number of a local number.
    pub fn global(&self, local: usize) -> usize {
        self.ids[local] as usize
    }

    /// The local number of a global number, if the part holds the item.
    pub fn local(&self, global: usize) -> Option<usize> {
        self.number.get(&global).copied()
    }

    /// Numbers the items of each level.
    fn new(levels: Vec<Vec<usize>>, owner: impl Fn(usize) -> usize) -> LocalItems {
        let mut starts = vec![0];
        let mut ids = Vec::new();
        for mut level in levels {
            level.sort_unstable();
            ids.extend(level.into_iter().map(|global| global as i64));
            starts.push(ids.len());
        }
        let globals = ids.iter().map(|&id| id as usize);
        let (owners, number) = (globals.clone().map(owner).collect(), globals.zip(0..).collect());
        LocalItems { ids, starts, owners, number }
    }

    /// Numbers the edges or vertices that the cells touch, according to `of_cell`.
    fn touched<'a>(
        cells: &LocalItems,
        part: usize,
        owner: impl Fn(usize) -> usize,
        of_cell: impl Fn(usize) -> &'a [usize],
    ) -> LocalItems {
        let mut levels = vec![Vec::new(); cells.starts.len()];
        let mut known = HashMap::new();
        for (cell, local) in cells.globals().zip(0..) {
            for &item in of_cell(cell) {
                known.entry(item).or_insert_with(|| {
                    let level = if owner(item) == part { 0 } else { cells.level_of(local) + 1 };
                    levels[level].push(item);
                });
            }
        }
        LocalItems::new(levels, owner)
    }

    fn globals(&self) -> impl Iterator<Item = usize> + Clone {
        self.ids.iter().map(|&id| id as usize)
    }
}

/// The levels of cells: `owned`, the cells one step from them, those two steps from them, and so on.
fn cells_by_level(
    mesh: &Mesh,
    owned: &[usize],
    levels: usize,
    neighbourhood: Neighbourhood,
) -> Vec<Vec<usize>> {
    let mut reached = vec![owned.to_vec()];
    let mut known: HashSet<usize> = owned.iter().copied().collect();
    for level in 0..levels {
        let mut next = Vec::new();
        let mut visit = |cell: usize| {
            if known.insert(cell) {
                next.push(cell);
            }
        };
        for &cell in &reached[level] {
            match neighbourhood {
                Neighbourhood::Edges => mesh.cell_neighbours(cell).flatten().for_each(&mut visit),
                Neighbourhood::Vertices => mesh
                    .cell_vertices(cell)
                    .iter()
                    .flat_map(|&vertex| mesh.vertex_cells(vertex))
                    .for_each(|&other| visit(other)),
            }
        }
        if next.is_empty() {
            break;
        }
        reached.push(next);
    }
    reached
}
