//! The orientation of cells.

use std::collections::HashMap;

use crate::sphere::{cross, difference, dot};

/// Reverses cells such that neighbours run along their common edge in opposite directions, as far as possible, and such
/// that each connected piece is counter-clockwise: as seen from outside if it is closed, and otherwise
/// as seen from above.
pub(super) fn orient(positions: &[[f64; 3]], cells: &mut [Vec<usize>]) {
    let mut cells_of_edge: HashMap<[usize; 2], Vec<usize>> = HashMap::new();
    for (cell, vertices) in cells.iter().enumerate() {
        edges(vertices).for_each(|ends| cells_of_edge.entry(sorted(ends)).or_default().push(cell));
    }
    let mut known = vec![false; cells.len()];
    for first in 0..cells.len() {
        if std::mem::replace(&mut known[first], true) {
            continue;
        }
        let (mut piece, mut closed) = (vec![first], true);
        let mut done = 0;
        while let Some(&cell) = piece.get(done) {
            done += 1;
            for ends in edges(&cells[cell].clone()) {
                let here = &cells_of_edge[&sorted(ends)];
                closed &= here.len() == 2;
                // An edge with more cells is refused later, whatever their orientation.
                for &other in here.iter().take(2) {
                    if !std::mem::replace(&mut known[other], true) {
                        if edges(&cells[other]).any(|its| its == ends) {
                            cells[other].reverse();
                        }
                        piece.push(other);
                    }
                }
            }
        }
        let origin = positions[cells[first][0]];
        let size = |&cell: &usize| signed_size(positions, &cells[cell], closed.then_some(origin));
        let size: f64 = piece.iter().map(size).sum();
        if size < 0.0 {
            piece.into_iter().for_each(|cell| cells[cell].reverse());
        }
    }
}

/// The share of a cell in the volume of its closed piece, on which `origin` lies, or in the area of its open piece as
/// seen from above, up to a factor; positive if cells are counter-clockwise.
fn signed_size(positions: &[[f64; 3]], cell: &[usize], origin: Option<[f64; 3]>) -> f64 {
    let corner = |vertex: usize| positions[vertex];
    let fan = cell[1..].windows(2).map(|pair| {
        let [a, b, c] = [cell[0], pair[0], pair[1]].map(corner);
        let normal = cross(difference(b, a), difference(c, a));
        origin.map_or(normal[2], |origin| dot(difference(a, origin), normal))
    });
    fan.sum()
}

/// The edges of a cell, in its direction.
fn edges(vertices: &[usize]) -> impl Iterator<Item = [usize; 2]> + '_ {
    (0..vertices.len()).map(|k| [vertices[k], vertices[(k + 1) % vertices.len()]])
}

fn sorted([a, b]: [usize; 2]) -> [usize; 2] {
    [a.min(b), a.max(b)]
}
