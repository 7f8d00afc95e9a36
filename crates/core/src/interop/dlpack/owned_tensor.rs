//! Owned tensors: taken from another program, or made for one.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::super::{ArrayDescription, InteropError, Protocol};
use super::managed_tensor::ManagedTensor;
use super::structs::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, FLAG_COPIED,
    FLAG_READ_ONLY, MAJOR_VERSION,
};
use crate::log;

/// A tensor that is deleted on drop.
#[derive(Debug)]
pub struct OwnedTensor {
    tensor: ManagedTensor,
    array: ArrayDescription,
}

// SAFETY: the tensor is ours alone. Any thread may call its deleter: the caller of `take` promises it, and the owner
// given to `export` is `Send`.
unsafe impl Send for OwnedTensor {}
// SAFETY: a shared `OwnedTensor` gives plain data, and the address, which only unsafe calls follow.
unsafe impl Sync for OwnedTensor {}

/// The two forms of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Before version 1.0, without a flag for read-only tensors.
    Unversioned,
    /// Version 1.0.
    Versioned,
}

impl Form {
    /// The form for a consumer that passes this `max_version` to `__dlpack__`.
    pub fn for_consumer(max_version: Option<(u32, u32)>) -> Form {
        match max_version {
            Some((major, _)) if major >= MAJOR_VERSION => Form::Versioned,
            _ => Form::Unversioned,
        }
    }
}

impl ManagedTensor {
    /// Takes the tensor from its owner; dropping the returned tensor deletes it. On an error it stays with its owner.
    /// On success the caller renames the capsule to [`used_capsule_name`](ManagedTensor::used_capsule_name).
    ///
    /// # Safety
    /// As for [`describe`](ManagedTensor::describe), and
    /// - nothing else takes or deletes the tensor;
    /// - any thread may call its deleter.
    ///
    /// # Errors
    /// As for [`describe`](ManagedTensor::describe).
    pub unsafe fn take(self) -> Result<OwnedTensor, InteropError> {
        // SAFETY: the caller's promise is that of both calls.
        unsafe { self.describe().map(|array| OwnedTensor::new(self, array)) }
    }
}

impl OwnedTensor {
    /// # Safety
    /// The tensor is live, ours alone and described by `array`, and any thread may call its deleter.
    pub(super) unsafe fn new(tensor: ManagedTensor, array: ArrayDescription) -> OwnedTensor {
        OwnedTensor { tensor, array }
    }

    /// A tensor of `array` for another program. It holds `owner`, which keeps the memory of the array alive, until any
    /// thread deletes it.
    ///
    /// # Errors
    /// `BufferError` for an array on a device of unknown number, for records of more than 65535 bytes, and for a
    /// read-only array or a copy in the form without flags.
    pub fn export(
        array: ArrayDescription,
        form: Form,
        owner: impl Any + Send,
    ) -> Result<OwnedTensor, InteropError> {
        if form == Form::Unversioned && (array.read_only || array.copied) {
            return Err(Protocol::DlPack.fault("flags").buffer(
                "a consumer that asks for version 1.0 or later",
                "an array that is read-only or a copy, for which earlier versions have no flag",
                "pass `max_version=(1, 0)` to `__dlpack__`",
            ));
        }
        let (device, dtype) = (DLDevice::of(array.device)?, DLDataType::of(array.element)?);
        let mut shape: Vec<i64> = array.shape.iter().map(|&extent| extent as i64).collect();
        let mut strides: Vec<i64> = array.strides.iter().map(|&stride| stride as i64).collect();
        let (shape_address, strides_address) = (shape.as_mut_ptr(), strides.as_mut_ptr());
        let tensor = || DLTensor {
            data: array.first.as_ptr().cast(),
            device,
            // At most `MAX_ARRAY_AXES`.
            ndim: array.shape.len() as i32,
            dtype,
            shape: shape_address,
            strides: strides_address,
            byte_offset: 0,
        };
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        let exported = Box::into_raw(Box::new(Exported {
            unversioned: DLManagedTensor {
                dl_tensor: tensor(),
                manager_ctx: std::ptr::null_mut(),
                deleter: Some(delete_unversioned),
            },
            versioned: DLManagedTensorVersioned {
                version: DLPackVersion { major: MAJOR_VERSION, minor: 0 },
                manager_ctx: std::ptr::null_mut(),
                deleter: Some(delete_versioned),
                flags: flag(array.read_only, FLAG_READ_ONLY) | flag(array.copied, FLAG_COPIED),
                dl_tensor: tensor(),
            },
            _lengths: (shape, strides),
            _owner: Box::new(owner),
        }));
        // SAFETY: `exported` is a live box that nothing else uses; the addresses of its fields are not null.
        let tensor = unsafe {
            (*exported).unversioned.manager_ctx = exported.cast();
            (*exported).versioned.manager_ctx = exported.cast();
            match form {
                Form::Unversioned => {
                    ManagedTensor::Unversioned(NonNull::new_unchecked(&raw mut (*exported).unversioned))
                }
                Form::Versioned => {
                    ManagedTensor::Versioned(NonNull::new_unchecked(&raw mut (*exported).versioned))
                }
            }
        };
        Ok(OwnedTensor { tensor, array })
    }

    /// The array of the tensor.
    pub fn array(&self) -> &ArrayDescription {
        &self.array
    }

    /// Gives up the tensor, whose next owner deletes it, and returns its address for a capsule.
    pub fn into_raw(self) -> ManagedTensor {
        let tensor = self.tensor;
        std::mem::forget(self);
        tensor
    }
}

impl Drop for OwnedTensor {
    fn drop(&mut self) {
        // SAFETY: the tensor is live and ours alone, and nothing uses it from now on.
        unsafe { self.tensor.delete() }
    }
}

/// A tensor for another program, in one allocation: both forms, one of which is passed on.
struct Exported {
    unversioned: DLManagedTensor,
    versioned: DLManagedTensorVersioned,
    _lengths: (Vec<i64>, Vec<i64>),
    _owner: Box<dyn Any + Send>,
}

/// # Safety
/// `tensor` is null or a tensor of [`OwnedTensor::export`], and nothing uses it from now on.
unsafe extern "C" fn delete_unversioned(tensor: *mut DLManagedTensor) {
    if !tensor.is_null() {
        // SAFETY: the tensor is live and its context is the box around it.
        unsafe { free((*tensor).manager_ctx) }
    }
}

/// # Safety
/// As for [`delete_unversioned`].
unsafe extern "C" fn delete_versioned(tensor: *mut DLManagedTensorVersioned) {
    if !tensor.is_null() {
        // SAFETY: the tensor is live and its context is the box around it.
        unsafe { free((*tensor).manager_ctx) }
    }
}

/// # Safety
/// `exported` is a box of [`Exported`] as a raw pointer, and nothing uses it from now on.
unsafe fn free(exported: *mut c_void) {
    // SAFETY: as the caller promises.
    let exported = unsafe { Box::from_raw(exported.cast::<Exported>()) };
    // A panic of the owner's drop must not unwind into another language.
    if catch_unwind(AssertUnwindSafe(|| drop(exported))).is_err() {
        log::error(format_args!(
            "the owner of the memory of an exported array panicked while it was dropped"
        ));
    }
}
