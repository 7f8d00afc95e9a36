//! Numbers, flags and lists of numbers among the arguments of calls.
//!
//! A value of another type is a `TypeError`, a number outside of its range a `ValueError`. Exceptions that objects of the
//! caller raise are passed on. Calls that are collective check such arguments themselves, so that a rank with an invalid
//! one can tell the others.

use haloport::interop::MAX_ARRAY_AXES;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyMemoryError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyString};

/// The longest text of a value in an error, in characters.
const MOST_CHARACTERS: usize = 80;

/// A number from 0 on.
pub(crate) fn count(value: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    number(value, name, "a whole number from 0 on")
}

/// As [`count`], or `default` if the argument was left out.
pub(crate) fn count_or(value: Option<&Bound<'_, PyAny>>, name: &str, default: usize) -> PyResult<usize> {
    value.map_or(Ok(default), |value| count(value, name))
}

/// `True` or `False`, or `default` if the argument was left out.
pub(crate) fn flag_or(value: Option<&Bound<'_, PyAny>>, name: &str, default: bool) -> PyResult<bool> {
    value.map_or(Ok(default), |value| number(value, name, "True or False"))
}

/// A number of type `T`. `expected` describes the valid values in errors.
pub(crate) fn number<'py, T: FromPyObjectOwned<'py>>(
    value: &Bound<'py, PyAny>,
    name: &str,
    expected: &str,
) -> PyResult<T> {
    value.extract::<T>().map_err(|error| {
        let (py, error): (_, PyErr) = (value.py(), error.into());
        let text = || format!("{name}: expected {expected}, found {}", shown(value));
        if error.is_instance_of::<PyOverflowError>(py) {
            PyValueError::new_err(text())
        } else if error.is_instance_of::<PyTypeError>(py) {
            PyTypeError::new_err(text())
        } else {
            error
        }
    })
}

/// Numbers of type `T`, at most one for each axis of an array. `expected` describes the valid values in errors. The
/// length that the list promises is not believed.
pub(crate) fn numbers<'py, T: FromPyObjectOwned<'py>>(
    list: &Bound<'py, PyAny>,
    name: &str,
    expected: &str,
) -> PyResult<Vec<T>> {
    let mut found = Vec::new();
    for entry in entries(list, name, "a sequence of numbers, one for each axis")? {
        if found.len() == MAX_ARRAY_AXES {
            return Err(PyValueError::new_err(format!(
                "{name}: expected a number for each of at most {MAX_ARRAY_AXES} axes, found more"
            )));
        }
        found.push(number(&entry?, name, expected)?);
    }
    Ok(found)
}

/// Numbers from 0 on, at most one for each axis of an array.
pub(crate) fn counts(list: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<usize>> {
    numbers(list, name, "whole numbers from 0 on")
}

/// The entries of something iterable other than a text. `expected` describes the valid values in errors.
pub(crate) fn entries<'py>(
    list: &Bound<'py, PyAny>,
    name: &str,
    expected: &str,
) -> PyResult<Bound<'py, PyIterator>> {
    let wrong = || PyTypeError::new_err(format!("{name}: expected {expected}, found {}", shown(list)));
    if list.is_instance_of::<PyString>() || list.is_instance_of::<PyBytes>() {
        return Err(wrong());
    }
    list.try_iter().map_err(|error| match error.is_instance_of::<PyTypeError>(list.py()) {
        true => wrong(),
        false => error,
    })
}

/// Whether a value has entries, so that it is no number. Exceptions that it raises are passed on.
pub(crate) fn is_iterable(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match value.try_iter() {
        Ok(_) => Ok(true),
        Err(error) if error.is_instance_of::<PyTypeError>(value.py()) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Two values, such as a tuple of them; `None` for anything else.
pub(crate) fn pair<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<[Bound<'py, PyAny>; 2]>> {
    let Ok(mut entries) = value.try_iter() else { return Ok(None) };
    let (Some(one), Some(other), None) = (entries.next(), entries.next(), entries.next()) else {
        return Ok(None);
    };
    Ok(Some([one?, other?]))
}

/// Checks that there may be memory for `bytes`.
pub(crate) fn check_memory(bytes: usize, name: &str) -> PyResult<()> {
    Vec::<u8>::new()
        .try_reserve_exact(bytes)
        .map_err(|_| PyMemoryError::new_err(format!("{name}: there is no memory for {bytes} bytes")))
}

/// A value as errors show it: its text, unless that is long, and its type if it has none.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr().and_then(|text| text.extract::<String>());
    match text {
        Ok(text) if text.chars().count() <= MOST_CHARACTERS => text,
        Ok(text) => text.chars().take(MOST_CHARACTERS).chain("…".chars()).collect(),
        Err(_) => type_name(value),
    }
}

/// The name of the type of an object, for errors.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    let kind = object.get_type();
    // A type may have something else in place of the name of its module.
    let name = kind.fully_qualified_name().or_else(|_| kind.name());
    name.map_or_else(|_| "an object".into(), |name| name.to_string())
}

/// The value that a text names.
pub(crate) fn one_of<T: Copy>(text: &Bound<'_, PyAny>, name: &str, known: &[(&str, T)]) -> PyResult<T> {
    let names: Vec<String> = known.iter().map(|(word, _)| format!("'{word}'")).collect();
    let expected = format!("one of {}", names.join(", "));
    let word: String = number(text, name, &expected)?;
    let found = known.iter().find(|(known, _)| *known == word);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| PyValueError::new_err(format!("{name}: expected {expected}, found {}", shown(text))))
}
