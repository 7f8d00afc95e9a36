//! Sizes of tests, from the environment.

use std::str::FromStr;

/// The number that a variable holds, or `usual` if it is not set.
///
/// # Panics
/// If the variable holds no number.
pub(crate) fn setting<N: FromStr>(name: &str, usual: N) -> N {
    let Some(text) = std::env::var_os(name) else { return usual };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{name}: expected a number, found `{}`", text.display()))
}
