//! The suites that every backend and every transport passes.
//!
//! - [`device`]: a backend joins with one line, `haloport_conformance::device::suite(&device, &[])`.
//! - [`transport`]: a transport joins with `haloport_conformance::transport::suite(&comm)` on every rank.
//! - [`faults`]: exchanges on a device of which one call fails; [`exported`]: on one whose memory other processes reach; both
//!   are devices [`altered`].
//! - [`out_of_step`]: ranks that make collective calls in different orders.
//! - [`large`]: sizes beyond 32 bits.
//! - [`exchange`]: random decompositions, halos and fields against a global oracle, on any device and transport.
//! - [`unstructured`]: the same for unstructured domains.
//! - [`cubed_sphere`]: the same for cubed spheres, against geometry.
//! - [`mod@line`]: random intervals of a line and windows around them.
//! - [`ordering`]: exchanges and the work around them, on devices that go on working after a call has returned.
//! - [`scheduled`]: exchanges whose end the host does not wait for, on such devices, and what becomes of failures.
//! - [`panics`]: panics of callbacks and of drivers on the thread for progress, on such devices.
//! - [`staging`]: messages that are staged in chunks, on such devices.
//! - [`trace`]: the time line of exchanges and kernels on such devices.
//! - [`steps`]: steps that are recorded once and replayed, as one launch on devices that capture work.
//! - [`sparse`]: random rounds of sparse exchanges, with others and exchanges of halos in flight, against an oracle.
//! - [`queued`]: a device of the CPU that goes on working after a call has returned, and captures work, for all of these.
//! - [`random`]: many random exchanges of each kind on one device, with ranks as threads.
//! - [`mutation`]: damaged inputs for readers.
//! - [`nvrtc`]: whether CUDA's compiler takes kernels.
//!
//! What a backend cannot do is data: an [`Exception`] with a reason. An exception that passes fails the suite.

#![warn(missing_docs)]

pub mod altered;
pub mod cubed_sphere;
pub mod device;
pub mod exchange;
pub mod exported;
pub mod faults;
pub mod large;
pub mod line;
pub mod mutation;
pub mod nvrtc;
mod oracle;
pub mod ordering;
pub mod out_of_step;
pub mod panics;
pub mod queued;
pub mod random;
pub mod scheduled;
pub mod sparse;
pub mod staging;
pub mod steps;
pub mod trace;
pub mod transport;
pub mod unstructured;

/// What a test says when it fails.
pub type Failure = haloport_core::Error;

/// A test that is known to fail on a backend.
#[derive(Debug, Clone, Copy)]
pub struct Exception {
    /// The name of the test.
    pub test: &'static str,
    /// Why it fails.
    pub reason: &'static str,
}

/// What a suite found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The names of the tests that passed.
    pub passed: Vec<&'static str>,
    /// The tests that are excused, with the reasons.
    pub excused: Vec<(&'static str, &'static str)>,
}

/// Fails with a text unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+).into());
        }
    };
}

/// A test by name.
type Test<S> = (&'static str, fn(&S) -> Result<(), Failure>);

/// Runs named tests and holds the outcome against the exceptions.
pub(crate) fn judge<S>(subject: &S, tests: &[Test<S>], exceptions: &[Exception]) -> Result<Report, String> {
    let mut report = Report::default();
    let mut failures = Vec::new();
    for (name, test) in tests {
        let exception = exceptions.iter().find(|exception| exception.test == *name);
        match (test(subject), exception) {
            (Ok(()), None) => report.passed.push(name),
            (Ok(()), Some(exception)) => {
                failures.push(format!("`{name}` passes, but is excused: {}", exception.reason));
            }
            (Err(_), Some(exception)) => report.excused.push((name, exception.reason)),
            (Err(error), None) => failures.push(format!("`{name}` fails: {error}")),
        }
    }
    for exception in
        exceptions.iter().filter(|exception| tests.iter().all(|(name, _)| *name != exception.test))
    {
        failures.push(format!("there is no test `{}` to excuse", exception.test));
    }
    if failures.is_empty() { Ok(report) } else { Err(failures.join("\n")) }
}
