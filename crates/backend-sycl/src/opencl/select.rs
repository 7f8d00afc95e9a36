//! The devices that there are, and the one that a name means.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use cl3::device::{CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU};
use cl3::types::cl_device_id;
use haloport_core::device::DeviceError;
use opencl3::device::Device;
use opencl3::error_codes::{CL_PLATFORM_NOT_FOUND_KHR, ClError};
use opencl3::platform::{Platform, get_platforms};

use super::library::{ANY, failed, library, text};
use super::unified::Unified;
use crate::kind::Kind;
use crate::libsycl::native;

/// The name of a device: its type, if given, and its number among the devices of that type.
///
/// | string | device |
/// | --- | --- |
/// | `sycl` | the first GPU of OpenCL, otherwise the first accelerator, otherwise the first CPU; if there is none, the first of Level Zero |
/// | `sycl:1` | the second of all devices, in the order of [`SyclDevice::list`](crate::SyclDevice::list) |
/// | `sycl:cpu`, `sycl:cpu:0`, `sycl:gpu:1`, `sycl:accelerator:0` | the device of that type with that number, counted from 0; if OpenCL has none, that of Level Zero |
/// | `opencl`, `opencl:cpu:0`, … | the same, of OpenCL alone: SYCL's filter strings |
/// | `level_zero`, `level_zero:gpu:0`, … | the device that SYCL finds by this filter string, through SYCL |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selector {
    backend: Backend,
    kind: Option<Kind>,
    number: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backend {
    /// OpenCL, otherwise Level Zero.
    Any,
    OpenCl,
    LevelZero,
}

/// A device that Haloport can use.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) platform: Platform,
    pub(crate) device: Device,
    pub(crate) kind: Kind,
    /// Its number among all usable devices.
    pub(crate) index: u32,
    pub(crate) unified: Unified,
}

impl FromStr for Selector {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Selector, DeviceError> {
        let wrong = || {
            let expected = "`sycl`, `sycl:cpu:0`, `sycl:gpu:1`, `sycl:accelerator:0` or a filter string of SYCL such as \
                            `opencl:cpu:0` or `level_zero:gpu:0`";
            DeviceError::invalid("the name of a SYCL device", expected, format!("`{text}`"))
        };
        let mut parts = text.split(':').peekable();
        let backend = match parts.next() {
            Some("sycl") => Backend::Any,
            Some("opencl") => Backend::OpenCl,
            Some("level_zero") => Backend::LevelZero,
            _ => return Err(wrong()),
        };
        let kind = parts.peek().and_then(|part| part.parse().ok());
        if kind.is_some() {
            parts.next();
        }
        let number = parts.next().map(|part| part.parse().map_err(|_| wrong())).transpose()?;
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Selector { backend, kind, number })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.backend {
            Backend::Any => "sycl",
            Backend::OpenCl => "opencl",
            Backend::LevelZero => "level_zero",
        })?;
        self.kind.iter().try_for_each(|kind| write!(f, ":{kind}"))?;
        self.number.iter().try_for_each(|number| write!(f, ":{number}"))
    }
}

impl Selector {
    /// The filter string for SYCL, if the device is one that Haloport uses through SYCL.
    pub(crate) fn filter(&self) -> Option<String> {
        match self.backend {
            Backend::LevelZero => Some(self.filter_of("level_zero")),
            _ if native::goes_through_sycl() => Some(self.filter_of("opencl")),
            _ => None,
        }
    }

    /// The filter string for SYCL of a device of Level Zero that stands in for one of OpenCL, which is not there.
    pub(crate) fn filter_of_substitute(&self) -> Option<String> {
        (self.backend == Backend::Any).then(|| self.filter_of("level_zero"))
    }

    fn filter_of(&self, backend: &str) -> String {
        // SYCL's word for accelerators is shorter.
        let kind =
            self.kind.map(|kind| if kind == Kind::Accelerator { "acc".into() } else { kind.to_string() });
        let number = self.number.map(|number| number.to_string());
        let parts = [Some(backend.to_string()), kind, number];
        parts.into_iter().flatten().collect::<Vec<_>>().join(":")
    }

    /// The device of this name.
    pub(crate) fn find(&self) -> Result<Candidate, DeviceError> {
        let mut found = candidates()?;
        let there: Vec<String> = found.iter().map(Candidate::to_string).collect();
        found.retain(|candidate| self.kind.is_none_or(|kind| candidate.kind == kind));
        if self.number.is_none() {
            found.sort_by_key(|candidate| candidate.kind);
        }
        found.into_iter().nth(self.number.unwrap_or(0)).ok_or_else(|| DeviceError::NotFound {
            what: format!("the device `{self}`"),
            looked_for: "it among the devices of all OpenCL platforms".into(),
            advice: format!("choose one of those that there are: {}", there.join(", ")),
        })
    }
}

/// All usable devices, in the order of the platforms.
pub(crate) fn candidates() -> Result<Vec<Candidate>, DeviceError> {
    /// Drivers initialise themselves when they are first asked for devices. If two threads ask PoCL at once, one finds
    /// no device, or the process crashes.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    let library = library()?;
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = Vec::new();
    let mut refused = Vec::new();
    for platform in platforms()? {
        // If a platform has no device, the call fails.
        for device in platform.get_devices(CL_DEVICE_TYPE_ALL).unwrap_or_default() {
            let device = Device::new(device);
            match usable(device).and_then(|kind| {
                let unified = Unified::of(library, platform.id(), device);
                Ok((kind, unified.ok_or("it has neither unified shared memory nor shared virtual memory")?))
            }) {
                Ok((kind, unified)) => {
                    let index = found.len() as u32;
                    found.push(Candidate { platform, device, kind, index, unified });
                }
                Err(reason) => refused.push(format!("`{}` cannot be used: {reason}", text(device.name()))),
            }
        }
    }
    if found.is_empty() {
        let names: Vec<_> = platforms()?.iter().map(|platform| text(platform.name())).collect();
        return Err(DeviceError::NotFound {
            what: "a SYCL device".into(),
            looked_for: format!("devices of the OpenCL platforms {}", names.join(", ")),
            advice: match refused.is_empty() {
                true => "check that the driver sees the device and that this user may open it".into(),
                false => refused.join("; "),
            },
        });
    }
    Ok(found)
}

/// The candidate for a device of another program's context.
pub(crate) fn candidate_of(device: cl_device_id) -> Result<Candidate, DeviceError> {
    candidates()?.into_iter().find(|candidate| candidate.device.id() == device).ok_or_else(|| {
        DeviceError::NotFound {
            what: format!("the device {device:p} of a context that was given"),
            looked_for: "it among the usable devices of all OpenCL platforms".into(),
            advice:
                "use a context of a whole device, not of a part of one, with unified or shared virtual memory"
                    .into(),
        }
    })
}

/// All platforms; an error if there is none.
fn platforms() -> Result<Vec<Platform>, DeviceError> {
    let found = match get_platforms() {
        Err(ClError(CL_PLATFORM_NOT_FOUND_KHR)) => Vec::new(),
        found => found.map_err(failed("clGetPlatformIDs", ANY))?,
    };
    if found.is_empty() {
        let folder = std::env::var("OCL_ICD_VENDORS").unwrap_or_else(|_| "/etc/OpenCL/vendors".into());
        return Err(DeviceError::NotFound {
            what: "an OpenCL platform".into(),
            looked_for: format!("drivers named in {folder}"),
            advice:
                "install an OpenCL driver, for example Debian's package pocl-opencl-icd for the CPU, or set \
                     OCL_ICD_VENDORS to the folder of its .icd file"
                    .into(),
        });
    }
    Ok(found)
}

/// The type of a device, if it has what kernels and tables of addresses need.
fn usable(device: Device) -> Result<Kind, &'static str> {
    if !device.available().unwrap_or(false) {
        return Err("its driver says that it is not available");
    }
    if !device.compiler_available().unwrap_or(false) {
        return Err("its driver has no compiler");
    }
    if device.address_bits() != Ok(64) || !device.endian_little().unwrap_or(false) {
        return Err("its addresses do not have 64 bits, lowest byte first");
    }
    match device.dev_type().unwrap_or(0) {
        kind if kind & CL_DEVICE_TYPE_GPU != 0 => Ok(Kind::Gpu),
        kind if kind & CL_DEVICE_TYPE_ACCELERATOR != 0 => Ok(Kind::Accelerator),
        kind if kind & CL_DEVICE_TYPE_CPU != 0 => Ok(Kind::Cpu),
        _ => Err("it is neither a GPU nor a CPU nor an accelerator"),
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sycl:{} ({}: {})", self.index, self.kind, text(self.device.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_understood_or_refused() {
        for (name, shown) in [
            ("sycl", "sycl"),
            ("sycl:3", "sycl:3"),
            ("sycl:cpu", "sycl:cpu"),
            ("sycl:gpu:1", "sycl:gpu:1"),
            ("opencl:cpu:0", "opencl:cpu:0"),
            ("opencl:acc:2", "opencl:accelerator:2"),
            ("level_zero:gpu:0", "level_zero:gpu:0"),
        ] {
            assert_eq!(name.parse::<Selector>().unwrap().to_string(), shown);
        }
        for bad in
            ["", "cpu", "sycl:", "sycl:fpga:0", "sycl:gpu:x", "sycl:gpu:0:1", "level_zero:fpga", "sycl:-1"]
        {
            let error = bad.parse::<Selector>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("found `{bad}`")), "{error}");
        }
    }
}
