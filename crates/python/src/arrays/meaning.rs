//! What elements are beyond their type: the unit of dates, the members of records.
//!
//! Elements of other dtypes than numbers move as integers or bytes of their size. What these bytes mean must be the same
//! on all ranks, and for all arrays that are passed to a plan.

use haloport::ElementType;
use haloport::interop::{Protocol, typestr};
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::element::{dtype_of, element_of, name_elsewhere};
use crate::error::OrRaise;

/// Maximum number of records within each other.
const DEEPEST: usize = 32;

/// What the elements of a dtype, which have this type, mean beyond that: a text that differs between dtypes that differ;
/// empty for numbers. A number that NumPy does not know has the dtype of as many bytes, but is none.
///
/// # Errors
/// `BufferError` for records within more than [`DEEPEST`] others.
pub(crate) fn meaning_of(dtype: &Bound<'_, PyAny>, element: ElementType) -> PyResult<String> {
    if matches!(element, ElementType::Bytes(_))
        && let Some(name) = name_elsewhere(dtype)?
    {
        return Ok(name);
    }
    let text: String = dtype.getattr("str")?.extract()?;
    match text.chars().nth(1) {
        Some('M' | 'm' | 'S' | 'U' | 'V') if has_meaning(element) => described(dtype, 0),
        _ => Ok(String::new()),
    }
}

/// As [`meaning_of`], of an array.
pub(crate) fn meaning_of_array(array: &Bound<'_, PyAny>, element: ElementType) -> PyResult<String> {
    match has_meaning(element) {
        true => meaning_of(&dtype_of_array(array, element)?, element),
        false => Ok(String::new()),
    }
}

/// Whether elements of this type may be more than numbers: dates move as integers of 8 bytes, texts and records as bytes.
fn has_meaning(element: ElementType) -> bool {
    matches!(element, ElementType::I64 | ElementType::Bytes(_))
}

/// The dtype of an array whose elements have this type: the one of NumPy that the array names, or one with the same
/// elements.
pub(crate) fn dtype_of_array<'py>(
    array: &Bound<'py, PyAny>,
    element: ElementType,
) -> PyResult<Bound<'py, PyAny>> {
    // That of an array of NumPy is read from its memory: a class derived from it may answer anything.
    let named = match array.cast::<PyUntypedArray>() {
        Ok(array) => Some(array.dtype().into_any()),
        Err(_) => array.getattr_opt("dtype")?,
    };
    let fits = |dtype: &Bound<'_, PyAny>| {
        dtype.is_instance_of::<PyArrayDescr>() && element_of(dtype).is_ok_and(|it| it == element)
    };
    match named.filter(fits) {
        Some(dtype) => Ok(dtype),
        None => {
            let text = match element {
                ElementType::Bf16 => "V2".into(),
                element => typestr::of(Protocol::Description, element).or_raise()?,
            };
            dtype_of(PyString::new(array.py(), &text).as_any())
        }
    }
}

/// A dtype as text, the members of records with their places.
fn described(dtype: &Bound<'_, PyAny>, depth: usize) -> PyResult<String> {
    if depth > DEEPEST {
        return Err(PyBufferError::new_err(format!(
            "dtype: expected records within at most {DEEPEST} others, found more"
        )));
    }
    let names = dtype.getattr("names")?;
    if !names.is_none() {
        let fields = dtype.getattr("fields")?;
        let members = names.try_iter()?.map(|name| {
            let name = name?;
            let member = fields.get_item(&name)?;
            let (kind, place) = (described(&member.get_item(0)?, depth + 1)?, member.get_item(1)?);
            Ok(format!("{}: {kind} at {place}", name.repr()?))
        });
        let members: Vec<String> = members.collect::<PyResult<_>>()?;
        return Ok(format!("{{{}}} in {} bytes", members.join(", "), dtype.getattr("itemsize")?));
    }
    let within = dtype.getattr("subdtype")?;
    if !within.is_none() {
        return Ok(format!("{} by {}", described(&within.get_item(0)?, depth + 1)?, within.get_item(1)?));
    }
    match name_elsewhere(dtype)? {
        Some(name) => Ok(name),
        None => dtype.getattr("str")?.extract(),
    }
}
