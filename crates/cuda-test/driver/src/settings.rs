//! The settings, read once from the environment. The front page of the crate has a table of them.

use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

/// The settings of the driver.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) records: bool,
    pub(crate) devices: i32,
    /// The device that has failed permanently.
    pub(crate) broken: Option<i32>,
    pub(crate) version: i32,
    /// The version of the compiler, in the same form.
    pub(crate) compiler: i32,
    /// Whether streams write and wait for numbers.
    pub(crate) has_numbers: bool,
    pub(crate) has_peers: bool,
    /// Hardware queues of each priority; `None` if each stream has its own.
    pub(crate) queues: Option<usize>,
    pub(crate) shares_queues: bool,
    pub(crate) seed: u64,
    pub(crate) delay: Duration,
    pub(crate) freeing: Freeing,
    pub(crate) handles: Handles,
    pub(crate) blocks_launches: bool,
    pub(crate) remote_writes: RemoteWrites,
    pub(crate) fault: Option<Fault>,
    pub(crate) finds_races: bool,
    /// The place in the source from which waits are left out.
    pub(crate) without_wait: Option<String>,
}

/// The work that freeing memory waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freeing {
    /// All work of the device.
    Waits,
    /// The same, while no other thread can call the driver.
    Locks,
    /// Nothing.
    AtOnce,
}

/// What makes writes of a network adapter visible to work that is in streams already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteWrites {
    /// Nothing: they are visible at once.
    Ordered,
    /// The flag of a wait for a number.
    Wait,
    /// A call of the host.
    Host,
    /// There is no means.
    Never,
}

/// The handles by which processes share memory of `cuMemCreate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handles {
    /// None: the devices have no virtual memory management.
    Missing,
    /// File descriptors.
    Descriptors,
    /// File descriptors and fabric handles.
    Fabric,
    /// The same, but this process may not make fabric handles.
    Denied,
    /// The same, but fabric handles cannot be imported, as without the daemon that they need.
    Unready,
}

/// A fault of the driver, which tests must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Streams do not wait for events.
    Waits,
    /// Streams do not wait for numbers.
    Gates,
    /// Events are reached at once.
    Events,
    /// Kernels run an axis backwards.
    Axis,
}

/// The settings of this process.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let queues = number("HALOPORT_DRIVER_QUEUES", 8);
        let records = number("HALOPORT_DRIVER_RECORDS", 0) != 0;
        Settings {
            records,
            // Streams that wait for no number have no order.
            finds_races: !records && number("HALOPORT_DRIVER_RACES", 1) != 0,
            without_wait: std::env::var("HALOPORT_DRIVER_WITHOUT_WAIT").ok(),
            devices: number("HALOPORT_DRIVER_DEVICES", 1),
            broken: Some(number("HALOPORT_DRIVER_BROKEN", -1)).filter(|device| *device >= 0),
            compiler: number("HALOPORT_DRIVER_COMPILER", 12_000),
            version: number("HALOPORT_DRIVER_VERSION", 12_000),
            has_numbers: one_of("HALOPORT_DRIVER_NUMBERS", &[("everywhere", true), ("nowhere", false)])
                .unwrap_or(true),
            has_peers: number("HALOPORT_DRIVER_PEERS", 1) != 0,
            queues: (queues > 0).then_some(queues),
            shares_queues: number("HALOPORT_DRIVER_QUEUES_SHARED", 0) != 0,
            seed: number("HALOPORT_DRIVER_SEED", 1),
            delay: Duration::from_micros(number("HALOPORT_DRIVER_DELAY_US", 0)),
            freeing: one_of(
                "HALOPORT_DRIVER_FREE",
                &[("waits", Freeing::Waits), ("locks", Freeing::Locks), ("at-once", Freeing::AtOnce)],
            )
            .unwrap_or(Freeing::Waits),
            handles: one_of(
                "HALOPORT_DRIVER_HANDLES",
                &[
                    ("none", Handles::Missing),
                    ("fd", Handles::Descriptors),
                    ("fabric", Handles::Fabric),
                    ("denied", Handles::Denied),
                    ("unready", Handles::Unready),
                ],
            )
            .unwrap_or(Handles::Descriptors),
            blocks_launches: number("CUDA_LAUNCH_BLOCKING", 0) != 0,
            remote_writes: one_of(
                "HALOPORT_DRIVER_RDMA",
                &[
                    ("ordered", RemoteWrites::Ordered),
                    ("wait", RemoteWrites::Wait),
                    ("host", RemoteWrites::Host),
                    ("never", RemoteWrites::Never),
                ],
            )
            .unwrap_or(RemoteWrites::Ordered),
            fault: one_of(
                "HALOPORT_DRIVER_FAULT",
                &[
                    ("waits", Fault::Waits),
                    ("gates", Fault::Gates),
                    ("events", Fault::Events),
                    ("axis", Fault::Axis),
                ],
            ),
        }
    })
}

impl Settings {
    /// Whether the driver has this fault.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// The number that a variable holds, or `default` if it is not set.
fn number<N: FromStr>(name: &str, default: N) -> N {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| refuse(name, "a number", &text)),
        Err(_) => default,
    }
}

/// The setting that the variable `name` holds as a word; `None` if the variable is not set.
fn one_of<T: Copy>(name: &str, known: &[(&str, T)]) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let found = known.iter().find(|(word, _)| *word == text);
    Some(found.map(|(_, meaning)| *meaning).unwrap_or_else(|| {
        let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
        refuse(name, &words.join(", "), &text)
    }))
}

/// Ends the process: with a wrong setting a test would prove something else than it says.
fn refuse(name: &str, expected: &str, found: &str) -> ! {
    eprintln!("the driver for tests: {name}: expected {expected}, found {found}");
    std::process::abort();
}
