//! Tensors of other programs.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use super::super::check::{MAX_ARRAY_AXES, Unchecked};
use super::super::{ArrayDescription, InteropError, Protocol};
use super::structs::{
    DLManagedTensor, DLManagedTensorVersioned, DLTensor, FLAG_COPIED, FLAG_READ_ONLY, MAJOR_VERSION,
};

/// The address of a tensor with its owner, as in a Python capsule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManagedTensor {
    /// Before version 1.0.
    Unversioned(NonNull<DLManagedTensor>),
    /// From version 1.0 on.
    Versioned(NonNull<DLManagedTensorVersioned>),
}

impl ManagedTensor {
    /// The tensor in a capsule with this name and pointer. Follows no pointer.
    ///
    /// # Errors
    /// `ValueError` for a capsule that has been used and for a null pointer, `TypeError` for one of another protocol.
    pub fn from_capsule(name: &CStr, pointer: *mut c_void) -> Result<ManagedTensor, InteropError> {
        let fault = Protocol::DlPack.fault("capsule");
        let named = |text: &str| name.to_bytes() == text.as_bytes();
        let tensor = if named("dltensor") {
            NonNull::new(pointer.cast()).map(ManagedTensor::Unversioned)
        } else if named("dltensor_versioned") {
            NonNull::new(pointer.cast()).map(ManagedTensor::Versioned)
        } else if named("used_dltensor") || named("used_dltensor_versioned") {
            let expected = "an unused capsule";
            return Err(fault.value(
                expected,
                format!("{name:?}"),
                "call `__dlpack__` again: a capsule can be used once",
            ));
        } else {
            let expected = "the name `dltensor` or `dltensor_versioned`";
            return Err(fault.wrong_type(expected, format!("{name:?}"), "pass what `__dlpack__` returns"));
        };
        tensor.ok_or_else(|| fault.value("the address of a tensor", "null", "correct the producer"))
    }

    /// The name of a capsule with this tensor.
    pub fn capsule_name(self) -> &'static CStr {
        match self {
            ManagedTensor::Unversioned(_) => c"dltensor",
            ManagedTensor::Versioned(_) => c"dltensor_versioned",
        }
    }

    /// The name of a capsule whose tensor has been taken.
    pub fn used_capsule_name(self) -> &'static CStr {
        match self {
            ManagedTensor::Unversioned(_) => c"used_dltensor",
            ManagedTensor::Versioned(_) => c"used_dltensor_versioned",
        }
    }

    /// Reads and checks the tensor, which stays with its owner.
    ///
    /// # Safety
    /// - The address is that of a live tensor of this form, which nothing changes meanwhile.
    /// - If `ndim` is from 1 to 64, `shape` points to as many numbers, and so does `strides` unless it is null.
    ///
    /// # Errors
    /// An [`InteropError`] for a malformed field, and for another major version, of which nothing else is read.
    pub unsafe fn describe(self) -> Result<ArrayDescription, InteropError> {
        let (tensor, flags) = match self {
            // SAFETY: the caller promises a live tensor.
            ManagedTensor::Unversioned(managed) => (unsafe { &raw const (*managed.as_ptr()).dl_tensor }, 0),
            ManagedTensor::Versioned(managed) => {
                let managed = managed.as_ptr();
                // SAFETY: the caller promises a live tensor; the version comes first in every version.
                let version = unsafe { (*managed).version };
                if version.major != MAJOR_VERSION {
                    return Err(Protocol::DlPack.fault("version").buffer(
                        format!("version {MAJOR_VERSION}.x"),
                        format!("{}.{}", version.major, version.minor),
                        "ask `__dlpack__` for `max_version=(1, 0)`, or use another version of the producer",
                    ));
                }
                // SAFETY: the caller promises a live tensor, and this is the layout of its version.
                unsafe { (&raw const (*managed).dl_tensor, (*managed).flags) }
            }
        };
        // SAFETY: the caller promises a live tensor that nothing changes.
        let mut array = unsafe { describe(&*tensor) }?;
        array.read_only = flags & FLAG_READ_ONLY != 0;
        array.copied = flags & FLAG_COPIED != 0;
        Ok(array)
    }

    /// Ends the use of the tensor.
    ///
    /// # Safety
    /// The address is that of a live tensor of this form, which nothing uses from now on.
    pub unsafe fn delete(self) {
        match self {
            ManagedTensor::Unversioned(managed) => {
                // SAFETY: the tensor is live.
                if let Some(deleter) = unsafe { (*managed.as_ptr()).deleter } {
                    // SAFETY: nothing uses the tensor from now on.
                    unsafe { deleter(managed.as_ptr()) }
                }
            }
            ManagedTensor::Versioned(managed) => {
                // SAFETY: the tensor is live; its deleter has the same position in every version.
                if let Some(deleter) = unsafe { (*managed.as_ptr()).deleter } {
                    // SAFETY: nothing uses the tensor from now on.
                    unsafe { deleter(managed.as_ptr()) }
                }
            }
        }
    }
}

/// # Safety
/// As for [`ManagedTensor::describe`].
unsafe fn describe(tensor: &DLTensor) -> Result<ArrayDescription, InteropError> {
    let fault = |field| Protocol::DlPack.fault(field);
    let axes = usize::try_from(tensor.ndim).ok().filter(|axes| *axes <= MAX_ARRAY_AXES).ok_or_else(|| {
        let expected = format!("0 to {MAX_ARRAY_AXES} axes");
        fault("ndim").value(expected, tensor.ndim, "correct the producer, or reshape the array")
    })?;
    let device = tensor.device.array_device()?;
    let element = tensor.dtype.element()?;
    let numbers = |pointer: *const i64| match axes {
        0 => Vec::new(),
        // SAFETY: the caller promises as many numbers there as there are axes.
        _ => unsafe { std::slice::from_raw_parts(pointer, axes) }.to_vec(),
    };
    if axes > 0 && (tensor.shape.is_null() || !tensor.shape.is_aligned()) {
        let expected = format!("the address of {axes} extents");
        return Err(fault("shape").value(expected, format!("{:?}", tensor.shape), "correct the producer"));
    }
    if !tensor.strides.is_null() && !tensor.strides.is_aligned() {
        let expected = format!("the address of {axes} strides, or null for C order");
        return Err(fault("strides").value(
            expected,
            format!("{:?}", tensor.strides),
            "correct the producer",
        ));
    }
    let shape = numbers(tensor.shape);
    let strides = (!tensor.strides.is_null()).then(|| numbers(tensor.strides));
    Unchecked::new(Protocol::DlPack, element, tensor.data.cast(), &shape, device)
        .strides_in_elements(strides.as_deref())
        .offset_in_bytes("byte_offset", tensor.byte_offset.into())
        .check()
}
