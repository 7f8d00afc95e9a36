//! Element types, as NumPy names them.

use haloport::ElementType;
use haloport::interop::{Protocol, typestr};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;

/// The NumPy dtype that the argument `dtype` of a call means.
pub(crate) fn dtype_of<'py>(dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let made = dtype.py().import("numpy")?.call_method1("dtype", (dtype,));
    made.map_err(|error| PyTypeError::new_err(format!("dtype: {}", error.value(dtype.py()))))
}

/// The name of a dtype that another package has made of plain bytes, such as those of `ml_dtypes`; `None` for NumPy's own.
pub(crate) fn name_elsewhere(dtype: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    const OF_ANOTHER_PACKAGE: u8 = 2;
    let is_elsewhere = dtype.getattr("isbuiltin")?.extract::<u8>()? == OF_ANOTHER_PACKAGE;
    if !is_elsewhere || dtype.getattr("hasobject")?.extract()? {
        return Ok(None);
    }
    dtype.getattr("name")?.extract().map(Some)
}

/// The name of the NumPy dtype of these elements, for errors.
pub(crate) fn dtype_name(element: ElementType) -> String {
    match (element, element.to_string()) {
        (ElementType::Bytes(_), text) => text,
        (ElementType::Bf16, _) => "bfloat16".into(),
        // NumPy counts both parts of a complex number.
        (ElementType::Complex32, _) => "complex64".into(),
        (ElementType::Complex64, _) => "complex128".into(),
        (_, text) => text.replace('i', "int").replace('u', "uint").replace('f', "float"),
    }
}

/// The name of a dtype whose elements mean more than their type says, or else of the dtype of these elements.
pub(crate) fn meant_name(meaning: &str, element: ElementType) -> String {
    if meaning.is_empty() { dtype_name(element) } else { meaning.to_string() }
}

/// The element type of a NumPy dtype. Booleans, dates and time spans move as integers of their size, records and numbers
/// that NumPy does not know as bytes.
pub(crate) fn element_of(dtype: &Bound<'_, PyAny>) -> PyResult<ElementType> {
    let text: String = dtype.getattr("str")?.extract()?;
    let refused = |found: &str| {
        let expected = "integers of 1 to 8 bytes, floats of 2 to 8, complex numbers of 8 or 16, records, in the byte \
             order of this machine";
        PyBufferError::new_err(format!(
            "dtype: expected {expected}, found {found}; convert the array to such a type"
        ))
    };
    let kind = text.chars().nth(1).unwrap_or(' ');
    if let Some(name) = name_elsewhere(dtype)? {
        let bytes: usize = dtype.getattr("itemsize")?.extract()?;
        return match name.as_str() {
            "bfloat16" => Ok(ElementType::Bf16),
            _ => ElementType::record(bytes).ok_or_else(|| refused(&name)),
        };
    }
    match kind {
        'O' => return Err(refused("Python objects")),
        'M' | 'm' if text.starts_with('<') == cfg!(target_endian = "little") => return Ok(ElementType::I64),
        // Records of Python objects hold addresses of this process.
        'V' if dtype.getattr("hasobject")?.extract()? => return Err(refused("records with Python objects")),
        'S' | 'U' => {
            let bytes: u32 = dtype.getattr("itemsize")?.extract()?;
            return ElementType::record(bytes as usize).ok_or_else(|| refused(&text));
        }
        _ => {}
    }
    typestr::parse(Protocol::Description, &text).map_err(|_| refused(&text))
}
