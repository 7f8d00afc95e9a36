//! The layout that one block of a plan was made for, and the check of an array that is passed to it.

use std::sync::OnceLock;

use ::numpy::PyUntypedArrayMethods;
use haloport::ElementType;
use haloport::interop::ArrayDescription;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use smallvec::SmallVec;

use super::describe::describe;
use super::described::Described;
use super::element::{dtype_name, meant_name};
use super::meaning::meaning_of_array;
use super::numpy;
use super::package::is_jax;

/// The properties that an array needs to be passed to a plan.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) element: ElementType,
    /// What the elements mean beyond that, as [`meaning_of`](super::meaning::meaning_of) tells.
    meaning: String,
    pub(crate) axes: SmallVec<[ExpectedAxis; 6]>,
    /// Whether it is in memory of the host.
    pub(crate) on_host: bool,
    /// Whether exchanges only read it.
    is_read: bool,
    /// A NumPy dtype that is known to be `element`, and the class of an array that was found to be usable.
    known: OnceLock<Known>,
}

/// The objects that an array of a later call probably has, too. Both are kept, so that no other object gets their
/// addresses.
#[derive(Debug)]
struct Known {
    dtype: Py<PyAny>,
    class: Py<PyAny>,
}

/// An axis of such an array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedAxis {
    pub(crate) extent: usize,
    /// Whether it may have more elements, as the axis of the cells of a mesh may.
    pub(crate) or_more: bool,
    /// In bytes.
    pub(crate) stride: isize,
}

impl Expected {
    pub(crate) fn new(
        (element, meaning): (ElementType, String),
        axes: impl IntoIterator<Item = ExpectedAxis>,
        on_host: bool,
        is_read: bool,
    ) -> Expected {
        let axes = axes.into_iter().collect();
        Expected { element, meaning, axes, on_host, is_read, known: OnceLock::new() }
    }

    /// The address of the first element of an array, if it is one of NumPy, as expected, and of a dtype seen before.
    /// Otherwise `None`: then `check` finds out.
    #[inline]
    pub(crate) fn quick_address(&self, object: &Bound<'_, PyAny>) -> Option<usize> {
        let members = numpy::Members::of(numpy::as_array(object)?);
        let known = self.known.get()?;
        let fits = self.on_host
            && members.dtype == known.dtype.as_ptr().addr()
            && object.get_type_ptr().addr() == known.class.as_ptr().addr()
            && members.is_aligned()
            && (self.is_read || members.is_writable())
            && members.shape.len() == self.axes.len()
            && self.axes.iter().enumerate().all(|(axis, expected)| {
                expected.fits(members.shape[axis] as usize)
                    && (expected.extent <= 1 || members.strides[axis] == expected.stride)
            });
        fits.then(|| members.data.expose_provenance())
    }

    /// Describes an array, and checks that it is as expected. `name` names it in errors.
    pub(crate) fn check(&self, object: &Bound<'_, PyAny>, fresh: bool, name: &str) -> PyResult<Described> {
        let described =
            describe(object, fresh || self.is_read).map_err(|error| named(object.py(), error, name))?;
        let array = &described.array;
        // Packages whose arrays are immutable mark also those that nothing else uses yet.
        if !fresh || !is_jax(object)? {
            described.check_use(self.is_read).map_err(|error| named(object.py(), error, name))?;
        }
        if array.element() != self.element {
            return Err(PyBufferError::new_err(format!(
                "{name}: expected elements of dtype {}, found {}; pass an array like that, or make another plan",
                meant_name(&self.meaning, self.element),
                dtype_name(array.element())
            )));
        }
        let meaning = meaning_of_array(object, self.element)?;
        if meaning != self.meaning {
            return Err(PyBufferError::new_err(format!(
                "{name}: expected elements of dtype {}, found {}; pass an array like that, or make another plan",
                meant_name(&self.meaning, self.element),
                meant_name(&meaning, self.element)
            )));
        }
        if let Some(text) = self.difference(array) {
            return Err(PyValueError::new_err(format!(
                "{name}, {text}; pass an array of this layout, or make another plan"
            )));
        }
        if let Some(array) = numpy::as_array(object) {
            let (dtype, class) = (array.dtype().into_any().unbind(), array.get_type().into_any().unbind());
            let _ = self.known.set(Known { dtype, class });
        }
        Ok(described)
    }

    /// Whether an array that was found to be as expected still is, with its first element at `address`: code of Python
    /// that ran since may have changed an array of NumPy. The memory of other arrays cannot move, as what was taken of
    /// them is kept.
    pub(crate) fn is_still_at(&self, address: usize, object: &Bound<'_, PyAny>) -> bool {
        let Some(array) = numpy::as_array(object) else { return true };
        let members = numpy::Members::of(array);
        let empty = members.shape.contains(&0);
        members.data.addr() == address
            && (self.is_read || members.is_writable())
            && members.shape.len() == self.axes.len()
            && self.axes.iter().enumerate().all(|(axis, expected)| {
                expected.fits(members.shape[axis] as usize)
                    && (expected.extent <= 1 || members.strides[axis] == expected.stride || empty)
            })
    }

    /// The first difference from an array, in words.
    fn difference(&self, array: &ArrayDescription) -> Option<String> {
        let (shape, strides) = (array.shape(), array.strides());
        if shape.len() != self.axes.len() {
            return Some(format!(
                "its axes: expected {}, found {} (shape {shape:?})",
                self.axes.len(),
                shape.len()
            ));
        }
        let bytes = self.element.bytes() as isize;
        let empty = array.is_empty();
        self.axes.iter().enumerate().find_map(|(axis, expected)| {
            let found = shape[axis];
            if !expected.fits(found) {
                let more = if expected.or_more { " or more" } else { "" };
                return Some(format!(
                    "axis {axis}: expected extent {}{more}, found {found}",
                    expected.extent
                ));
            }
            let stride = strides[axis] * bytes;
            (expected.extent > 1 && stride != expected.stride && !empty).then(|| {
                format!("axis {axis}: expected a stride of {} bytes, found {stride}", expected.stride)
            })
        })
    }
}

impl ExpectedAxis {
    #[inline]
    fn fits(&self, extent: usize) -> bool {
        extent == self.extent || (self.or_more && extent > self.extent)
    }
}

/// The same exception with the name of the array before its text. Exceptions of the caller's own types, which may not be
/// made of a text, get a note instead.
pub(crate) fn named(py: Python<'_>, error: PyErr, name: &str) -> PyErr {
    let kind = error.get_type(py);
    let plain = [py.get_type::<PyBufferError>(), py.get_type::<PyTypeError>(), py.get_type::<PyValueError>()];
    if !plain.iter().any(|plain| plain.is(&kind)) {
        // Without memory for a note, the exception alone says what failed.
        let _ = error.value(py).call_method1("add_note", (format!("while Haloport took {name}"),));
        return error;
    }
    let renamed = PyErr::from_type(kind, (format!("{name}: {}", error.value(py)),));
    // It was raised by code of Python: its traceback says where.
    if error.traceback(py).is_some() {
        renamed.set_cause(py, Some(error));
    }
    renamed
}
