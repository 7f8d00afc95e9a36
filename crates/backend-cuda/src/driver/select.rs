//! Lists the devices and finds the one that a name means.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fmt;
use std::str::FromStr;

use cudarc::driver::sys::{CUdevice, CUdevice_attribute};
use haloport_core::device::{Capabilities, DeviceError, DeviceId, DeviceInfo};

use crate::driver::functions::{ANY, Driver, INVALID_VALUE, driver, no_device, version_text};

/// The choice of a device by its number.
///
/// | name | device |
/// | --- | --- |
/// | `cuda` | the first that can be used |
/// | `cuda:1` | the second in the order of the driver, which `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER` change |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selector {
    number: Option<u32>,
}

/// A device that the driver offers, not yet opened.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) driver: &'static Driver,
    pub(crate) device: CUdevice,
    /// The compute capability: 10 times the major number plus the minor.
    pub(crate) capability: c_int,
    pub(crate) info: DeviceInfo,
}

impl FromStr for Selector {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Selector, DeviceError> {
        let wrong =
            || DeviceError::invalid("the name of a CUDA device", "`cuda` or `cuda:1`", format!("`{text}`"));
        let number = match text.split_once(':') {
            None if text == "cuda" => None,
            // Digits only: `parse` alone would accept `+1`.
            Some(("cuda", number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(number.parse().map_err(|_| wrong())?)
            }
            _ => return Err(wrong()),
        };
        Ok(Selector { number })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cuda")?;
        self.number.iter().try_for_each(|number| write!(f, ":{number}"))
    }
}

impl Selector {
    /// Finds the device.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] if the driver or the device is missing; the driver's errors for this device.
    pub(crate) fn find(&self) -> Result<Candidate, DeviceError> {
        let mut found = candidates()?;
        let names: Vec<String> = found
            .iter()
            .flatten()
            .map(|candidate| format!("{} ({})", candidate.info.id, candidate.info.name))
            .collect();
        let wanted = match self.number {
            Some(number) => number as usize,
            None => found.iter().position(Result::is_ok).unwrap_or(0),
        };
        if wanted < found.len() {
            return found.swap_remove(wanted);
        }
        Err(DeviceError::NotFound {
            what: format!("the device `{self}`"),
            looked_for: "it among the devices of the CUDA driver".into(),
            advice: format!("choose one of {}", names.join(", ")),
        })
    }
}

/// All devices, in the order of the driver. Those that cannot be used, for example because they have failed, are errors.
pub(crate) fn candidates() -> Result<Vec<Result<Candidate, DeviceError>>, DeviceError> {
    let driver = driver()?;
    let mut count = 0;
    // SAFETY: the call writes to a local variable.
    driver.checked("cuDeviceGetCount", unsafe { (driver.cuDeviceGetCount)(&raw mut count) }, ANY)?;
    if count <= 0 {
        return Err(no_device());
    }
    Ok((0..count).map(|ordinal| Candidate::new(driver, ordinal)).collect())
}

impl Candidate {
    fn new(driver: &'static Driver, ordinal: c_int) -> Result<Candidate, DeviceError> {
        use CUdevice_attribute as Of;

        let id = DeviceId { backend: "cuda", index: ordinal as u32, context: 0 };
        let (mut device, mut bytes, mut name) = (0, 0, [0 as c_char; 256]);
        // SAFETY: the calls write to local variables, the name with its zero into at most the given number of bytes.
        let name = unsafe {
            driver.checked("cuDeviceGet", (driver.cuDeviceGet)(&raw mut device, ordinal), id)?;
            driver.checked("cuDeviceTotalMem", (driver.cuDeviceTotalMem_v2)(&raw mut bytes, device), id)?;
            let status = (driver.cuDeviceGetName)(name.as_mut_ptr(), name.len() as c_int, device);
            driver.checked("cuDeviceGetName", status, id)?;
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        let of = |attribute| driver.attribute(attribute, device, id);
        let major = of(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = of(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let capability = 10 * major + minor;
        // On Windows, a device that also draws (WDDM) gets its work in batches, perhaps none of it before a later call.
        let is_batched = cfg!(windows) && of(Of::CU_DEVICE_ATTRIBUTE_TCC_DRIVER)? == 0;
        let streams_wait_for_host = !launches_wait() && !is_batched;
        let info = DeviceInfo {
            id,
            name,
            driver: format!("CUDA {}, compute capability {major}.{minor}", version_text(driver.version)),
            compute_units: of(Of::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
            memory_bytes: Some(bytes as u64),
            asynchronous: true,
            host_accessible: false,
            separate_memory: of(Of::CU_DEVICE_ATTRIBUTE_INTEGRATED)? == 0,
            double_precision: true,
            half_precision: capability >= 53,
            stream_priorities: of(Of::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED)? != 0,
            // 8 for each device, unless CUDA_DEVICE_MAX_CONNECTIONS says otherwise.
            shared_queues: true,
            capabilities: Capabilities {
                immediate_streams: false,
                gates: streams_wait_for_host,
                stream_words: streams_wait_for_host,
                pinned_memory: true,
                shared_memory: of(Of::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)? != 0,
                // CUDA's IPC exists on Linux, but not for integrated devices.
                combining: true,
                memory_export: cfg!(target_os = "linux") && of(Of::CU_DEVICE_ATTRIBUTE_INTEGRATED)? == 0,
                // NCCL exists on Linux. Its kernels wait for other ranks.
                stream_messages: cfg!(target_os = "linux") && streams_wait_for_host,
            },
        };
        Ok(Candidate { driver, device, capability, info })
    }

    /// Whether the device has a capability that only later drivers know, by its number.
    pub(crate) fn has_later(&self, attribute: c_uint) -> Result<bool, DeviceError> {
        let mut value = 0;
        // SAFETY: the device is the driver's; the call writes to a local variable.
        match unsafe { (self.driver.cuDeviceGetAttribute)(&raw mut value, attribute, self.device) } {
            INVALID_VALUE => Ok(false),
            status => {
                self.driver.checked("cuDeviceGetAttribute", status, self.info.id)?;
                Ok(value != 0)
            }
        }
    }

    /// Whether the device has a capability.
    pub(crate) fn has(&self, attribute: CUdevice_attribute) -> Result<bool, DeviceError> {
        Ok(self.attribute(attribute)? != 0)
    }

    pub(crate) fn attribute(&self, attribute: CUdevice_attribute) -> Result<c_int, DeviceError> {
        self.driver.attribute(attribute, self.device, self.info.id)
    }
}

/// Whether each launch waits until its kernel has ended: then one behind a gate would never return ("CUDA Programming
/// Guide", "CUDA Environment Variables").
fn launches_wait() -> bool {
    std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value != "0")
}

impl Driver {
    /// An attribute of a device.
    pub(crate) fn attribute(
        &self,
        attribute: CUdevice_attribute,
        device: CUdevice,
        id: DeviceId,
    ) -> Result<c_int, DeviceError> {
        let mut value = 0;
        // SAFETY: the device is the driver's; the call writes to a local variable.
        let status = unsafe { (self.cuDeviceGetAttribute)(&raw mut value, attribute as c_uint, device) };
        self.checked("cuDeviceGetAttribute", status, id)?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_understood_or_refused() {
        for name in ["cuda", "cuda:0", "cuda:13"] {
            assert_eq!(name.parse::<Selector>().unwrap().to_string(), name);
        }
        for bad in
            ["", "cpu", "cuda:", "cuda:x", "cuda:+1", "cuda:-1", "cuda:0:1", "CUDA", "cuda:99999999999"]
        {
            let error = bad.parse::<Selector>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("found `{bad}`")), "{error}");
        }
    }
}
