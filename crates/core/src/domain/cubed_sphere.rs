//! The cubed sphere: six tiles of `n` × `n` cells, the faces of a cube projected onto a sphere.
//!
//! The numbers of the tiles and the directions of their axes are those of GFDL's FV3, but numbered from 0. Unfolded,
//! the tiles form stairs, which continue from the top of tile 5 to the bottom of tile 0. Across the edges of the
//! stairs, axes keep their directions; across all other edges, y and x are exchanged, and one of them is reversed.
//!
//! ```text
//!                   ┌─────┬─────┐
//!                   │  4  │  5  │     5: at the south pole
//!             ┌─────┼─────┼─────┘
//!             │  2  │  3  │           2: at the north pole
//!       ┌─────┼─────┼─────┘
//!       │  0  │  1  │                 y
//!       └─────┴─────┘                 └ x
//! ```
//!
//! The builder of a field of winds names the components of the vector; they arrive in the axes of the tile that
//! receives them:
//!
//! ```
//! # use haloport::cpu::CpuDevice;
//! # use haloport::field::ComponentPlace;
//! # use haloport::{Field, Grid, Halo, Pattern, Split, run_ranks};
//! # run_ranks(2, |comm| {
//! let grid = Grid::cubed_sphere_with_levels(12, 4)?; // tile, level, y, x
//! let mine = Split::balanced(&grid, comm.size())?.part(comm.rank()).ok_or("no such part")?; // three whole tiles
//! let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::per_axis([0, 0, 3, 3]))?;
//! # let device = CpuDevice::with_threads(1)?;
//! let wind = Field::<f32, _>::builder(&pattern)
//!     .components(2, ComponentPlace::Slowest)
//!     .vector([2, 3]) // the first component points along y, the second along x
//!     .build(&device)?;
//! pattern.bind(wind)?.run()?;
//! # Ok(())
//! # })?;
//! # Ok::<(), haloport::comm::RanksError>(())
//! ```
//!
//! [`TILES`] is the only table: the directions of the axes determine which tiles touch and how they are turned.

use super::orientation::Renumbering;
use super::{IndexBox, MAX_AXES, Orientation};

/// A tile of a cubed sphere: a face of the cube [-1, 1]³, seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// The direction from the centre of the cube to the centre of the face.
    pub outward: [i8; 3],
    /// The direction of the axis y, the last but one of the grid.
    pub y: [i8; 3],
    /// The direction of the axis x, the last of the grid.
    pub x: [i8; 3],
}

/// The tiles. The centre of tile 0 is at longitude and latitude 0, that of tile 1 at 90° east, and that of tile 2 is
/// the north pole; x, y and outward are right-handed.
pub const TILES: [Tile; 6] = [
    Tile { outward: [1, 0, 0], y: [0, 0, 1], x: [0, 1, 0] },
    Tile { outward: [0, 1, 0], y: [0, 0, 1], x: [-1, 0, 0] },
    Tile { outward: [0, 0, 1], y: [0, -1, 0], x: [-1, 0, 0] },
    Tile { outward: [-1, 0, 0], y: [0, -1, 0], x: [0, 0, -1] },
    Tile { outward: [0, -1, 0], y: [1, 0, 0], x: [0, 0, -1] },
    Tile { outward: [0, 0, -1], y: [1, 0, 0], x: [0, 1, 0] },
];

impl Tile {
    /// The point of the unit sphere at the coordinates `y` and `x` of the tile, which go from 0 at one edge to 1 at the
    /// other.
    ///
    /// The projection is gnomonic and equiangular: lines of equal `x`, or equal `y`, are great circles at equal angles.
    /// Source: C. Ronchi, R. Iacono and P. S. Paolucci, The "Cubed Sphere": A New Method for the Solution of Partial
    /// Differential Equations in Spherical Geometry, J. Comput. Phys. 124 (1996), 93–114.
    pub fn point(&self, y: f64, x: f64) -> [f64; 3] {
        let tangent = |coordinate: f64| ((coordinate - 0.5) * std::f64::consts::FRAC_PI_2).tan();
        let (y, x) = (tangent(y), tangent(x));
        let length = (1.0 + x * x + y * y).sqrt();
        std::array::from_fn(|axis| {
            let along = |direction: &[i8; 3]| f64::from(direction[axis]);
            (along(&self.outward) + y * along(&self.y) + x * along(&self.x)) / length
        })
    }

    /// The direction of the axis y (0) or x (1).
    fn direction(&self, axis: usize) -> [i8; 3] {
        if axis == 0 { self.y } else { self.x }
    }

    /// The axis that runs along `direction`, and whether it is reversed; `None` for a direction that leaves the tile.
    fn along(&self, direction: [i8; 3]) -> Option<(usize, bool)> {
        (0..2).find_map(|axis| {
            let own = self.direction(axis);
            [(own, false), (opposite(own), true)]
                .into_iter()
                .find_map(|(own, reversed)| (own == direction).then_some((axis, reversed)))
        })
    }
}

fn opposite(direction: [i8; 3]) -> [i8; 3] {
    direction.map(|part| -part)
}

/// An end of an axis of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Lower,
    Upper,
}

/// Cuts `region` into parts that lie in one tile each, with their numbering there. The first axis of the grid is the
/// axis of the tiles, the last two are y and x, both of `cells` cells. `region` extends beyond the edges of a tile by
/// at most `cells`. The cells beyond two edges, where three tiles meet, do not exist and are left out.
pub(crate) fn images(cells: i64, region: &IndexBox) -> Vec<(IndexBox, Renumbering)> {
    let face = [region.axes() - 2, region.axes() - 1];
    let (first, past) = region.bounds(0);
    let mut parts = Vec::new();
    for number in first..past {
        let Some(tile) = usize::try_from(number).ok().and_then(|number| TILES.get(number)) else { continue };
        let inside = face
            .iter()
            .fold(region.with_axis(0, number, number + 1), |tile, &axis| tile.with_axis(axis, 0, cells));
        let mut zones = vec![(inside, Renumbering::default())];
        for (axis, edge) in [(0, Edge::Lower), (0, Edge::Upper), (1, Edge::Lower), (1, Edge::Upper)] {
            let lower = if edge == Edge::Upper { cells } else { -cells };
            let outside = inside.with_axis(face[axis], lower, lower + cells);
            zones.extend(across(number, tile, axis, edge, cells, face).map(|numbering| (outside, numbering)));
        }
        parts.extend(
            zones.into_iter().filter_map(|(zone, numbering)| Some((region.intersection(&zone)?, numbering))),
        );
    }
    parts
}

/// The numbering of the cells beyond an edge of tile `number` in the tile that contains them. `axis` is the axis across
/// the edge, 0 for y or 1 for x; `face` has the numbers of y and x in the grid.
fn across(
    number: i64,
    tile: &Tile,
    axis: usize,
    edge: Edge,
    cells: i64,
    face: [usize; 2],
) -> Option<Renumbering> {
    let upwards = tile.direction(axis);
    let out = if edge == Edge::Upper { upwards } else { opposite(upwards) };
    let (neighbour, other) = TILES.iter().enumerate().find(|(_, other)| other.outward == out)?;
    // Beyond the edge, the direction continues down the next face of the cube; directions along the edge do not change.
    let (across, enters_backwards) = other.along(opposite(tile.outward))?;
    let across_reversed = enters_backwards != (edge == Edge::Lower);
    let (beside, beside_reversed) = other.along(tile.direction(1 - axis))?;
    // The index of the nearest cells beyond the edge, in the tile and in its neighbour.
    let nearest = if edge == Edge::Upper { cells } else { -1 };
    let entered = if enters_backwards { cells - 1 } else { 0 };

    let mut shift = [0; MAX_AXES];
    shift[0] = neighbour as i64 - number;
    shift[face[axis]] = if across_reversed { entered + nearest } else { entered - nearest };
    shift[face[1 - axis]] = if beside_reversed { cells - 1 } else { 0 };
    let orientation = Orientation::default().with_axis(face[axis], face[across], across_reversed).with_axis(
        face[1 - axis],
        face[beside],
        beside_reversed,
    );
    Some(Renumbering { orientation, shift })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiles_are_the_faces_of_a_cube_seen_from_outside() {
        for (number, tile) in TILES.iter().enumerate() {
            let cross: [i8; 3] = std::array::from_fn(|k| {
                tile.x[(k + 1) % 3] * tile.y[(k + 2) % 3] - tile.x[(k + 2) % 3] * tile.y[(k + 1) % 3]
            });
            assert_eq!(cross, tile.outward, "tile {number}");
            assert!(TILES[..number].iter().all(|other| other.outward != tile.outward));
        }
    }

    /// Axes keep their directions across the edges that touch in the drawing.
    #[test]
    fn the_stairs_are_unturned_and_every_other_edge_is_turned() {
        let mut turned = 0;
        for number in 0..6 {
            let region = IndexBox::new([number, -1, -1], [number + 1, 5, 5]);
            let parts = images(4, &region);
            assert_eq!(parts.len(), 5);
            for (part, numbering) in parts {
                let source = numbering.source(&part);
                assert!(IndexBox::new([0, 0, 0], [6, 4, 4]).encloses(&source), "{part} from {source}");
                let neighbour = source.lower()[0];
                let stairs = part.upper()[2] == 5 && number % 2 == 0 && neighbour == number + 1
                    || part.upper()[1] == 5 && number % 2 == 1 && neighbour == (number + 1) % 6
                    || part.lower()[2] == -1 && number % 2 == 1 && neighbour == number - 1
                    || part.lower()[1] == -1 && number % 2 == 0 && neighbour == (number + 5) % 6;
                let inside = neighbour == number;
                assert_eq!(numbering.orientation.is_turned(), !(stairs || inside), "{part} from {source}");
                turned += usize::from(numbering.orientation.is_turned());
            }
        }
        assert_eq!(turned, 12);
    }

    #[test]
    fn cells_across_an_edge_are_those_nearest_on_the_sphere() {
        let cells = 5;
        let centre = |tile: usize, y: i64, x: i64| {
            let centre = |index: i64| (index as f64 + 0.5) / cells as f64;
            TILES[tile].point(centre(y), centre(x))
        };
        for tile in 0..6 {
            let region = IndexBox::new([tile, -1, -1], [tile + 1, cells + 1, cells + 1]);
            for (part, numbering) in images(cells, &region) {
                for y in part.lower()[1]..part.upper()[1] {
                    for x in part.lower()[2]..part.upper()[2] {
                        let beside = centre(tile as usize, y.clamp(0, cells - 1), x.clamp(0, cells - 1));
                        let source = numbering.source(&IndexBox::new([tile, y, x], [tile + 1, y + 1, x + 1]));
                        let [other, row, column] = source.lower() else { panic!() };
                        let found = centre(*other as usize, *row, *column);
                        let distance: f64 = (0..3).map(|k| (found[k] - beside[k]).powi(2)).sum();
                        assert!(distance.sqrt() < 1.2 * std::f64::consts::FRAC_PI_2 / cells as f64);
                    }
                }
            }
        }
    }
}
