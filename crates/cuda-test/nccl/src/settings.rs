//! The settings, read once from the environment. The front page of the crate has a table of them.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// The settings of the library.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) version: i32,
    pub(crate) delay: Duration,
    pub(crate) folder: Option<PathBuf>,
}

/// The settings of this process.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        version: number("HALOPORT_TEST_NCCL_VERSION", 22_703) as i32,
        delay: Duration::from_micros(number("HALOPORT_TEST_NCCL_DELAY_US", 500).into()),
        folder: std::env::var_os("HALOPORT_TEST_NCCL_FOLDER").map(PathBuf::from),
    })
}

/// The number that a variable holds, or `default` if it is not set.
fn number(name: &str, default: u32) -> u32 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| {
            // With a wrong setting a test would prove something else than it says.
            eprintln!("the NCCL for tests: {name}: expected a number, found {text}");
            std::process::abort();
        }),
        Err(_) => default,
    }
}
