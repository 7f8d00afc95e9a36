//! Exact sums of arrays.

use haloport::comm::ExactSum;
use numpy::{PyArray1, PyArrayMethods, PyUntypedArray};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::arguments::type_name;
use crate::arrays::describe::describe;
use crate::arrays::described::Place;
use crate::arrays::expected::named;
use crate::comm::Communicator;
use crate::payload;

/// The sums of this rank's values, and whether they are several.
pub(crate) fn exact_sums(
    values: &Bound<'_, PyAny>,
    weights: Option<&Bound<'_, PyAny>>,
    comm: &Communicator,
) -> PyResult<(Vec<ExactSum>, bool)> {
    let Some(values) = several(values)? else {
        return Ok((vec![exact_sum(values, weights, "", comm)?], false));
    };
    let weights = weights.map(|weights| match several(weights)? {
        Some(weights) if weights.len() == values.len() => Ok(weights),
        Some(weights) => {
            let (expected, found) = (values.len(), weights.len());
            Err(PyValueError::new_err(format!("weights: expected {expected} as values has, found {found}")))
        }
        None => {
            let found = type_name(weights);
            Err(PyTypeError::new_err(format!("weights: expected a list, as values is one, found {found}")))
        }
    });
    let weights = weights.transpose()?;
    let sums = values.iter().enumerate().map(|(place, values)| {
        exact_sum(values, weights.as_ref().map(|weights| &weights[place]), &format!("[{place}]"), comm)
    });
    Ok((sums.collect::<PyResult<_>>()?, true))
}

/// The items of a list or a tuple.
fn several<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return Ok(Some(object.try_iter()?.collect::<PyResult<_>>()?));
    }
    Ok(None)
}

fn exact_sum(
    values: &Bound<'_, PyAny>,
    weights: Option<&Bound<'_, PyAny>>,
    place: &str,
    comm: &Communicator,
) -> PyResult<ExactSum> {
    let values = floats(values, &format!("values{place}"), false, comm)?;
    let Some(weights) = weights else { return plain(&values) };
    let weights = floats(weights, &format!("weights{place}"), true, comm)?;
    let shape = |array: &Bound<'_, PyAny>| array.getattr("shape")?.extract::<Vec<usize>>();
    let (expected, found) = (shape(&values)?, shape(&weights)?);
    if expected != found {
        return Err(PyValueError::new_err(format!(
            "weights{place}: expected the shape of the values, {expected:?}, found {found:?}"
        )));
    }
    if weights.getattr("dtype")?.getattr("kind")?.extract::<String>()? == "b" {
        return plain(&values.get_item(&weights)?);
    }
    let py = values.py();
    let (values, weights) = (line_of_f64(&values)?, line_of_f64(&weights)?);
    let (values, weights) = (values.readonly(), weights.readonly());
    let (a, b, mut sum) = (values.as_slice()?, weights.as_slice()?, ExactSum::new());
    py.detach(|| sum.add_products(a, b));
    Ok(sum)
}

/// The sum of an array of f64 or f32.
fn plain(values: &Bound<'_, PyAny>) -> PyResult<ExactSum> {
    // In the order in which it lies in memory.
    let line = values.call_method1(intern!(values.py(), "ravel"), ("K",))?;
    let (py, mut sum) = (line.py(), ExactSum::new());
    if let Ok(line) = line.cast::<PyArray1<f32>>() {
        let (line, sum) = (line.readonly(), &mut sum);
        let terms = line.as_slice()?;
        py.detach(|| sum.add(terms));
    } else {
        let (line, sum) = (line.cast::<PyArray1<f64>>()?.readonly(), &mut sum);
        let terms = line.as_slice()?;
        py.detach(|| sum.add(terms));
    }
    Ok(sum)
}

/// An array of f64 or f32 in the byte order of the machine, with any strides; or of flags, if that `may_be_flags`. Of an array on
/// a device, a copy.
fn floats<'py>(
    object: &Bound<'py, PyAny>,
    name: &str,
    may_be_flags: bool,
    comm: &Communicator,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let numpy = py.import(intern!(py, "numpy"))?;
    if object.is_instance(&numpy.getattr("ma")?.getattr("MaskedArray")?)? {
        let advice = "its mask would be lost: pass its compressed(), or filled(0)";
        return Err(PyTypeError::new_err(format!("{name}: expected an array, found a masked one; {advice}")));
    }
    // What is no array of a known package is for NumPy to judge.
    let described =
        if object.is_instance_of::<PyUntypedArray>() { None } else { describe(object, true).ok() };
    let array = match described.filter(|described| !matches!(described.place, Place::Host)) {
        Some(described) => {
            payload::copied(object, &described, comm).map_err(|error| named(py, error, name))?
        }
        None => numpy.call_method1(intern!(py, "asarray"), (object,))?,
    };
    let dtype = array.getattr(intern!(py, "dtype"))?;
    let (kind, bytes) =
        (dtype.getattr("kind")?.extract::<String>()?, dtype.getattr("itemsize")?.extract::<usize>()?);
    // Whole numbers of Python are floats here; an array of them has another sum, which is exact by itself.
    let is_number =
        array.getattr("ndim")?.extract::<usize>()? == 0 && matches!(kind.as_str(), "i" | "u" | "b");
    let native = match (kind.as_str(), bytes) {
        ("b", _) if may_be_flags => return Ok(array),
        ("f", 2 | 4) => "float32",
        ("f", 8) => "float64",
        _ if is_number => "float64",
        _ => {
            return Err(PyTypeError::new_err(format!(
                "{name}: expected an array with floats of at most 64 bits, found {dtype}; sums of integers are exact in int64"
            )));
        }
    };
    // In the same order in memory; a copy only if the type differs. A whole number is not of the same kind.
    let array = array.call_method1(intern!(py, "astype"), (native, "K", "unsafe", true, false))?;
    // Parts of packed records may lie at any address.
    numpy.call_method1(intern!(py, "require"), (array, py.None(), "A"))
}

/// All elements in C order.
fn line_of_f64<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let py = array.py();
    let numpy = py.import(intern!(py, "numpy"))?;
    let array = numpy.call_method1(intern!(py, "ascontiguousarray"), (array, "float64"))?;
    Ok(array.call_method1(intern!(py, "ravel"), ())?.cast_into::<PyArray1<f64>>()?)
}
