//! Arrays of NumPy, read where they lie, and arrays with the buffer protocol, which NumPy reads.

use std::slice;

use haloport::device::Pointer;
use haloport::interop::{ArrayDescription, ArrayDevice};
use numpy::npyffi::flags::{NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE};
use numpy::npyffi::objects::PyArrayObject;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::PyTypeInfo;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use super::described::{Described, Keep, Place};
use super::element::element_of;
use crate::error::OrRaise;

/// The object as an array of NumPy, or of a class derived from it.
pub(crate) fn as_array<'a, 'py>(object: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyUntypedArray>> {
    object.cast::<PyUntypedArray>().ok()
}

/// The members of an array that a check of its layout needs.
pub(crate) struct Members<'a> {
    pub(crate) data: *mut u8,
    pub(crate) shape: &'a [isize],
    /// In bytes.
    pub(crate) strides: &'a [isize],
    /// The address of its dtype.
    pub(crate) dtype: usize,
    flags: i32,
}

impl Members<'_> {
    /// Reads the members of an array.
    #[inline]
    pub(crate) fn of<'a>(array: &'a Bound<'_, PyUntypedArray>) -> Members<'a> {
        let object: *mut PyArrayObject = array.as_ptr().cast();
        // SAFETY: the object is an array of NumPy, alive and unchanged while this thread is attached to Python and runs
        // no code of Python: the result is not kept longer. The shape and the strides have `nd` numbers each; both are
        // null for 0 axes.
        unsafe {
            let fields = &(*object).fields;
            let list = |first: *mut isize| match fields.nd {
                0 => &[][..],
                axes => slice::from_raw_parts(first, axes as usize),
            };
            Members {
                data: fields.data.cast(),
                shape: list(fields.dimensions),
                strides: list(fields.strides),
                dtype: fields.descr.addr(),
                flags: fields.flags,
            }
        }
    }

    /// Whether it may be written.
    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        self.flags & NPY_ARRAY_WRITEABLE != 0
    }

    /// Whether its elements are aligned.
    #[inline]
    pub(crate) fn is_aligned(&self) -> bool {
        self.flags & NPY_ARRAY_ALIGNED != 0
    }
}

pub(crate) fn describe(array: &Bound<'_, PyUntypedArray>) -> PyResult<Described> {
    refuse_masks(array)?;
    // The dtype itself: the attribute of a derived class may be another one.
    let element = element_of(array.dtype().as_any())?;
    let members = Members::of(array);
    let bytes = element.bytes() as isize;
    let in_elements = |(&stride, &extent): (&isize, &isize)| match stride % bytes {
        0 => Ok(stride as i64 / bytes as i64),
        _ if extent < 2 => Ok(1),
        _ => Err(PyBufferError::new_err(format!(
            "strides: expected multiples of the {bytes} bytes of an element, found {:?}; pass a contiguous copy",
            members.strides
        ))),
    };
    let empty = members.shape.contains(&0);
    let strides: Vec<i64> = if empty {
        vec![1; members.shape.len()]
    } else {
        members.strides.iter().zip(members.shape).map(in_elements).collect::<PyResult<_>>()?
    };
    let shape: Vec<i64> = members.shape.iter().map(|&extent| extent as i64).collect();
    let described =
        ArrayDescription::new(element, Pointer::new(members.data), &shape, &strides, ArrayDevice::HOST)
            .or_raise()?;
    let array = if members.is_writable() { described } else { described.for_reading() };
    Ok(Described { array, place: Place::Host, keep: None })
}

/// Refuses a masked array: its mask would not be exchanged.
fn refuse_masks(array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    let py = array.py();
    let kind = array.get_type();
    if kind.as_type_ptr().addr() == PyUntypedArray::type_object(py).as_type_ptr().addr() {
        return Ok(());
    }
    // Loaded, if there is an array of it.
    let Ok(masked) = py.import("sys")?.getattr("modules")?.get_item("numpy.ma") else { return Ok(()) };
    if !array.is_instance(&masked.getattr("MaskedArray")?)? {
        return Ok(());
    }
    Err(PyBufferError::new_err(
        "expected an array without a mask, found a masked array, whose mask would not be exchanged; pass `array.data`, and \
         `array.mask` as a second array if it is needed",
    ))
}

/// Describes an object with the buffer protocol; `None` if it lacks that.
pub(crate) fn by_buffer(object: &Bound<'_, PyAny>) -> PyResult<Option<Described>> {
    let Ok(view) = PyMemoryView::from(object) else { return Ok(None) };
    shown_by_numpy(view.as_any()).map(Some)
}

/// Describes an object with `__array_interface__`, whose memory NumPy shows.
pub(crate) fn by_interface(object: &Bound<'_, PyAny>) -> PyResult<Described> {
    shown_by_numpy(object)
}

fn shown_by_numpy(object: &Bound<'_, PyAny>) -> PyResult<Described> {
    let array = object.py().import("numpy")?.call_method1("asarray", (object,))?;
    let described = describe(array.cast::<PyUntypedArray>()?)?;
    Ok(Described { keep: Some(Keep::Object { _object: array.unbind() }), ..described })
}
