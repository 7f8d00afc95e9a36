//! The settings, read once from the environment. The front page of the crate has a table of them.

use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

/// The settings of the driver.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) opencl: String,
    pub(crate) seed: u64,
    pub(crate) delay: Duration,
    /// The version, as Intel's driver packs it: a byte, a byte and two bytes.
    pub(crate) version: u32,
    pub(crate) fault: Option<Fault>,
    /// Whether memory of other processes can be mapped.
    pub(crate) imports: bool,
    /// Whether the GPU has double precision.
    pub(crate) doubles: bool,
    pub(crate) traces: bool,
}

/// A fault of the driver, which tests must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Commands do not wait for events.
    Waits,
    /// Events are reached at once.
    Events,
}

/// The settings of this process.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        opencl: text("HALOPORT_LEVEL_ZERO_OPENCL").unwrap_or_else(|| "libintelocl.so".into()),
        seed: number("HALOPORT_LEVEL_ZERO_SEED", 1),
        delay: Duration::from_micros(number("HALOPORT_LEVEL_ZERO_DELAY_US", 0)),
        version: version("HALOPORT_LEVEL_ZERO_VERSION", "1.6.34000"),
        fault: text("HALOPORT_LEVEL_ZERO_FAULT").map(|word| match word.as_str() {
            "waits" => Fault::Waits,
            "events" => Fault::Events,
            _ => refuse("HALOPORT_LEVEL_ZERO_FAULT", "waits or events", &word),
        }),
        imports: number("HALOPORT_LEVEL_ZERO_IMPORTS", 1) != 0,
        doubles: number("HALOPORT_LEVEL_ZERO_DOUBLES", 1) != 0,
        traces: number("HALOPORT_LEVEL_ZERO_TRACE", 0) != 0,
    })
}

impl Settings {
    /// Whether the driver has this fault.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The number that a variable holds, or `default` if it is not set.
fn number<N: FromStr>(name: &str, default: N) -> N {
    text(name).map_or(default, |text| text.parse().unwrap_or_else(|_| refuse(name, "a number", &text)))
}

fn version(name: &str, default: &str) -> u32 {
    let text = text(name).unwrap_or_else(|| default.into());
    let parts: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some(&[major @ ..256, minor @ ..256, build @ ..65536]) => major << 24 | minor << 16 | build,
        _ => refuse(name, "a version such as 1.6.34000", &text),
    }
}

/// Ends the process: with a wrong setting a test would prove something else than it says.
fn refuse(name: &str, expected: &str, found: &str) -> ! {
    eprintln!("the Level Zero driver for tests: {name}: expected {expected}, found {found}");
    std::process::abort();
}
