//! Named tests, and the exceptions of a backend.

/// Why a test failed.
pub type Failure = haloport_core::Error;

/// A test that is known to fail on a backend.
#[derive(Debug, Clone, Copy)]
pub struct Exception {
    /// The name of the test.
    pub test: &'static str,
    /// Why it fails.
    pub reason: &'static str,
}

/// The outcome of a suite.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The names of the tests that passed.
    pub passed: Vec<&'static str>,
    /// The tests that failed and are excused, with the reasons.
    pub excused: Vec<(&'static str, &'static str)>,
}

/// Returns an error with the given text unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+).into());
        }
    };
}

/// A test with its name.
type Test<S> = (&'static str, fn(&S) -> Result<(), Failure>);

/// Runs named tests and compares the outcome with the exceptions.
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
    let is_unknown = |exception: &&Exception| tests.iter().all(|(name, _)| *name != exception.test);
    for exception in exceptions.iter().filter(is_unknown) {
        failures.push(format!("there is no test `{}` to excuse", exception.test));
    }
    if failures.is_empty() { Ok(report) } else { Err(failures.join("\n")) }
}
