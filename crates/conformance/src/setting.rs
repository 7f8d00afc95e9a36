//! How much is tested, from the environment.

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

/// All of these if `HALOPORT_TEST_SET` is `thorough`; otherwise one of them, which `HALOPORT_TEST_SEED` chooses, a date: over
/// the days each has its turn.
///
/// # Panics
/// If `HALOPORT_TEST_SEED` is no number.
pub fn drawn<T>(all: &[T]) -> &[T] {
    if all.is_empty() || is_thorough() {
        return all;
    }
    let one = setting("HALOPORT_TEST_SEED", 0) % all.len();
    &all[one..=one]
}

/// `all` if `HALOPORT_TEST_SET` is `thorough`, otherwise `default`.
pub fn usual<T>(default: T, all: T) -> T {
    if is_thorough() { all } else { default }
}

fn is_thorough() -> bool {
    std::env::var_os("HALOPORT_TEST_SET").is_some_and(|set| set == "thorough")
}
