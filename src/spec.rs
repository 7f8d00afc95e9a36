//! Device strings: `auto`, `cpu:threads=4`, `sycl:gpu:0`.

use std::fmt;
use std::str::FromStr;

use haloport_core::device::DeviceError;
#[cfg(feature = "cpu")]
use haloport_cpu::CpuDevice;
#[cfg(feature = "cuda")]
use haloport_cuda::CudaDevice;
#[cfg(feature = "sycl")]
use haloport_sycl::SyclDevice;

use crate::any_device::AnyDevice;

/// The backends that Haloport knows, best first, and whether this build has them.
pub(crate) const BACKENDS: [(&str, bool); 3] =
    [("cuda", cfg!(feature = "cuda")), ("sycl", cfg!(feature = "sycl")), ("cpu", cfg!(feature = "cpu"))];

/// A device string, read.
///
/// | string | device |
/// | --- | --- |
/// | `auto` | the best device there is: that of the first backend of this build, in the order CUDA, SYCL, CPU, that has one; of SYCL a GPU or an accelerator only, if the CPU backend is built, which is faster on a CPU |
/// | `cpu`, `cpu:0` | the CPU, with a thread for each core; with one thread, if an MPI launcher has started several processes on this node; with `RAYON_NUM_THREADS` threads, if that is set |
/// | `cpu:threads=4` | the CPU with 4 threads |
/// | `cuda`, `cuda:1` | with the feature `cuda`: the first NVIDIA GPU, the second one |
/// | `sycl` | with the feature `sycl`: the first GPU that OpenCL offers; without a GPU, the first accelerator; without either, the first CPU |
/// | `sycl:gpu:0`, `sycl:cpu:1`, `sycl:2` | the device of that type with that number, or the one of any type |
/// | `opencl:gpu:0`, … | the same, in the spelling of SYCL's filter strings |
/// | `level_zero`, `level_zero:gpu:1` | with the feature `sycl`: the device that SYCL finds by this filter string |
///
/// ```
/// use haloport::device::DeviceSpec;
///
/// let spec: DeviceSpec = "cpu:threads=4".parse()?;
/// assert_eq!(spec.to_string(), "cpu:threads=4");
/// assert_eq!(spec.threads(), Some(4));
/// # Ok::<(), haloport::device::SelectError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSpec {
    text: String,
    backend: Wanted,
    threads: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Auto,
    #[cfg(feature = "cpu")]
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda,
    #[cfg(feature = "sycl")]
    Sycl,
}

/// Why a device string names no device that can be opened.
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
    /// The string names a backend that this build lacks.
    #[error("there is no device `{spec}`: {}; this build has {}", missing(backend), built())]
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

impl AnyDevice {
    /// Opens the device that `spec` names: `auto` (the best one there is), `cpu`, `cpu:0`, `cpu:threads=4`, `sycl:gpu:0`. See
    /// [`DeviceSpec`].
    ///
    /// ```
    /// use haloport::AnyDevice;
    ///
    /// let error = AnyDevice::select("gpu").unwrap_err();
    /// assert!(error.to_string().starts_with("there is no device `gpu`"));
    /// ```
    ///
    /// # Errors
    /// [`SelectError`], which says what was looked for, what is there, and what to do.
    pub fn select(spec: &str) -> Result<AnyDevice, SelectError> {
        spec.parse::<DeviceSpec>()?.open()
    }
}

impl DeviceSpec {
    /// The number of threads that the string asks for, if it names one.
    pub fn threads(&self) -> Option<usize> {
        self.threads
    }

    /// The same, with `threads` threads if the device is the CPU and the string names no number.
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
        match self.backend {
            Wanted::Auto => self.open_best(),
            #[cfg(feature = "cpu")]
            Wanted::Cpu => self.open_cpu(),
            #[cfg(feature = "cuda")]
            Wanted::Cuda => Ok(CudaDevice::select(&self.text)?.into()),
            #[cfg(feature = "sycl")]
            Wanted::Sycl => Ok(SyclDevice::select(&self.text)?.into()),
        }
    }

    /// Opens a device of the first backend that has one. If none has, the error is that of the last backend, which most
    /// machines have.
    fn open_best(&self) -> Result<AnyDevice, SelectError> {
        type Open = fn(&DeviceSpec) -> Result<AnyDevice, SelectError>;
        let best_first: &[Open] = &[
            #[cfg(feature = "cuda")]
            |_| Ok(CudaDevice::new()?.into()),
            #[cfg(all(feature = "sycl", feature = "cpu"))]
            |_| Ok(SyclDevice::select("sycl:gpu")?.into()),
            #[cfg(all(feature = "sycl", feature = "cpu"))]
            |_| Ok(SyclDevice::select("sycl:accelerator")?.into()),
            #[cfg(all(feature = "sycl", not(feature = "cpu")))]
            |_| Ok(SyclDevice::new()?.into()),
            #[cfg(feature = "cpu")]
            DeviceSpec::open_cpu,
        ];
        let mut found = Err(unknown(&self.text, "there is no backend"));
        for open in best_first {
            found = open(self);
            if found.is_ok() {
                break;
            }
        }
        found
    }

    #[cfg(feature = "cpu")]
    fn open_cpu(&self) -> Result<AnyDevice, SelectError> {
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
        let of = |backend| Ok(DeviceSpec { text: text.to_string(), backend, threads: None });
        let (backend, rest) =
            text.split_once(':').map_or((text, None), |(backend, rest)| (backend, Some(rest)));
        match (backend, rest) {
            ("auto", None) => of(Wanted::Auto),
            ("auto", Some(_)) => Err(unknown(text, "`auto` stands alone")),
            #[cfg(feature = "cpu")]
            ("cpu", None | Some("0")) => of(Wanted::Cpu),
            #[cfg(feature = "cpu")]
            ("cpu", Some(rest)) => match rest.strip_prefix("threads=").map(usize::from_str) {
                Some(Ok(threads)) if threads > 0 => {
                    Ok(DeviceSpec { threads: Some(threads), ..of(Wanted::Cpu)? })
                }
                Some(_) => Err(unknown(text, "expected a number of threads from 1, such as `cpu:threads=4`")),
                None => Err(unknown(text, "the CPU is `cpu`, `cpu:0` or, with 4 threads, `cpu:threads=4`")),
            },
            #[cfg(feature = "cuda")]
            ("cuda", _) => match text.parse::<haloport_cuda::Selector>() {
                Ok(_) => of(Wanted::Cuda),
                Err(error) => Err(unknown(text, &error.to_string())),
            },
            #[cfg(feature = "sycl")]
            ("sycl" | "opencl" | "level_zero", _) => match text.parse::<haloport_sycl::Selector>() {
                Ok(_) => of(Wanted::Sycl),
                Err(error) => Err(unknown(text, &error.to_string())),
            },
            _ => {
                // SYCL's own backends are in the feature `sycl`.
                let feature = if matches!(backend, "opencl" | "level_zero") { "sycl" } else { backend };
                Err(match BACKENDS.iter().find(|(name, _)| *name == feature) {
                    Some((backend, _)) => SelectError::NotBuilt { spec: text.to_string(), backend },
                    None => {
                        unknown(text, "expected `auto`, `cpu`, `cpu:threads=4`, `cuda:0` or `sycl:gpu:0`")
                    }
                })
            }
        }
    }
}

fn unknown(spec: &str, problem: &str) -> SelectError {
    SelectError::Unknown { spec: spec.to_string(), problem: problem.to_string() }
}

/// Why a backend that Haloport knows is not in this build.
pub(crate) fn missing(backend: &str) -> String {
    format!("it needs the feature `{backend}`, which this build lacks")
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
        if cfg!(not(feature = "cuda")) {
            assert_eq!(
                refusal("cuda:1"),
                "there is no device `cuda:1`: it needs the feature `cuda`, which this build lacks; this build has "
                    .to_string()
                    + &built()
            );
        }
        if cfg!(not(feature = "sycl")) {
            assert_eq!(
                refusal("sycl:gpu:0"),
                "there is no device `sycl:gpu:0`: it needs the feature `sycl`, which this build lacks; this build has "
                    .to_string()
                    + &built()
            );
        }
        for bad in ["cuda:", "cuda:x", "sycl:x:y"] {
            assert!(refusal(bad).starts_with(&format!("there is no device `{bad}`: ")), "{bad}");
        }
        assert_eq!(
            refusal("cpu:threads=0"),
            "there is no device `cpu:threads=0`: expected a number of threads from 1, such as `cpu:threads=4`; \
             this build has "
                .to_string()
                + &built()
        );
        for bad in ["", "cpu:", "cpu:1", "auto:0", "gpu", "cpu:threads=x", "CPU"] {
            assert!(refusal(bad).starts_with(&format!("there is no device `{bad}`: ")), "{bad}");
        }
    }

    #[cfg(all(feature = "sycl", feature = "cpu"))]
    #[test]
    fn a_cpu_is_left_to_the_cpu_backend_unless_it_is_named() {
        let opened = |text: &str| text.parse::<DeviceSpec>().unwrap().open();
        let better = ["sycl:gpu", "sycl:accelerator"].into_iter().find_map(|kind| opened(kind).ok());
        let best = better.map_or("cpu", |device| device.backend());
        #[cfg(feature = "cuda")]
        let best = if CudaDevice::new().is_ok() { "cuda" } else { best };
        assert_eq!(opened("auto").unwrap().backend(), best);
        if let Ok(device) = opened("sycl") {
            assert!(["sycl", "level_zero"].contains(&device.backend()), "{}", device.backend());
        }
    }

    #[test]
    fn a_number_of_threads_in_the_string_wins() {
        let threads = |text: &str| text.parse::<DeviceSpec>().unwrap().or_threads(1).threads();
        assert_eq!(threads("cpu"), Some(1));
        assert_eq!(threads("cpu:threads=2"), Some(2));
    }
}
