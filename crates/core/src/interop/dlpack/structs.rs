//! The structs of `dlpack.h`, byte for byte.

use std::ffi::c_void;

/// The supported major version of the binary interface: 1.x.
pub const MAJOR_VERSION: u32 = 1;

/// A bit of [`DLManagedTensorVersioned::flags`]: the consumer must not write.
pub const FLAG_READ_ONLY: u64 = 1;

/// A bit of [`DLManagedTensorVersioned::flags`]: the memory is a copy of the memory of the producer.
pub const FLAG_COPIED: u64 = 1 << 1;

/// The location of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct DLDevice {
    /// The kind of device, a number of `DLDeviceType`.
    pub device_type: i32,
    /// The number of the device.
    pub device_id: i32,
}

/// The type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct DLDataType {
    /// The kind of number, a number of `DLDataTypeCode`.
    pub code: u8,
    /// The bits of one number, of both parts of a complex one.
    pub bits: u8,
    /// The numbers in one element: 1, except for vector types.
    pub lanes: u16,
}

/// An array, without its owner.
#[derive(Debug)]
#[repr(C)]
pub struct DLTensor {
    /// The memory, from which `byte_offset` counts.
    pub data: *mut c_void,
    /// The location of the memory.
    pub device: DLDevice,
    /// The number of axes.
    pub ndim: i32,
    /// The type of an element.
    pub dtype: DLDataType,
    /// The extent of each axis.
    pub shape: *mut i64,
    /// The distance in elements between neighbours along each axis; before version 1.2, null means C order.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor with its owner, before version 1.0.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensor {
    /// The array.
    pub dl_tensor: DLTensor,
    /// Data of the producer.
    pub manager_ctx: *mut c_void,
    /// Ends the use of the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// The version of the producer's binary interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct DLPackVersion {
    /// Versions with different major numbers share only the positions of the fields before `flags`.
    pub major: u32,
    /// Later minor versions add to earlier ones.
    pub minor: u32,
}

/// A tensor with its owner, from version 1.0 on.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensorVersioned {
    /// The version, to be read first.
    pub version: DLPackVersion,
    /// Data of the producer.
    pub manager_ctx: *mut c_void,
    /// Ends the use of the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// Bits such as [`FLAG_READ_ONLY`].
    pub flags: u64,
    /// The array.
    pub dl_tensor: DLTensor,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<DLTensor>() == 48);
    assert!(size_of::<DLManagedTensor>() == 64);
    assert!(size_of::<DLManagedTensorVersioned>() == 80);
    assert!(std::mem::offset_of!(DLTensor, byte_offset) == 40);
    assert!(std::mem::offset_of!(DLManagedTensorVersioned, flags) == 24);
};
