//! Device strings: `auto`, `cpu:threads=4`.

use std::fmt;
use std::str::FromStr;

use haloport_core::device::DeviceError;
use haloport_cpu::CpuDevice;

use crate::AnyDevice;

/// The backends that Haloport knows, best first, with whether this build has them.
pub(crate) const BACKENDS: [(&str, bool); 3] =
    [("cuda", false), ("sycl", false), ("cpu", cfg!(feature = "cpu"))];

/// What a device string asks for.
///
/// | string | device |
/// | --- | --- |
/// | `auto` | the best device there is: of the backends of this build the first of CUDA, SYCL and CPU that has one |
/// | `cpu`, `cpu:0` | the CPU, with a thread for each core |
/// | `cpu:threads=4` | the CPU with 4 threads |
///
/// ```
/// use haloport::DeviceSpec;
///
/// let spec: DeviceSpec = "cpu:threads=4".parse()?;
/// assert_eq!(spec.to_string(), "cpu:threads=4");
/// assert_eq!(spec.threads(), Some(4));
/// # Ok::<(), haloport::SelectError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSpec {
    text: String,
    threads: Option<usize>,
}

/// Why a device string gives no device.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The string names nothing that Haloport knows.
    #[error("there is no device `{spec}`: {problem}; this build has {}", built())]
    Unknown {
        /// The string.
        spec: String,
        /// What was expected.
        problem: String,
    },
    /// The string names a backend that does not exist yet.
    #[error(
        "there is no device `{spec}`: this version of Haloport has no backend {backend}; this build has {}",
        built()
    )]
    NotBuilt {
        /// The string.
        spec: String,
        /// The backend.
        backend: &'static str,
    },
    /// The device's own error.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl DeviceSpec {
    /// The number of threads that the string asks for.
    pub fn threads(&self) -> Option<usize> {
        self.threads
    }

    /// The same, with `threads` threads where the device is the CPU and the string did not say how many.
    #[must_use]
    pub fn or_threads(mut self, threads: usize) -> DeviceSpec {
        self.threads = self.threads.or(Some(threads));
        self
    }

    /// Opens the device.
    ///
    /// # Errors
    /// [`SelectError::Device`].
    pub fn open(&self) -> Result<AnyDevice, SelectError> {
        // The CPU is the only backend of this build, so that `auto` means the CPU.
        let device = match self.threads {
            Some(threads) => CpuDevice::with_threads(threads)?,
            None => CpuDevice::new()?,
        };
        Ok(device.into())
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for DeviceSpec {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<DeviceSpec, SelectError> {
        let mut spec = DeviceSpec { text: text.to_string(), threads: None };
        let (backend, rest) =
            text.split_once(':').map_or((text, None), |(backend, rest)| (backend, Some(rest)));
        match (backend, rest) {
            ("auto", None) | ("cpu", None | Some("0")) => Ok(spec),
            ("auto", Some(_)) => Err(spec.unknown("`auto` stands alone")),
            ("cpu", Some(rest)) => match rest.strip_prefix("threads=").map(usize::from_str) {
                Some(Ok(threads)) if threads > 0 => {
                    spec.threads = Some(threads);
                    Ok(spec)
                }
                Some(_) => Err(spec.unknown("expected a number of threads from 1, such as `cpu:threads=4`")),
                None => Err(spec.unknown("the CPU is `cpu`, `cpu:0` or, with 4 threads, `cpu:threads=4`")),
            },
            _ => Err(match BACKENDS.iter().find(|(name, _)| *name == backend) {
                Some((backend, _)) => SelectError::NotBuilt { spec: spec.text, backend },
                None => spec.unknown("expected `auto`, `cpu`, `cpu:threads=4`, `cuda:0` or `sycl:gpu:0`"),
            }),
        }
    }
}

impl DeviceSpec {
    fn unknown(&self, problem: &str) -> SelectError {
        SelectError::Unknown { spec: self.text.clone(), problem: problem.to_string() }
    }
}

/// The backends of this build, in words.
fn built() -> String {
    let names: Vec<_> = BACKENDS.iter().filter(|(_, built)| *built).map(|(name, _)| *name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_strings_are_understood_or_refused_with_advice() {
        for good in ["auto", "cpu", "cpu:0", "cpu:threads=3"] {
            assert_eq!(good.parse::<DeviceSpec>().unwrap().to_string(), good);
        }
        let refusal = |text: &str| text.parse::<DeviceSpec>().unwrap_err().to_string();
        assert_eq!(
            refusal("cuda:1"),
            "there is no device `cuda:1`: this version of Haloport has no backend cuda; this build has cpu"
        );
        assert!(refusal("sycl:gpu:0").contains("has no backend sycl"));
        assert_eq!(
            refusal("cpu:threads=0"),
            "there is no device `cpu:threads=0`: expected a number of threads from 1, such as `cpu:threads=4`; \
             this build has cpu"
        );
        for bad in ["", "cpu:", "cpu:1", "auto:0", "gpu", "cpu:threads=x", "CPU"] {
            assert!(refusal(bad).starts_with(&format!("there is no device `{bad}`: ")), "{bad}");
        }
    }

    #[test]
    fn a_number_of_threads_in_the_string_wins() {
        let threads = |text: &str| text.parse::<DeviceSpec>().unwrap().or_threads(1).threads();
        assert_eq!(threads("cpu"), Some(1));
        assert_eq!(threads("cpu:threads=2"), Some(2));
    }
}
