//! The hump of the sea surface that starts the wave.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::tsunami::model::block::{Block, Fields, MARGIN};
use crate::tsunami::model::metric::EARTH_RADIUS;
use crate::tsunami::model::relief::Relief;

/// A smooth hump of the sea surface, a Gaussian with elliptical contours.
///
/// If an earthquake lifts the bed over a region much wider than the sea is deep, the sea surface follows at once
/// (Kajiura 1963). The default stands for uplift on the continental slope off Vancouver Island, parallel to the coast;
/// it is not a reconstruction of an earthquake.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Uplift {
    /// Longitude of the top, degrees east.
    pub longitude: f64,
    /// Latitude of the top, degrees north.
    pub latitude: f64,
    /// Height of the top, metres; negative for a trough.
    pub height: f64,
    /// Standard deviation along the strike, metres.
    pub length: f64,
    /// Standard deviation across the strike, metres.
    pub width: f64,
    /// Direction of the long axis, degrees clockwise from north.
    pub strike: f64,
}

/// Distance from the top, in standard deviations, beyond which nothing is lifted: there, the hump has 4 millionths of
/// its height.
pub const REACH: f64 = 5.0;

/// The error of an uplift that starts no wave on a map.
#[derive(Debug, Error, PartialEq)]
pub enum UpliftError {
    /// Its top lies beyond the edges of the map.
    #[error(
        "expected a place on the map, which reaches from {west:.2} to {east:.2} degrees east and from {south:.2} to \
         {north:.2} degrees north, found {longitude},{latitude}"
    )]
    Outside {
        /// Longitude of the top, degrees east.
        longitude: f64,
        /// Latitude of the top, degrees north.
        latitude: f64,
        /// Edges of the map, degrees east.
        west: f64,
        /// Edges of the map, degrees east.
        east: f64,
        /// Edges of the map, degrees north.
        south: f64,
        /// Edges of the map, degrees north.
        north: f64,
    },
    /// It lifts land alone.
    #[error(
        "expected a place with sea around it, found {longitude},{latitude}, where the uplift reaches nothing but land"
    )]
    NoSea {
        /// Longitude of the top, degrees east.
        longitude: f64,
        /// Latitude of the top, degrees north.
        latitude: f64,
    },
}

impl Uplift {
    /// Returns the uplift if its top lies on the map and it lifts some of the sea.
    ///
    /// # Errors
    /// [`UpliftError`].
    pub fn on_map(self, relief: &Relief) -> Result<Self, UpliftError> {
        let Self { longitude, latitude, .. } = self;
        let (nx, ny) = (relief.nx() as f64, relief.ny() as f64);
        let (column, row) = (relief.column_at(longitude), relief.row_at(latitude));
        if !(-0.5..nx - 0.5).contains(&column) || !(-0.5..ny - 0.5).contains(&row) {
            let [[west, east], [south, north]] = relief.edges();
            return Err(UpliftError::Outside { longitude, latitude, west, east, south, north });
        }
        let shape = Self { height: 1.0, ..self };
        let lifts_sea = |(row, &latitude): (usize, &f64)| {
            let cells = &relief.elevation[row * relief.nx()..][..relief.nx()];
            let mut columns = relief.longitude.iter().zip(cells);
            columns.any(|(&longitude, &bed)| bed < 0.0 && shape.at(longitude, latitude) > 0.0)
        };
        let any = relief.latitude.iter().enumerate().any(lifts_sea);
        if any { Ok(self) } else { Err(UpliftError::NoSea { longitude, latitude }) }
    }

    /// Off Vancouver Island, on the relief that is shipped.
    pub const SHIPPED: Self = Self {
        longitude: 234.6,
        latitude: 48.37,
        height: 2.5,
        length: 26_000.0,
        width: 12_000.0,
        strike: 320.0,
    };

    /// The height at a point (degrees east, degrees north), metres.
    pub fn at(&self, longitude: f64, latitude: f64) -> f64 {
        let turns = ((longitude - self.longitude) / 360.0).round();
        let degrees_east = longitude - 360.0 * turns - self.longitude;
        let shrink = self.latitude.to_radians().cos();
        let east = EARTH_RADIUS * shrink * degrees_east.to_radians();
        let north = EARTH_RADIUS * (latitude - self.latitude).to_radians();
        let (sin, cos) = self.strike.to_radians().sin_cos();
        let along = (east * sin + north * cos) / self.length;
        let across = (east * cos - north * sin) / self.width;
        let square = along * along + across * across;
        if square < REACH * REACH { self.height * (-0.5 * square).exp() } else { 0.0 }
    }
}

impl Default for Uplift {
    fn default() -> Self {
        Self::SHIPPED
    }
}

/// The sea of `block` at rest, lifted by `uplift` (a trough never reaches below the bed). The margin is left dry:
/// walls and neighbours fill it.
pub fn initial_state(block: &Block, relief: &Relief, uplift: &Uplift) -> Fields {
    let mut fields = Fields::dry(block);
    for row in 0..block.ny() {
        let latitude = relief.latitude[block.rows.start + row];
        for column in 0..block.nx() {
            let longitude = relief.longitude[block.columns.start + column];
            let cell = (row + MARGIN) * block.pitch + column + MARGIN;
            let depth = -block.bed[cell];
            if depth > 0.0 {
                fields.h[cell] = (depth + uplift.at(longitude, latitude)).max(0.0);
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hump_is_highest_in_its_middle_and_longest_along_its_strike() {
        let hump = Uplift { strike: 90.0, ..Uplift::default() };
        assert_eq!(hump.at(hump.longitude, hump.latitude), hump.height);
        assert_eq!(hump.at(hump.longitude - 360.0, hump.latitude), hump.height);
        let east = hump.at(hump.longitude + 0.3, hump.latitude);
        let north = hump.at(hump.longitude, hump.latitude + 0.2);
        assert!(east > north && north > 0.0, "{east} {north}");
        assert_eq!(hump.at(hump.longitude, hump.latitude + 2.0), 0.0);
    }

    #[test]
    fn a_hump_beyond_the_map_or_on_land_is_refused() {
        let axis = |first: f64| (0..4).map(|i| first + 0.1 * f64::from(i)).collect::<Vec<_>>();
        let mut bed = vec![9.0; 16];
        bed[15] = -9.0;
        let relief = Relief::new(axis(10.0), axis(50.0), bed).unwrap();
        let hump = |longitude, latitude| {
            let hump = Uplift { longitude, latitude, length: 4e3, width: 4e3, ..Uplift::default() };
            hump.on_map(&relief)
        };
        assert!(hump(10.3, 50.3).is_ok() && hump(370.34, 50.34).is_ok() && hump(-349.7, 50.2).is_ok());
        let error = hump(10.36, 50.3).unwrap_err().to_string();
        assert_eq!(
            error,
            "expected a place on the map, which reaches from 9.95 to 10.35 degrees east and from 49.95 to 50.35 degrees \
             north, found 10.36,50.3"
        );
        assert!(matches!(hump(10.3, 49.9), Err(UpliftError::Outside { .. })));
        assert!(matches!(hump(10.0, 50.0), Err(UpliftError::NoSea { .. })));
    }

    #[test]
    fn only_the_sea_is_lifted_and_never_dug_below_its_bed() {
        let axis = |first: f64| (0..4).map(|i| first + 0.1 * f64::from(i)).collect::<Vec<_>>();
        let mut bed = vec![-2.0; 16];
        bed[5] = 3.0;
        let relief = Relief::new(axis(234.5), axis(48.2), bed).unwrap();
        let block = Block::whole(&relief).unwrap();
        let depth = |height| {
            let uplift = Uplift { height, length: 1e6, width: 1e6, ..Uplift::default() };
            initial_state(&block, &relief, &uplift).h
        };
        let (crest, trough) = (depth(1.0), depth(-5.0));
        assert_eq!(crest[block.index(1, 1)], 0.0);
        assert!(crest[block.index(2, 1)] > 2.9);
        assert!(trough.iter().all(|&h| h == 0.0));
    }
}
