//! One globe: every point of the picture is looked up on the sphere (orthographic projection).

use haloport_mesh::sphere::{arc, cross, dot, norm, unit};
use haloport_mesh::{Mesh, Partition};

use crate::advection::model::tracer::{Tracer, directions};
use crate::drawing::{Canvas, Rgb, TRACER, blend, bytes, shade};

/// Pixels.
pub(super) const RADIUS: i32 = 164;

/// The number of samples of a pixel along each axis.
const SAMPLES: i32 = 3;

/// Degrees between lines of the grid of latitudes and longitudes.
const GRATICULE: f64 = 30.0;

/// The number of dashes around the exact hill.
const DASHES: f64 = 28.0;

/// The direction of the light: right, up, towards the viewer.
const LIGHT: [f64; 3] = [-0.42, 0.5, 0.76];

const PAPER: Rgb = [1.0; 3];
const BORDER: Rgb = [0.93, 0.96, 1.0];
const EXACT: Rgb = [0.55, 0.93, 1.0];

/// The tracer of one level at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The time, days.
    pub days: f64,
    /// The value of every cell.
    pub values: Vec<f64>,
}

pub(super) struct Globe<'g> {
    mesh: &'g Mesh,
    partition: &'g Partition,
    values: &'g [f64],
    /// The top of the exact hill, two directions there, and the arc to its half height.
    top: [f64; 3],
    around: [[f64; 3]; 2],
    half_width: f64,
    /// Directions in space of the picture's right and upper side, and towards the viewer.
    view: [[f64; 3]; 3],
    /// Whether cells are large enough to draw their edges.
    show_cells: bool,
}

impl<'g> Globe<'g> {
    pub(super) fn new(
        mesh: &'g Mesh,
        partition: &'g Partition,
        tracer: &Tracer,
        snapshot: &'g Snapshot,
    ) -> Globe<'g> {
        let top = tracer.top(0, snapshot.days);
        let ahead = cross(tracer.wind.axis(), top);
        // A little behind the hill and north of it, so that the picture shows the hill's progress.
        let viewer = unit([0, 1, 2].map(|k| top[k] - 0.3 * ahead[k] + if k == 2 { 0.35 } else { 0.0 }));
        let north = |at: [f64; 3]| if at[2].abs() < 0.999 { [0.0, 0.0, 1.0] } else { [1.0, 0.0, 0.0] };
        let [right, up] = directions(viewer, north(viewer));
        Globe {
            mesh,
            partition,
            values: &snapshot.values,
            top,
            around: directions(top, north(top)),
            half_width: tracer.shape.half_width(),
            view: [right, up, viewer],
            show_cells: mesh.edge_length(0) * f64::from(RADIUS) > 9.0,
        }
    }

    /// Draws the globe into the square whose upper left corner is at `left` and `top`.
    pub(super) fn draw(&self, canvas: &mut Canvas, [left, top]: [i32; 2]) {
        let mut cell = 0;
        for y in 0..2 * RADIUS {
            for x in 0..2 * RADIUS {
                let mut sum = [0.0; 3];
                let mut hit = false;
                for sample in 0..SAMPLES * SAMPLES {
                    let position = |pixel: i32, sub: i32| {
                        let within = (f64::from(sub) + 0.5) / f64::from(SAMPLES);
                        (f64::from(pixel) + within) / f64::from(RADIUS) - 1.0
                    };
                    let (right, down) = (position(x, sample % SAMPLES), position(y, sample / SAMPLES));
                    let beyond = 1.0 - right * right - down * down;
                    let colour = if beyond > 0.0 {
                        hit = true;
                        self.colour([right, -down, beyond.sqrt()], &mut cell)
                    } else {
                        PAPER
                    };
                    (0..3).for_each(|band| sum[band] += colour[band]);
                }
                if hit {
                    let mean = sum.map(|band| band / f64::from(SAMPLES * SAMPLES));
                    canvas.put(left + x, top + y, bytes(mean));
                }
            }
        }
    }

    /// The colour of a point in the viewer's directions. The search begins at `cell` and sets it to the cell found.
    fn colour(&self, seen: [f64; 3], cell: &mut usize) -> Rgb {
        let at = [0, 1, 2].map(|axis| (0..3).map(|k| seen[k] * self.view[k][axis]).sum());
        *cell = self.find(at, *cell);
        let mut colour = TRACER.at(self.values[*cell]);
        for (edge, other) in self.mesh.cell_edges(*cell).iter().zip(self.mesh.cell_neighbours(*cell)) {
            let [a, b] = self.mesh.edge_vertices(*edge).map(|vertex| self.mesh.position(vertex));
            let across = cross(a, b);
            let pixels = dot(across, at).abs() / norm(across) * f64::from(RADIUS);
            let is_border =
                other.is_some_and(|other| self.partition.part(other) != self.partition.part(*cell));
            if is_border && pixels < 0.7 {
                colour = blend(colour, BORDER, 0.75);
            } else if self.show_cells && pixels < 0.35 {
                colour = blend(colour, [0.0; 3], 0.3);
            }
        }
        if self.on_graticule(at) {
            colour = blend(colour, PAPER, 0.13);
        }
        if self.on_exact(at) {
            colour = blend(colour, EXACT, 0.9);
        }
        let light = dot(seen, LIGHT).max(0.0) / norm(LIGHT);
        shade(colour, 0.76 + 0.28 * light)
    }

    fn on_graticule(&self, at: [f64; 3]) -> bool {
        let pixels = |degrees: f64, radius: f64| {
            let beside = degrees - (degrees / GRATICULE).round() * GRATICULE;
            beside.to_radians().abs() * radius * f64::from(RADIUS)
        };
        let (latitude, longitude) = (at[2].clamp(-1.0, 1.0).asin(), at[1].atan2(at[0]));
        let parallel = pixels(latitude.to_degrees(), 1.0) < 0.6;
        parallel
            || (latitude.to_degrees().abs() < 75.0 && pixels(longitude.to_degrees(), latitude.cos()) < 0.6)
    }

    fn on_exact(&self, at: [f64; 3]) -> bool {
        let beside = (arc(at, self.top) - self.half_width).abs() * f64::from(RADIUS);
        let [x, y] = self.around.map(|direction| dot(direction, at));
        beside < 0.9 && (y.atan2(x) / std::f64::consts::TAU * DASHES).rem_euclid(1.0) < 0.55
    }

    /// Finds the cell that contains `at`, from `start` on, across each edge that the point lies beyond.
    fn find(&self, at: [f64; 3], start: usize) -> usize {
        let mut cell = start;
        for _ in 0..self.mesh.cells() {
            let corners = self.mesh.cell_vertices(cell);
            let is_beyond = |k: usize| {
                let (a, b) = (corners[k], corners[(k + 1) % corners.len()]);
                dot(cross(self.mesh.position(a), self.mesh.position(b)), at) < 0.0
            };
            let mut across = self.mesh.cell_neighbours(cell).enumerate();
            match across.find_map(|(k, other)| other.filter(|_| is_beyond(k))) {
                Some(other) => cell = other,
                None => return cell,
            }
        }
        cell
    }
}
