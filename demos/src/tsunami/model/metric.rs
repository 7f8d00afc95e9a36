//! Lengths and areas of the cells of a longitude-latitude grid, one value for each row.

use std::ops::Range;

use crate::tsunami::model::relief::Relief;

/// Mean radius of the Earth, metres (Moritz 2000, Geodetic Reference System 1980, R1).
pub const EARTH_RADIUS: f64 = 6_371_008.8;

/// Angular velocity of the Earth, radians per second (Moritz 2000).
pub const EARTH_ROTATION: f64 = 7.292_115e-5;

/// The metric of the rows of a block, including margin rows.
///
/// A cell of row `j` between latitudes `a` and `b` has, on a sphere of radius `R`, the area
/// `R^2 (sin b - sin a) dlon`, a west and an east face of length `R (b - a)`, and a south
/// and a north face of length `R cos(a) dlon` and `R cos(b) dlon`. All trigonometry is done
/// here, once.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Area of a cell, square metres.
    pub area: Vec<f64>,
    /// Length of the west and the east face over the area, 1/m.
    pub side: Vec<f64>,
    /// Length of the south face over the area, 1/m.
    pub south: Vec<f64>,
    /// Length of the north face over the area, 1/m.
    pub north: Vec<f64>,
    /// One over the distance from the south to the north face, 1/m.
    pub per_height: Vec<f64>,
    /// Coriolis parameter `2 Omega sin(latitude)`, 1/s.
    pub coriolis: Vec<f64>,
    /// Turning of the grid's axes, `tan(latitude) / R`, 1/m.
    pub turning: Vec<f64>,
}

/// The metric of some rows, borrowed; see [`Metric`].
#[derive(Clone, Copy, Debug)]
pub struct MetricView<'a> {
    /// Length of the west and the east face over the area, 1/m.
    pub side: &'a [f64],
    /// Length of the south face over the area, 1/m.
    pub south: &'a [f64],
    /// Length of the north face over the area, 1/m.
    pub north: &'a [f64],
    /// One over the distance from the south to the north face, 1/m.
    pub per_height: &'a [f64],
    /// Coriolis parameter, 1/s.
    pub coriolis: &'a [f64],
    /// Turning of the grid's axes, 1/m.
    pub turning: &'a [f64],
}

impl<'a> MetricView<'a> {
    /// The number of values of a row.
    pub const VALUES: usize = 6;

    /// The parts of an array that [`to_vec`](MetricView::to_vec) made.
    pub fn of(values: &'a [f64]) -> Self {
        let rows = values.len() / Self::VALUES;
        let part = |number: usize| &values[number * rows..(number + 1) * rows];
        Self {
            side: part(0),
            south: part(1),
            north: part(2),
            per_height: part(3),
            coriolis: part(4),
            turning: part(5),
        }
    }

    /// All values of the first kind, then all of the second, and so on.
    pub fn to_vec(self) -> Vec<f64> {
        [self.side, self.south, self.north, self.per_height, self.coriolis, self.turning].concat()
    }
}

impl Metric {
    /// The metric as a stage reads it.
    pub fn view(&self) -> MetricView<'_> {
        MetricView {
            side: &self.side,
            south: &self.south,
            north: &self.north,
            per_height: &self.per_height,
            coriolis: &self.coriolis,
            turning: &self.turning,
        }
    }

    /// The metric of global rows `rows` with `margin` rows more at either end, all computed from global data. Rows
    /// beyond the grid repeat its first or last row.
    pub fn new(relief: &Relief, rows: Range<usize>, margin: usize) -> Self {
        let edges = row_edges(&relief.latitude);
        let width = relief.longitude_step().to_radians();
        let last = relief.ny() - 1;
        let global: Vec<usize> = (0..rows.len() + 2 * margin)
            .map(|row| (rows.start + row).saturating_sub(margin).min(last))
            .collect();
        let of_rows = |value: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
            let of_row = |&row: &usize| value(edges[row], edges[row + 1]);
            global.iter().map(of_row).collect()
        };
        let area = |a: f64, b: f64| EARTH_RADIUS * EARTH_RADIUS * (b.sin() - a.sin()) * width;
        let height = |a: f64, b: f64| EARTH_RADIUS * (b - a);
        let parallel = |a: f64| EARTH_RADIUS * a.cos() * width;
        let middle = |a: f64, b: f64| 0.5 * (a + b);
        Self {
            area: of_rows(&area),
            side: of_rows(&|a, b| height(a, b) / area(a, b)),
            south: of_rows(&|a, b| parallel(a) / area(a, b)),
            north: of_rows(&|a, b| parallel(b) / area(a, b)),
            per_height: of_rows(&|a, b| 1.0 / height(a, b)),
            coriolis: of_rows(&|a, b| 2.0 * EARTH_ROTATION * middle(a, b).sin()),
            turning: of_rows(&|a, b| middle(a, b).tan() / EARTH_RADIUS),
        }
    }

    /// A flat grid of `rows` rows of rectangles without rotation, for tests of the scheme;
    /// `width` and `height` in metres.
    pub fn flat(rows: usize, width: f64, height: f64) -> Self {
        Self {
            area: vec![width * height; rows],
            side: vec![1.0 / width; rows],
            south: vec![1.0 / height; rows],
            north: vec![1.0 / height; rows],
            per_height: vec![1.0 / height; rows],
            coriolis: vec![0.0; rows],
            turning: vec![0.0; rows],
        }
    }
}

/// Latitudes of the faces between rows and beyond the outer ones, radians.
fn row_edges(latitude: &[f64]) -> Vec<f64> {
    let last = latitude.len() - 1;
    let south = 1.5 * latitude[0] - 0.5 * latitude[1];
    let north = 1.5 * latitude[last] - 0.5 * latitude[last - 1];
    std::iter::once(south)
        .chain(latitude.windows(2).map(|pair| 0.5 * (pair[0] + pair[1])))
        .chain(std::iter::once(north))
        .map(f64::to_radians)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_tile_the_sphere_and_shrink_northwards() {
        let axis = |first: f64| (0..6).map(|i| first + f64::from(i)).collect::<Vec<_>>();
        let relief = Relief::new(axis(10.0), axis(40.0), vec![-1.0; 36]).unwrap();
        let metric = Metric::new(&relief, 0..6, 2);
        let owned = 2..8;
        let total: f64 = metric.area[owned.clone()].iter().sum();
        let band = |a: f64, b: f64| b.to_radians().sin() - a.to_radians().sin();
        let exact = EARTH_RADIUS.powi(2) * 1_f64.to_radians() * band(39.5, 45.5);
        assert!((total / exact - 1.0).abs() < 1e-12);
        for row in owned.skip(1) {
            let shared = metric.south[row] * metric.area[row];
            let from_below = metric.north[row - 1] * metric.area[row - 1];
            assert!((shared / from_below - 1.0).abs() < 1e-14);
            assert!(metric.area[row] < metric.area[row - 1]);
            let height = metric.side[row] * metric.area[row];
            assert!((height * metric.per_height[row] - 1.0).abs() < 1e-14);
        }
        assert!((metric.coriolis[7] - 1.031e-4).abs() < 1e-7);
    }

    #[test]
    fn a_part_of_the_rows_has_the_metric_of_the_whole() {
        let axis = |first: f64| (0..9).map(|i| first + f64::from(i)).collect::<Vec<_>>();
        let relief = Relief::new(axis(10.0), axis(40.0), vec![-1.0; 81]).unwrap();
        let (whole, part) = (Metric::new(&relief, 0..9, 2), Metric::new(&relief, 3..6, 2));
        assert_eq!(whole.south[3..10], part.south[..]);
        assert_eq!(whole.turning[3..10], part.turning[..]);
    }
}
