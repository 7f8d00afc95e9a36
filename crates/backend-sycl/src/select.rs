//! Which devices there are, and which one a string means.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use cl3::device::{
    CL_DEVICE_ADDRESS_BITS, CL_DEVICE_AVAILABLE, CL_DEVICE_COMPILER_AVAILABLE, CL_DEVICE_ENDIAN_LITTLE,
    CL_DEVICE_EXTENSIONS, CL_DEVICE_NAME, CL_DEVICE_TYPE, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_ALL,
    CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, get_device_data, get_device_ids,
};
use cl3::platform::{CL_PLATFORM_NAME, get_platform_data, get_platform_ids};
use cl3::types::{cl_device_id, cl_device_type, cl_platform_id};
use haloport_core::device::DeviceError;

use crate::driver::{ANY, failed, library, number, text};
use crate::unified::Unified;

/// Which device: of any type or of one, and its number among those.
///
/// | string | device |
/// | --- | --- |
/// | `sycl` | the first GPU, else the first accelerator, else the first CPU |
/// | `sycl:1` | the second of all devices, as [`SyclDevice::list`](crate::SyclDevice::list) has them |
/// | `sycl:cpu`, `sycl:cpu:0`, `sycl:gpu:1`, `sycl:accelerator:0` | the device of that type with that number, from 0 |
/// | `opencl`, `opencl:cpu:0`, … | the same: SYCL's filter strings |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selector {
    kind: Option<Kind>,
    number: Option<usize>,
}

/// The types of devices, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Gpu,
    Accelerator,
    Cpu,
}

/// A device that can be used.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) platform: cl_platform_id,
    pub(crate) device: cl_device_id,
    pub(crate) kind: Kind,
    /// Its number among all devices.
    pub(crate) index: u32,
    pub(crate) unified: Unified,
}

impl FromStr for Selector {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Selector, DeviceError> {
        let wrong = || {
            let expected = "`sycl`, `sycl:cpu:0`, `sycl:gpu:1`, `sycl:accelerator:0` or a filter string of SYCL's OpenCL \
                            backend such as `opencl:cpu:0`";
            DeviceError::invalid("the name of a SYCL device", expected, format!("`{text}`"))
        };
        let mut parts = text.split(':').peekable();
        if !matches!(parts.next(), Some("sycl" | "opencl")) {
            return Err(wrong());
        }
        let kind = parts.peek().and_then(|part| part.parse().ok());
        if kind.is_some() {
            parts.next();
        }
        let number = parts.next().map(|part| part.parse().map_err(|_| wrong())).transpose()?;
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Selector { kind, number })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sycl")?;
        self.kind.iter().try_for_each(|kind| write!(f, ":{kind}"))?;
        self.number.iter().try_for_each(|number| write!(f, ":{number}"))
    }
}

impl Selector {
    /// The device that it means.
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
            advice: format!("there is {}", there.join(", ")),
        })
    }
}

/// All devices that can be used, in the order of the platforms.
pub(crate) fn candidates() -> Result<Vec<Candidate>, DeviceError> {
    /// Drivers set themselves up when they are first asked for devices, and PoCL does so badly for two threads at once:
    /// one finds none, or the process ends.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    let library = library()?;
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = Vec::new();
    let mut refused = Vec::new();
    for platform in platforms()? {
        // A platform without a device says so with an error.
        for device in get_device_ids(platform, CL_DEVICE_TYPE_ALL).unwrap_or_default() {
            let name = text(get_device_data(device, CL_DEVICE_NAME));
            match usable(device).and_then(|kind| {
                let unified = Unified::of(library, platform, device);
                Ok((kind, unified.ok_or("it has neither unified shared memory nor shared virtual memory")?))
            }) {
                Ok((kind, unified)) => {
                    let index = found.len() as u32;
                    found.push(Candidate { platform, device, kind, index, unified });
                }
                Err(why) => refused.push(format!("`{name}` cannot be used: {why}")),
            }
        }
    }
    if found.is_empty() {
        let names: Vec<_> = platforms()?.into_iter().map(platform_name).collect();
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

/// The candidate that is this device.
pub(crate) fn candidate_of(device: cl_device_id) -> Result<Candidate, DeviceError> {
    candidates()?.into_iter().find(|candidate| candidate.device == device).ok_or_else(|| {
        DeviceError::NotFound {
            what: format!("the device {device:p} of a context that was given"),
            looked_for: "it among the usable devices of all OpenCL platforms".into(),
            advice: "give a context of a whole device, not of a part of one, with unified or shared virtual memory"
                .into(),
        }
    })
}

/// The platforms; none is an error.
fn platforms() -> Result<Vec<cl_platform_id>, DeviceError> {
    /// The loader's code for "no platform".
    const PLATFORM_NOT_FOUND: i32 = -1001;
    let found = match get_platform_ids() {
        Ok(found) => found,
        Err(PLATFORM_NOT_FOUND) => Vec::new(),
        Err(code) => return Err(failed("clGetPlatformIDs", ANY)(code)),
    };
    if found.is_empty() {
        let place = std::env::var("OCL_ICD_VENDORS").unwrap_or_else(|_| "/etc/OpenCL/vendors".into());
        return Err(DeviceError::NotFound {
            what: "an OpenCL platform".into(),
            looked_for: format!("drivers named in {place}"),
            advice: "install a driver with OpenCL, for example Debian's package pocl-opencl-icd for the CPU, or let \
                     OCL_ICD_VENDORS name the folder of its .icd file"
                .into(),
        });
    }
    Ok(found)
}

pub(crate) fn platform_name(platform: cl_platform_id) -> String {
    text(get_platform_data(platform, CL_PLATFORM_NAME))
}

pub(crate) fn has_extension(device: cl_device_id, name: &str) -> bool {
    text(get_device_data(device, CL_DEVICE_EXTENSIONS)).split_whitespace().any(|have| have == name)
}

/// The type of a device that has what kernels and tables of addresses need.
fn usable(device: cl_device_id) -> Result<Kind, &'static str> {
    let info = |name| number(get_device_data(device, name));
    if info(CL_DEVICE_AVAILABLE) == 0 {
        return Err("its driver says that it is not available");
    }
    if info(CL_DEVICE_COMPILER_AVAILABLE) == 0 {
        return Err("its driver has no compiler");
    }
    if info(CL_DEVICE_ADDRESS_BITS) != 64 || info(CL_DEVICE_ENDIAN_LITTLE) == 0 {
        return Err("its addresses are not of 64 bits, lowest byte first");
    }
    match info(CL_DEVICE_TYPE) as cl_device_type {
        kind if kind & CL_DEVICE_TYPE_GPU != 0 => Ok(Kind::Gpu),
        kind if kind & CL_DEVICE_TYPE_ACCELERATOR != 0 => Ok(Kind::Accelerator),
        kind if kind & CL_DEVICE_TYPE_CPU != 0 => Ok(Kind::Cpu),
        _ => Err("it is neither a GPU nor a CPU nor an accelerator"),
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = text(get_device_data(self.device, CL_DEVICE_NAME));
        write!(f, "sycl:{} ({}: {name})", self.index, self.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Gpu => "gpu",
            Kind::Accelerator => "accelerator",
            Kind::Cpu => "cpu",
        })
    }
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(text: &str) -> Result<Kind, ()> {
        match text {
            "gpu" => Ok(Kind::Gpu),
            "accelerator" | "acc" => Ok(Kind::Accelerator),
            "cpu" => Ok(Kind::Cpu),
            _ => Err(()),
        }
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
            ("opencl:cpu:0", "sycl:cpu:0"),
            ("opencl:acc:2", "sycl:accelerator:2"),
        ] {
            assert_eq!(name.parse::<Selector>().unwrap().to_string(), shown);
        }
        for bad in
            ["", "cpu", "sycl:", "sycl:fpga:0", "sycl:gpu:x", "sycl:gpu:0:1", "level_zero:gpu:0", "sycl:-1"]
        {
            let error = bad.parse::<Selector>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("found `{bad}`")), "{error}");
        }
    }
}
