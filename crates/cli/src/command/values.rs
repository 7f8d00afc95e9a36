//! Readers of values that several options have.

use std::str::FromStr;

/// Reads a whole number that is at least `LEAST`.
pub(crate) fn at_least<N: FromStr + PartialOrd + From<u8>, const LEAST: u8>(text: &str) -> Result<N, String> {
    let number = text.parse().ok().filter(|number| *number >= N::from(LEAST));
    number.ok_or_else(|| format!("expected a whole number from {LEAST}; found `{text}`"))
}

/// Reads an angle in degrees.
pub(crate) fn degrees(text: &str) -> Result<f64, String> {
    let degrees = text.parse().ok().filter(|degrees: &f64| degrees.abs() <= 360.0);
    degrees.ok_or_else(|| format!("expected degrees from -360 to 360; found `{text}`"))
}
