//! Layouts: how the cells of a domain lie in an array.

use haloport::ElementType;
use haloport::field::{ArrayShape, AxisRole};
use haloport::interop::MAX_ARRAY_AXES;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::arguments::{counts, entries, number, numbers};
use crate::arrays::described::Described;
use crate::arrays::element::{dtype_of, element_of};
use crate::arrays::meaning::{dtype_of_array, meaning_of};
use crate::device::Device;

/// The layout of arrays: what a plan needs to know of them in advance.
///
/// Parameters
/// ----------
/// shape : sequence of int
///     The extent of each axis, with the halo.
/// dtype : dtype-like
///     The type of an element.
/// axes : sequence of int or str, optional
///     What each axis is. On a grid, the number of the grid's axis along which it runs; on a mesh, ``"cells"``, or
///     ``"blocks"`` and ``"cells"`` if the cells lie in blocks (nproma). Further axes are ``"levels"``, at most one
///     ``"components"``. By default the axes of the grid, or the cells, come first, in their order, then the others.
/// strides : sequence of int, optional
///     The distance in bytes between neighbours along each axis, of either sign, as of an array of NumPy. By default that of C
///     order.
/// origin : sequence of int, optional
///     On a grid, the index of the first owned cell in the array along each axis of the grid. By default the width of
///     the halo; the extents must then fit exactly.
/// device : str or Device, optional
///     The device of the memory; by default the CPU. Such as ``"sycl:gpu:0"``.
///
/// Layouts are values: they can be compared, copied, hashed and pickled.
#[pyclass(frozen, module = "haloport")]
#[derive(Clone)]
pub(crate) struct Layout {
    pub(crate) spec: Spec,
    dtype: std::sync::Arc<Py<PyAny>>,
    device: Option<Device>,
}

/// The arguments of a call: those without names, and those with names.
type Arguments<'py> = ((Bound<'py, PyTuple>, Py<PyAny>), Bound<'py, PyDict>);

/// The layout of an array, checked but for the pattern that it must fit.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) shape: ArrayShape,
    pub(crate) element: ElementType,
}

#[pymethods]
impl Layout {
    #[new]
    #[pyo3(signature = (shape, dtype, axes=None, *, strides=None, origin=None, device=None))]
    fn py_new(
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
        axes: Option<&Bound<'_, PyAny>>,
        strides: Option<&Bound<'_, PyAny>>,
        origin: Option<&Bound<'_, PyAny>>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Layout> {
        let shape = counts(shape, "shape")?;
        let strides =
            strides.map(|strides| numbers::<i128>(strides, "strides", "whole numbers")).transpose()?;
        let origin = origin.map(|origin| counts(origin, "origin")).transpose()?;
        let dtype = dtype_of(dtype)?;
        let element = element_of(&dtype)?;
        let strides: Vec<isize> = match strides {
            Some(strides) if strides.len() != shape.len() => {
                return Err(PyValueError::new_err(format!(
                    "strides: expected one for each of {} axes, found {}",
                    shape.len(),
                    strides.len()
                )));
            }
            Some(strides) => in_elements(&strides, &shape, element.bytes())?,
            None => ArrayShape::contiguous(&shape)
                .ok_or_else(|| PyValueError::new_err(format!("shape: {shape:?} is too large for memory")))?,
        };
        let shape = ArrayShape { extents: shape, strides, roles: axes_of(axes)?, origin };
        let spec = Spec { shape, element };
        let device = device.map(Device::of).transpose()?.filter(|device| !device.is_cpu());
        Ok(Layout { spec, dtype: std::sync::Arc::new(dtype.unbind()), device })
    }

    /// The extent of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.spec.shape.extents)
    }

    /// The type of an element.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.clone_ref(py)
    }

    /// The meaning of each axis; ``None`` if the caller has set none.
    #[getter]
    fn axes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(axes) = &self.spec.shape.roles else { return Ok(None) };
        let named = axes.iter().map(|axis| role_to_object(*axis, py)).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, named).map(Some)
    }

    /// The distance in bytes between neighbours along each axis.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let bytes = self.spec.element.bytes() as i128;
        PyTuple::new(py, self.spec.shape.strides.iter().map(|&stride| stride as i128 * bytes))
    }

    /// The index of the first owned cell; ``None`` if the caller has set none.
    #[getter]
    fn origin<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.spec.shape.origin.as_ref().map(|origin| PyTuple::new(py, origin)).transpose()
    }

    /// The name of the device; ``None`` for the CPU.
    #[getter]
    fn device(&self) -> Option<String> {
        self.device.as_ref().map(Device::name)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Layout>() else { return Ok(false) };
        let (py, theirs) = (other.py(), other.get());
        let (mine, other) = (&self.spec.shape, &theirs.spec.shape);
        let device = |layout: &Layout| layout.device.as_ref().map(Device::id);
        Ok(mine.extents == other.extents
            && mine.strides == other.strides
            && mine.roles == other.roles
            && mine.origin == other.origin
            && self.spec.element == theirs.spec.element
            && device(self) == device(theirs)
            && self.dtype.bind(py).eq(&*theirs.dtype)?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (self.shape(py)?, &*self.dtype, self.strides(py)?).into_pyobject(py)?.hash()
    }

    /// A copy is the layout itself, which does not change.
    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    /// The arguments that make it again, for ``pickle``.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<Arguments<'py>> {
        let named = PyDict::new(py);
        named.set_item("axes", self.axes(py)?)?;
        named.set_item("strides", self.strides(py)?)?;
        named.set_item("origin", self.origin(py)?)?;
        named.set_item("device", self.device.clone())?;
        Ok(((self.shape(py)?, self.dtype(py)), named))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (shape, dtype) = (self.shape(py)?, self.dtype(py));
        let axes = self.axes(py)?.map_or(String::new(), |axes| format!(", axes={axes}"));
        Ok(format!("haloport.Layout({shape}, {:?}{axes})", dtype.bind(py).str()?.to_string()))
    }
}

impl Layout {
    /// What the elements mean beyond their type.
    pub(crate) fn meaning(&self, py: Python<'_>) -> PyResult<String> {
        meaning_of(self.dtype.bind(py), self.spec.element)
    }

    pub(crate) fn chosen_device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// The layout of an array that is passed to a plan.
    pub(crate) fn of_array(array: &Bound<'_, PyAny>, spec: Spec, device: Option<Device>) -> PyResult<Layout> {
        let dtype = dtype_of_array(array, spec.element)?;
        Ok(Layout { spec, dtype: std::sync::Arc::new(dtype.unbind()), device })
    }
}

impl Spec {
    /// The layout of an array.
    pub(crate) fn of_array(described: &Described, roles: Option<Vec<AxisRole>>) -> Spec {
        let array = &described.array;
        let (extents, strides) = (array.shape().to_vec(), array.strides().to_vec());
        Spec { shape: ArrayShape { extents, strides, roles, origin: None }, element: array.element() }
    }
}

/// Strides in bytes as strides in elements. Along an axis of one cell they have no effect.
fn in_elements(strides: &[i128], shape: &[usize], bytes: usize) -> PyResult<Vec<isize>> {
    let bytes = bytes as i128;
    let in_elements = |(&stride, &extent): (&i128, &usize)| match isize::try_from(stride / bytes) {
        Ok(elements) if stride % bytes == 0 || extent <= 1 => Ok(elements),
        Ok(_) => Err(PyValueError::new_err(format!(
            "strides: expected multiples of the {bytes} bytes of an element, found {stride}"
        ))),
        Err(_) => Err(PyValueError::new_err(format!(
            "strides: expected fewer than 2^63 elements of {bytes} bytes, found {stride} bytes"
        ))),
    };
    strides.iter().zip(shape).map(in_elements).collect()
}

/// The argument `axes` of a call.
pub(crate) fn axes_of(axes: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<AxisRole>>> {
    let Some(axes) = axes else { return Ok(None) };
    let mut found = Vec::new();
    for axis in entries(axes, "axes", "a sequence of numbers and names, one for each axis")? {
        if found.len() == MAX_ARRAY_AXES {
            return Err(PyValueError::new_err(format!(
                "axes: expected one for each of at most {MAX_ARRAY_AXES} axes, found more"
            )));
        }
        found.push(role_of(&axis?)?);
    }
    Ok(Some(found))
}

fn role_of(axis: &Bound<'_, PyAny>) -> PyResult<AxisRole> {
    let Ok(name) = axis.cast::<PyString>() else {
        return number(axis, "axes", "the number of an axis, or its name").map(AxisRole::Cells);
    };
    let name: String = name.extract()?;
    match name.as_str() {
        "cells" => Ok(AxisRole::Cells(0)),
        "blocks" => Ok(AxisRole::Blocks),
        "levels" => Ok(AxisRole::Levels),
        "components" => Ok(AxisRole::Components),
        _ => Err(PyValueError::new_err(format!(
            "axes: expected a number, \"cells\", \"blocks\", \"levels\" or \"components\", found {name:?}"
        ))),
    }
}

fn role_to_object(role: AxisRole, py: Python<'_>) -> PyResult<Py<PyAny>> {
    let name = match role {
        AxisRole::Cells(axis) => return Ok(axis.into_pyobject(py)?.into_any().unbind()),
        AxisRole::Blocks => "blocks",
        AxisRole::Levels => "levels",
        AxisRole::Components => "components",
    };
    Ok(PyString::new(py, name).into_any().unbind())
}
