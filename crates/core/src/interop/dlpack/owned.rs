//! Tensors that are ours: taken from another program, or made for one.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::super::{ArrayDescription, InteropError, Protocol};
use super::layout::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, FLAG_COPIED,
    FLAG_READ_ONLY, MAJOR_VERSION,
};
use super::read::ManagedTensor;

/// A tensor that is deleted on drop.
#[derive(Debug)]
pub struct OwnedTensor {
    tensor: ManagedTensor,
    array: ArrayDescription,
}

// SAFETY: the tensor is ours alone; its deleter may be called by any thread, as `take` is promised, and as the owner
// given to `export`, which is `Send`, allows.
unsafe impl Send for OwnedTensor {}
// SAFETY: a shared `OwnedTensor` gives plain data, and the address, which is followed by unsafe calls alone.
unsafe impl Sync for OwnedTensor {}

/// The two forms of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Before version 1.0: cannot say that it is read-only.
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
    /// Takes the tensor from its owner, to be deleted when what this returns is dropped. On an error it stays with its
    /// owner. The caller then renames the capsule to [`used_capsule_name`](ManagedTensor::used_capsule_name).
    ///
    /// # Safety
    /// As for [`describe`](ManagedTensor::describe), and
    /// - nobody else takes or deletes the tensor;
    /// - its deleter may be called by any thread.
    ///
    /// # Errors
    /// As for [`describe`](ManagedTensor::describe).
    pub unsafe fn take(self) -> Result<OwnedTensor, InteropError> {
        // SAFETY: the caller promises what both calls ask for.
        unsafe { self.describe().map(|array| OwnedTensor::new(self, array)) }
    }
}

impl OwnedTensor {
    /// # Safety
    /// The tensor is live, ours alone, described by `array`, and its deleter may be called by any thread.
    pub(super) unsafe fn new(tensor: ManagedTensor, array: ArrayDescription) -> OwnedTensor {
        OwnedTensor { tensor, array }
    }

    /// A tensor of the array `array`, for another program. It holds `owner`, which keeps the memory of the array alive,
    /// until it is deleted, by whatever thread.
    ///
    /// # Errors
    /// `BufferError` for an array on a device of unknown number, and for a read-only array or a copy in the form that cannot
    /// say so.
    pub fn export(
        array: ArrayDescription,
        form: Form,
        owner: impl Any + Send,
    ) -> Result<OwnedTensor, InteropError> {
        if form == Form::Unversioned && (array.read_only || array.copied) {
            return Err(Protocol::DlPack.fault("flags").buffer(
                "a consumer that asks for version 1.0 or later",
                "an array that is read-only or a copy, which earlier versions cannot say",
                "pass `max_version=(1, 0)` to `__dlpack__`",
            ));
        }
        let device = DLDevice::of(array.device)?;
        let mut shape: Vec<i64> = array.shape.iter().map(|&extent| extent as i64).collect();
        let mut strides: Vec<i64> = array.strides.iter().map(|&stride| stride as i64).collect();
        let (shape_address, strides_address) = (shape.as_mut_ptr(), strides.as_mut_ptr());
        let tensor = || DLTensor {
            data: array.first.as_ptr().cast(),
            device,
            // At most `MAX_ARRAY_AXES`.
            ndim: array.shape.len() as i32,
            dtype: DLDataType::of(array.element),
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
        // SAFETY: `exported` is a live box that nobody else knows; the addresses of its fields are not null.
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

    /// What the tensor describes.
    pub fn array(&self) -> &ArrayDescription {
        &self.array
    }

    /// The tensor, which is from now on to be deleted by whoever gets it: the address for a capsule.
    pub fn into_raw(self) -> ManagedTensor {
        let tensor = self.tensor;
        std::mem::forget(self);
        tensor
    }
}

impl Drop for OwnedTensor {
    fn drop(&mut self) {
        // SAFETY: the tensor is live and ours alone, and nobody uses it after its owner.
        unsafe { self.tensor.delete() }
    }
}

/// What a tensor for another program holds, in one allocation: both forms, of which one is handed out.
struct Exported {
    unversioned: DLManagedTensor,
    versioned: DLManagedTensorVersioned,
    _lengths: (Vec<i64>, Vec<i64>),
    _owner: Box<dyn Any + Send>,
}

/// # Safety
/// `tensor` is null or one that [`OwnedTensor::export`] made, and nobody uses it from now on.
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
/// `exported` is a box of [`Exported`] as a raw pointer, which nobody uses from now on.
unsafe fn free(exported: *mut c_void) {
    // SAFETY: as the caller promises.
    let exported = unsafe { Box::from_raw(exported.cast::<Exported>()) };
    // A panic of the owner's drop must not unwind into another language.
    if catch_unwind(AssertUnwindSafe(|| drop(exported))).is_err() {
        tracing::error!("what owned the memory of an exported array panicked while it was dropped");
    }
}
