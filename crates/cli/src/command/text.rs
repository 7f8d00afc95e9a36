//! Numbers and settings as text.

/// A number with three digits.
pub(crate) fn significant(value: f64) -> String {
    let decimals = (2 - value.abs().log10().floor() as i32).clamp(0, 3) as usize;
    format!("{value:.decimals$}")
}

/// A number of things: `1 rank`, `2 ranks`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A word of 64 bits as 16 hexadecimal digits.
pub(crate) fn hexadecimal(word: u64) -> String {
    format!("{word:016x}")
}

/// The schedule of exchanges: whether the interior is computed meanwhile.
pub(crate) fn beside_exchanges(overlap: bool) -> &'static str {
    if overlap { "while the interior is computed" } else { "with nothing computed meanwhile" }
}

/// Bytes in a unit that gives few digits.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} bytes") } else { format!("{} {}", significant(value), UNITS[unit]) }
}
