//! The map of a picture: fields interpolated between cell centres, shore line, shaded land.

use crate::drawing::{LAND, Palette, Rgb, blend, rgb, shade};
use crate::tsunami::model::metric::EARTH_RADIUS;
use crate::tsunami::model::relief::Relief;

/// The values of a cell for the map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// The value to colour; `None` if dry.
    pub(crate) value: Option<f64>,
    /// Metres of water, negative on dry land; the shore runs where its blend is zero.
    pub(crate) level: f64,
}

/// The part of the sphere that is drawn, and its size in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Width of the map, pixels.
    pub(crate) width: u32,
    /// Height of the map, pixels: a degree of latitude is as long as on the ground.
    pub(crate) height: u32,
    /// Western edge, degrees east.
    pub(crate) west: f64,
    /// Eastern edge, degrees east.
    pub(crate) east: f64,
    /// Southern edge, degrees north.
    pub(crate) south: f64,
    /// Northern edge, degrees north.
    pub(crate) north: f64,
}

impl Frame {
    /// A map of all cells of the relief, as large as the limits allow.
    pub(crate) fn new(relief: &Relief) -> Self {
        let [[west, east], [south, north]] = relief.edges();
        let mut frame = Self { width: WIDEST, height: TALLEST, west, east, south, north };
        let tall_by_wide = (frame.north - frame.south) / ((frame.east - frame.west) * frame.shrink());
        let height = f64::from(WIDEST) * tall_by_wide;
        if height <= f64::from(TALLEST) {
            frame.height = (height as u32).max(SHORTEST);
        } else {
            frame.width = ((f64::from(TALLEST) / tall_by_wide) as u32).max(SHORTEST);
        }
        frame
    }

    /// Pixels from the western edge to a longitude.
    pub(crate) fn x(&self, longitude: f64) -> f64 {
        (longitude - self.west) / (self.east - self.west) * f64::from(self.width)
    }

    /// Pixels from the northern edge to a latitude.
    pub(crate) fn y(&self, latitude: f64) -> f64 {
        (self.north - latitude) / (self.north - self.south) * f64::from(self.height)
    }

    /// Width of the map on its middle latitude.
    pub(crate) fn kilometres_across(&self) -> f64 {
        EARTH_RADIUS * (self.east - self.west).to_radians() * self.shrink() / 1000.0
    }

    fn shrink(&self) -> f64 {
        (0.5 * (self.south + self.north)).to_radians().cos()
    }
}

/// Computes the pixels of the map: column, row from the north, colour.
///
/// Fields are bilinear between cell centres, values of water among the wet cells alone. The shore is the zero of the
/// level, smoothed over a pixel, and drawn as a thin line.
pub(crate) fn paint<'a>(
    relief: &'a Relief,
    frame: &'a Frame,
    cells: &'a [Cell],
    colour: impl Fn(f64) -> Rgb + 'a,
) -> impl Iterator<Item = (u32, u32, Rgb)> + 'a {
    let grid = Grid::new(relief, frame);
    let level: Vec<f64> = cells.iter().map(|cell| cell.level.clamp(-SHELF, SHELF)).collect();
    let level = grid.pixels(|corners| corners.blend(&level));
    let light = hillshade(relief);
    let (width, height) = (frame.width as usize, frame.height as usize);
    (0..width * height).map(move |pixel| {
        let (x, y) = (pixel % width, pixel / width);
        let corners = grid.corners(x, y);
        let across = [y * width + x.saturating_sub(1), y * width + (x + 1).min(width - 1)];
        let up = [y.saturating_sub(1) * width + x, (y + 1).min(height - 1) * width + x];
        let slope = |[from, to]: [usize; 2]| 0.5 * (level[to] - level[from]);
        let steepness = slope(across).hypot(slope(up)).max(1e-9);
        let offshore = level[pixel] / steepness;
        let around = [
            y * width + x.saturating_sub(2),
            y * width + (x + 2).min(width - 1),
            y.saturating_sub(2) * width + x,
            (y + 2).min(height - 1) * width + x,
        ];
        let coast = around.iter().any(|&other| (level[other] < 0.0) != (level[pixel] < 0.0));
        let land = ground(corners.blend(&relief.elevation), corners.blend(&light));
        // Neither tinted nor lit: a colour of the sea is that of its value in the colour bar.
        let sea = corners.wet(cells).map(&colour);
        let cover = (offshore + 0.5).clamp(0.0, 1.0);
        let mixed = blend(land, sea.unwrap_or(land), cover);
        let line = if coast { (1.25 - offshore.abs()).clamp(0.0, 1.0) } else { 0.0 };
        (x as u32, y as u32, blend(mixed, rgb(SHORE), 0.75 * line))
    })
}

/// Size limits of the map, pixels.
const WIDEST: u32 = 1000;
const TALLEST: u32 = 1000;
const SHORTEST: u32 = 240;

/// Levels are limited to this many metres, so that steep coasts do not push the shore line out.
const SHELF: f64 = 40.0;

/// Colour of the shore line.
const SHORE: u32 = 0x3b3a36;

/// The factor by which slopes of the relief are exaggerated for its lighting.
const EXAGGERATION: f64 = 6.0;

/// The highest land that has a colour of its own, metres.
const HIGHEST: f64 = 2000.0;

/// The positions of the pixels among the cells.
struct Grid {
    nx: usize,
    columns: Vec<Place>,
    rows: Vec<Place>,
}

/// Between cells `low` and `low + 1` of an axis, at `part` of the distance.
#[derive(Clone, Copy)]
struct Place {
    low: usize,
    part: f64,
}

/// The four cells around a pixel and their weights.
struct Corners {
    cells: [usize; 4],
    weights: [f64; 4],
}

impl Grid {
    fn new(relief: &Relief, frame: &Frame) -> Self {
        let part = |pixel: u32, of: u32| (f64::from(pixel) + 0.5) / f64::from(of);
        let column = |x| {
            let longitude = frame.west + part(x, frame.width) * (frame.east - frame.west);
            Place::new(relief.column_at(longitude), relief.nx())
        };
        let row = |y| {
            let latitude = frame.north - part(y, frame.height) * (frame.north - frame.south);
            Place::new(relief.row_at(latitude), relief.ny())
        };
        Self {
            nx: relief.nx(),
            columns: (0..frame.width).map(column).collect(),
            rows: (0..frame.height).map(row).collect(),
        }
    }

    fn corners(&self, x: usize, y: usize) -> Corners {
        let (column, row) = (self.columns[x], self.rows[y]);
        let first = row.low * self.nx + column.low;
        let (east, north) = (column.part, row.part);
        Corners {
            cells: [first, first + 1, first + self.nx, first + self.nx + 1],
            weights: [(1.0 - north) * (1.0 - east), (1.0 - north) * east, north * (1.0 - east), north * east],
        }
    }

    fn pixels(&self, value: impl Fn(Corners) -> f64) -> Vec<f64> {
        let pixels = (0..self.rows.len()).flat_map(|y| (0..self.columns.len()).map(move |x| (x, y)));
        pixels.map(|(x, y)| value(self.corners(x, y))).collect()
    }
}

impl Place {
    fn new(at: f64, cells: usize) -> Self {
        let at = at.clamp(0.0, (cells - 1) as f64);
        let low = (at as usize).min(cells - 2);
        Self { low, part: at - low as f64 }
    }
}

impl Corners {
    fn blend(&self, field: &[f64]) -> f64 {
        let pairs = self.cells.iter().zip(self.weights);
        pairs.map(|(&cell, weight)| weight * field[cell]).sum()
    }

    /// The mean of the wet cells; `None` if all are dry.
    fn wet(&self, cells: &[Cell]) -> Option<f64> {
        let (mut sum, mut total) = (0.0, 0.0);
        for (&cell, weight) in self.cells.iter().zip(self.weights) {
            if let Some(value) = cells[cell].value {
                sum += (weight + 1e-9) * value;
                total += weight + 1e-9;
            }
        }
        (total > 0.0).then(|| sum / total)
    }
}

/// Brightness of each cell lit from the north-west, halfway up (Horn 1981), less that of
/// level ground.
fn hillshade(relief: &Relief) -> Vec<f64> {
    let (nx, ny) = (relief.nx(), relief.ny());
    let metres = EARTH_RADIUS.to_radians();
    let elevation = |row: usize, column: usize| relief.elevation[row * nx + column];
    let mut light = Vec::with_capacity(nx * ny);
    for row in 0..ny {
        let (south, north) = (row.saturating_sub(1), (row + 1).min(ny - 1));
        let shrink = relief.latitude[row].to_radians().cos();
        let height = metres * (relief.latitude[north] - relief.latitude[south]);
        for column in 0..nx {
            let (west, east) = (column.saturating_sub(1), (column + 1).min(nx - 1));
            let width = metres * shrink * (relief.longitude[east] - relief.longitude[west]);
            let up_east = EXAGGERATION * (elevation(row, east) - elevation(row, west)) / width;
            let up_north = EXAGGERATION * (elevation(north, column) - elevation(south, column)) / height;
            let towards_light = 0.5 * (up_east - up_north) + std::f64::consts::FRAC_1_SQRT_2;
            let normal = (1.0 + up_east * up_east + up_north * up_north).sqrt();
            light.push((towards_light / normal).max(0.0) - std::f64::consts::FRAC_1_SQRT_2);
        }
    }
    light
}

fn ground(elevation: f64, light: f64) -> Rgb {
    let land: Palette = LAND;
    let tint = land.at((elevation.max(0.0) / HIGHEST).sqrt());
    shade(tint, 1.0 + 0.65 * light)
}
