//! The packages that objects are of.

use pyo3::prelude::*;

/// Whether an object is of JAX, whose arrays are immutable.
pub(crate) fn is_jax(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    is_of_package(object, "jax")
}

/// Whether the type of an object is of a package.
pub(super) fn is_of_package(object: &Bound<'_, PyAny>, package: &str) -> PyResult<bool> {
    // Types may have no module, or something else in place of its name.
    let Some(module) = object.get_type().getattr_opt("__module__")? else { return Ok(false) };
    let Ok(module) = module.extract::<String>() else { return Ok(false) };
    Ok(module
        .strip_prefix(package)
        .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric) || rest.starts_with("lib")))
}
