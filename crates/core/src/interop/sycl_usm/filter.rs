//! SYCL filter strings, such as `opencl:gpu:1`.

use std::fmt;
use std::str::FromStr;

use super::super::InteropError;
use super::FAULTS;

/// A SYCL filter string: backend, kind of device and number, in this order, each of them optional. This is the DPC++
/// extension `sycl_ext_oneapi_filter_selector`, without its lists of alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyclFilter {
    /// The backend: `opencl`, `level_zero`, `cuda`, `hip` or `native_cpu`.
    pub backend: Option<&'static str>,
    /// The kind of device.
    pub device_type: Option<DeviceType>,
    /// The number among the devices that match, from 0.
    pub index: Option<u32>,
}

/// The kinds of SYCL devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceType {
    /// `cpu`.
    Cpu,
    /// `gpu`.
    Gpu,
    /// `accelerator`, also `acc`.
    Accelerator,
}

const BACKENDS: [&str; 5] = ["opencl", "level_zero", "cuda", "hip", "native_cpu"];

impl FromStr for SyclFilter {
    type Err = InteropError;

    fn from_str(text: &str) -> Result<SyclFilter, InteropError> {
        let mut filter = SyclFilter { backend: None, device_type: None, index: None };
        for part in text.split(':') {
            // Each part comes at most once, and in order.
            let (no_index, no_type) = (filter.index.is_none(), filter.device_type.is_none());
            let backend = BACKENDS.iter().find(|backend| **backend == part);
            if let Some(backend) = backend.filter(|_| filter.backend.is_none() && no_type && no_index) {
                filter.backend = Some(backend);
            } else if let Some(device_type) = device_type(part).filter(|_| no_type && no_index) {
                filter.device_type = Some(device_type);
            } else if let Some(index) = number(part).filter(|_| no_index) {
                filter.index = Some(index);
            } else {
                let expected = "a filter string such as `opencl:gpu:0`";
                let advice = "name one backend, one kind of device and one number, or fewer, in this order";
                return Err(FAULTS.fault("syclobj").value(expected, format!("{text:?}"), advice));
            }
        }
        Ok(filter)
    }
}

fn device_type(part: &str) -> Option<DeviceType> {
    match part {
        "cpu" => Some(DeviceType::Cpu),
        "gpu" => Some(DeviceType::Gpu),
        "accelerator" | "acc" => Some(DeviceType::Accelerator),
        _ => None,
    }
}

/// Digits only: no sign.
fn number(part: &str) -> Option<u32> {
    part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten()
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceType::Cpu => "cpu",
            DeviceType::Gpu => "gpu",
            DeviceType::Accelerator => "accelerator",
        })
    }
}

impl fmt::Display for SyclFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.backend.map(str::to_string),
            self.device_type.map(|device_type| device_type.to_string()),
            self.index.map(|index| index.to_string()),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(":"))
    }
}
