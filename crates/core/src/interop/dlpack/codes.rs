//! The numbers of DLPack for element types and devices.

use super::super::{ArrayDevice, ArrayDeviceKind, InteropError, Protocol};
use super::{DLDataType, DLDevice};
use crate::element::ElementType;

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const COMPLEX: u8 = 5;
const BOOL: u8 = 6;

const OPENCL: i32 = 4;
const DEVICES: [(i32, ArrayDeviceKind); 7] = [
    (1, ArrayDeviceKind::Host),
    (2, ArrayDeviceKind::Cuda),
    (3, ArrayDeviceKind::CudaHost),
    (10, ArrayDeviceKind::Rocm),
    (11, ArrayDeviceKind::RocmHost),
    (13, ArrayDeviceKind::CudaManaged),
    (14, ArrayDeviceKind::Usm),
];

impl DLDataType {
    /// The element type; that of 8-bit booleans is [`ElementType::U8`], and that of several lanes a record.
    ///
    /// # Errors
    /// `BufferError` for a type that fields do not have.
    pub fn element(self) -> Result<ElementType, InteropError> {
        use ElementType::*;
        Ok(match (self.code, self.bits, self.lanes) {
            (INT, 8, 1) => I8,
            (INT, 16, 1) => I16,
            (INT, 32, 1) => I32,
            (INT, 64, 1) => I64,
            (INT, 128, 1) => I128,
            (UINT | BOOL, 8, 1) => U8,
            (UINT, 16, 1) => U16,
            (UINT, 32, 1) => U32,
            (UINT, 64, 1) => U64,
            (UINT, 128, 1) => U128,
            (FLOAT, 16, 1) => F16,
            (FLOAT, 32, 1) => F32,
            (FLOAT, 64, 1) => F64,
            (BFLOAT, 16, 1) => Bf16,
            (COMPLEX, 64, 1) => Complex32,
            (COMPLEX, 128, 1) => Complex64,
            (code, bits, lanes) => {
                let bits_of_record = usize::from(bits) * usize::from(lanes);
                let record = ElementType::record(bits_of_record / 8);
                return record.filter(|_| lanes > 1 && bits_of_record.is_multiple_of(8)).ok_or_else(|| {
                    Protocol::DlPack.fault("dtype").buffer(
                        "integers, floats, bfloat16 or complex numbers of 1 to 16 bytes, or several lanes",
                        format!("code {code} of {bits} bits and {lanes} lanes"),
                        "convert the array to one of these types",
                    )
                });
            }
        })
    }

    /// The DLPack type of an element type; that of a record has a lane for each byte.
    ///
    /// # Errors
    /// `BufferError` for a record of more than 65535 bytes.
    pub fn of(element: ElementType) -> Result<DLDataType, InteropError> {
        use ElementType::*;
        let code = match element {
            I8 | I16 | I32 | I64 | I128 => INT,
            U8 | U16 | U32 | U64 | U128 => UINT,
            F16 | F32 | F64 => FLOAT,
            Bf16 => BFLOAT,
            Complex32 | Complex64 => COMPLEX,
            Bytes(bytes) => {
                let lanes = u16::try_from(bytes.get()).map_err(|_| {
                    let fault = Protocol::DlPack.fault("dtype");
                    fault.buffer("a record of at most 65535 bytes", bytes, "exchange its members as fields")
                })?;
                return Ok(DLDataType { code: UINT, bits: 8, lanes });
            }
        };
        Ok(DLDataType { code, bits: 8 * element.bytes() as u8, lanes: 1 })
    }
}

impl DLDevice {
    /// The location of the memory.
    ///
    /// # Errors
    /// `BufferError` for an unknown device, and for one whose memory has no addresses (OpenCL buffers); `ValueError`
    /// for a negative number.
    pub fn array_device(self) -> Result<ArrayDevice, InteropError> {
        let index = u32::try_from(self.device_id).map_err(|_| {
            let fault = Protocol::DlPack.fault("device_id");
            fault.value("a number from 0 on", self.device_id, "correct the producer")
        })?;
        if let Some((_, kind)) = DEVICES.iter().find(|(number, _)| *number == self.device_type) {
            return Ok(ArrayDevice { kind: *kind, index: Some(index) });
        }
        let (found, advice) = match self.device_type {
            OPENCL => {
                ("4 (an OpenCL buffer, which has no address)", "allocate unified shared memory (USM) instead")
            }
            _ => ("", "copy the array to the host or to one of these devices"),
        };
        Err(Protocol::DlPack.fault("device_type").buffer(
            "1 (CPU), 2, 3 or 13 (CUDA), 10 or 11 (ROCm), 14 (oneAPI)",
            if found.is_empty() { self.device_type.to_string() } else { found.to_string() },
            advice,
        ))
    }

    /// The DLPack device for the location of an array.
    ///
    /// # Errors
    /// `BufferError` if the number of the device is unknown.
    pub fn of(location: ArrayDevice) -> Result<DLDevice, InteropError> {
        let number = DEVICES.iter().find(|(_, kind)| *kind == location.kind).map(|(number, _)| *number);
        let index = location.index.and_then(|index| i32::try_from(index).ok());
        match (number, index) {
            (Some(device_type), Some(device_id)) => Ok(DLDevice { device_type, device_id }),
            _ => Err(Protocol::DlPack.fault("device_id").buffer(
                "the number of the device",
                format!("{} of an unknown device", location.kind),
                "find the device from the address before the array is passed on",
            )),
        }
    }
}
