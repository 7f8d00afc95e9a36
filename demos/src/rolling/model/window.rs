//! The length of a window.

use std::fmt;
use std::str::FromStr;

/// A length: of time, or a plain number in the units of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    number: f64,
    /// Seconds, and the text from which they were read.
    unit: Option<(f64, &'static str)>,
}

/// Names of units of time, and their seconds.
const UNITS: [(&str, f64); 5] =
    [("w", 604_800.0), ("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0)];

impl Window {
    /// The length in seconds; `None` for a plain number.
    pub fn seconds(&self) -> Option<f64> {
        self.unit.map(|(seconds, _)| self.number * seconds)
    }

    /// The plain number; `None` for a length of time.
    pub fn plain(&self) -> Option<f64> {
        self.unit.is_none().then_some(self.number)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, self.unit.map_or("", |(_, name)| name))
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let name = &text[digits.len()..];
        let unit =
            UNITS.into_iter().find(|(known, _)| *known == name).map(|(known, seconds)| (seconds, known));
        let number = digits.parse().ok().filter(|&number: &f64| number > 0.0 && number.is_finite());
        match number {
            Some(number) if name.is_empty() || unit.is_some() => Ok(Window { number, unit }),
            _ => Err(format!(
                "expected a length above 0 with its unit (w, d, h, min or s), such as 365d, or a number without one \
                 for a column of numbers; found `{text}`"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_a_unit_or_none() {
        assert_eq!("365d".parse::<Window>().unwrap().seconds(), Some(365.0 * 86_400.0));
        assert_eq!("1.5min".parse::<Window>().unwrap().seconds(), Some(90.0));
        assert_eq!("12".parse::<Window>().unwrap().plain(), Some(12.0));
        assert_eq!("12".parse::<Window>().unwrap().seconds(), None);
        assert_eq!("2w".parse::<Window>().unwrap().to_string(), "2w");
        for bad in ["", "0", "0d", "-3d", "d", "3y", "infd", "nan", "3 d"] {
            assert!(bad.parse::<Window>().is_err(), "{bad}");
        }
    }
}
