//! The hump of the sea surface that starts the wave.

use serde::Serialize;
use thiserror::Error;

use crate::tsunami::block::{Block, Fields, MARGIN};
use crate::tsunami::metric::EARTH_RADIUS;
use crate::tsunami::relief::Relief;

/// A smooth hump of the sea surface, a Gaussian with elliptical contours.
///
/// The sea surface follows the uplift of the bed at once when an earthquake lifts it over a
/// region much wider than the sea is deep (Kajiura 1963); the default is a plain stand-in
/// for uplift on the continental slope off Vancouver Island, parallel to the coast, not a
/// reconstruction of an earthquake.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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

/// Distance from the top, in standard deviations, beyond which nothing is lifted: the hump
/// is there 4 millionths of its height.
pub const REACH: f64 = 5.0;

/// Why an uplift is refused.
#[derive(Debug, Error, PartialEq)]
#[error("the {name} of the uplift must be {expected}, found {found}")]
pub struct UpliftError {
    name: &'static str,
    expected: &'static str,
    found: f64,
}

impl Uplift {
    /// The uplift itself if its numbers make sense.
    ///
    /// # Errors
    /// [`UpliftError`].
    pub fn checked(self) -> Result<Self, UpliftError> {
        let finite = f64::is_finite;
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let on_globe = |value: f64| value.abs() <= 90.0;
        for (name, found, ok, expected) in [
            ("longitude", self.longitude, finite(self.longitude), "finite"),
            ("latitude", self.latitude, on_globe(self.latitude), "-90 to 90 degrees"),
            ("height", self.height, finite(self.height), "finite"),
            ("length", self.length, positive(self.length), "above 0 m"),
            ("width", self.width, positive(self.width), "above 0 m"),
            ("strike", self.strike, finite(self.strike), "finite"),
        ] {
            if !ok {
                return Err(UpliftError { name, expected, found });
            }
        }
        Ok(self)
    }

    /// The default uplift where its top lies on `relief`; elsewhere the same hump on the
    /// deepest cell, of several the first in row-major order.
    pub fn on(relief: &Relief) -> Self {
        let uplift = Self::default();
        let (nx, ny) = (relief.nx() as f64, relief.ny() as f64);
        let (column, row) = (relief.column_at(uplift.longitude), relief.row_at(uplift.latitude));
        if (-0.5..nx - 0.5).contains(&column) && (-0.5..ny - 0.5).contains(&row) {
            return uplift;
        }
        let lower = |deepest: usize, cell: usize| relief.elevation[cell] < relief.elevation[deepest];
        let all = 1..relief.elevation.len();
        let deepest = all.fold(0, |deepest, cell| if lower(deepest, cell) { cell } else { deepest });
        Self {
            longitude: relief.longitude[deepest % relief.nx()],
            latitude: relief.latitude[deepest / relief.nx()],
            ..uplift
        }
    }

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
        Self {
            longitude: 234.6,
            latitude: 48.37,
            height: 2.5,
            length: 26_000.0,
            width: 12_000.0,
            strike: 320.0,
        }
    }
}

/// The sea of `block` at rest, lifted by `uplift` where there is sea (a trough never below
/// the bed). The margin is left dry: walls and neighbours fill it.
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
    fn elsewhere_the_hump_stands_on_the_deepest_sea() {
        let shipped = Relief::from_bytes(crate::tsunami::SHIPPED).unwrap();
        assert_eq!(Uplift::on(&shipped), Uplift::default());
        let axis = |first: f64| (0..4).map(|i| first + 0.1 * f64::from(i)).collect::<Vec<_>>();
        let mut bed = vec![-2.0; 16];
        (bed[6], bed[9]) = (-9.0, -9.0);
        let relief = Relief::new(axis(10.0), axis(50.0), bed).unwrap();
        let uplift = Uplift::on(&relief);
        assert_eq!((uplift.longitude, uplift.latitude), (relief.longitude[2], relief.latitude[1]));
    }

    #[test]
    fn errors_say_what_was_expected_and_found() {
        let refused = |uplift: Uplift| uplift.checked().unwrap_err().to_string();
        let uplift = Uplift::default();
        assert_eq!(
            refused(Uplift { width: 0.0, ..uplift }),
            "the width of the uplift must be above 0 m, found 0"
        );
        assert_eq!(
            refused(Uplift { latitude: 91.0, ..uplift }),
            "the latitude of the uplift must be -90 to 90 degrees, found 91"
        );
        assert_eq!(uplift.checked(), Ok(uplift));
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
