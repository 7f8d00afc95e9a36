//! Layouts: how the cells of a domain lie in an array.

use haloport::interop::{MAX_ARRAY_AXES, Protocol, typestr};
use haloport::{BlockLayout, CellBlocks, ElementType, IndexBox, MAX_AXES};
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::arguments::{counts, entries, number, numbers};
use crate::arrays::described::Described;
use crate::arrays::element::{dtype_of, element_of};
use crate::arrays::expected::ExpectedAxis;
use crate::device::Device;
use crate::error::OrRaise;

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
///     The distance in elements between neighbours along each axis, of either sign. By default that of C order.
/// origin : sequence of int, optional
///     On a grid, the index of the first owned cell in the array along each axis of the grid. By default the width of
///     the halo; the extents must then fit exactly.
/// device : str or Device, optional
///     The device of the memory; by default the CPU. Such as ``"sycl:gpu:0"``.
#[pyclass(frozen, module = "haloport")]
#[derive(Clone)]
pub(crate) struct Layout {
    pub(crate) spec: Spec,
    dtype: std::sync::Arc<Py<PyAny>>,
    device: Option<Device>,
}

/// The layout of an array, checked but for the pattern that it must fit.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) shape: Vec<usize>,
    /// In elements.
    pub(crate) strides: Vec<isize>,
    pub(crate) element: ElementType,
    pub(crate) axes: Option<Vec<Axis>>,
    pub(crate) origin: Option<Vec<usize>>,
}

/// What an axis of an array is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    /// That axis of the pattern: of the grid, or the cells of a mesh.
    Own(usize),
    /// The blocks in which the cells of a mesh lie.
    Blocks,
    Levels,
    Components,
}

/// The cells of one domain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cells<'a> {
    pub(crate) owned: IndexBox,
    /// With the halo.
    pub(crate) with_halo: IndexBox,
    /// Whether it is a mesh, whose arrays may have more rows.
    pub(crate) mesh: bool,
    /// For errors: such as ", domain 1".
    pub(crate) name: &'a str,
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
        let strides = strides.map(|strides| numbers(strides, "strides", "whole numbers")).transpose()?;
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
            Some(strides) => strides,
            None => contiguous(&shape)?,
        };
        let spec = Spec { shape, strides, element, axes: axes_of(axes)?, origin };
        let device = device.map(Device::of).transpose()?;
        Ok(Layout { spec, dtype: std::sync::Arc::new(dtype.unbind()), device })
    }

    /// The extent of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.spec.shape)
    }

    /// The type of an element.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.clone_ref(py)
    }

    /// What each axis is; ``None`` if it was not said.
    #[getter]
    fn axes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(axes) = &self.spec.axes else { return Ok(None) };
        let named = axes.iter().map(|axis| axis.to_object(py)).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, named).map(Some)
    }

    /// The distance in elements between neighbours along each axis.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.spec.strides)
    }

    /// The index of the first owned cell; ``None`` if it was not said.
    #[getter]
    fn origin<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.spec.origin.as_ref().map(|origin| PyTuple::new(py, origin)).transpose()
    }

    /// The name of the device; ``None`` for the CPU.
    #[getter]
    fn device(&self) -> Option<String> {
        self.device.as_ref().map(Device::name)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (shape, dtype) = (self.shape(py)?, self.dtype(py));
        let axes = self.axes(py)?.map_or(String::new(), |axes| format!(", axes={axes}"));
        Ok(format!("haloport.Layout({shape}, {:?}{axes})", dtype.bind(py).str()?.to_string()))
    }
}

impl Layout {
    pub(crate) fn chosen_device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// The layout of an array that is passed to a plan. Its type is the one of NumPy that the array names, or one with the
    /// same elements.
    pub(crate) fn of_array(array: &Bound<'_, PyAny>, spec: Spec, device: Option<Device>) -> PyResult<Layout> {
        let py = array.py();
        // That of an array of NumPy is read from its memory: a class derived from it may answer anything.
        let named = match array.cast::<PyUntypedArray>() {
            Ok(array) => Some(array.dtype().into_any()),
            Err(_) => array.getattr_opt("dtype")?,
        };
        let fits = |dtype: &Bound<'_, PyAny>| {
            dtype.is_instance_of::<PyArrayDescr>() && element_of(dtype).is_ok_and(|it| it == spec.element)
        };
        let dtype = match named.filter(fits) {
            Some(dtype) => dtype,
            None => {
                let name = match spec.element {
                    ElementType::Bytes(bytes) => format!("V{bytes}"),
                    ElementType::Bf16 => "V2".into(),
                    element => typestr::of(Protocol::Description, element).or_raise()?,
                };
                dtype_of(PyString::new(py, &name).as_any())?
            }
        };
        Ok(Layout { spec, dtype: std::sync::Arc::new(dtype.unbind()), device })
    }
}

impl Spec {
    /// The layout of an array.
    pub(crate) fn of_array(described: &Described, axes: Option<Vec<Axis>>) -> Spec {
        let array = &described.array;
        let (shape, strides) = (array.shape().to_vec(), array.strides().to_vec());
        Spec { shape, strides, element: array.element(), axes, origin: None }
    }

    /// The layout of the block of `cells`, and what arrays must be like.
    pub(crate) fn block(&self, cells: &Cells<'_>) -> Result<(BlockLayout, Vec<ExpectedAxis>), String> {
        let own = cells.owned.axes();
        let axes = self.axes(own, cells.mesh)?;
        let name = cells.name;
        let mut owned = cells.owned;
        let mut allocated = cells.with_halo;
        let mut strides = vec![1; own];
        let (mut blocks, mut components) = (None, (1, 1));
        let mut expected = Vec::with_capacity(axes.len());
        let bytes = self.element.bytes() as isize;
        let is_empty = allocated.is_empty();
        for (place, axis) in axes.iter().enumerate() {
            let (extent, stride) = (self.shape[place], self.strides[place] as i64);
            let mut or_more = false;
            // Sums of two such numbers fit.
            let signed = |number: usize| match i64::try_from(number) {
                Ok(signed) if signed < 1 << 60 => Ok(signed),
                _ => Err(format!("axis {place}{name}: expected a size that memory can hold, found {number}")),
            };
            match *axis {
                Axis::Own(axis) => {
                    strides[axis] = stride;
                    or_more = cells.mesh && self.origin.is_none() && !axes.contains(&Axis::Blocks);
                    let wanted = if is_empty { 0 } else { allocated.extent(axis) };
                    match &self.origin {
                        Some(_) if is_empty => {}
                        Some(origin) => {
                            let first = cells.owned.lower()[axis] - signed(origin[axis])?;
                            let past = first + signed(extent)?;
                            allocated = allocated.with_axis(axis, first, past);
                            if past < cells.owned.upper()[axis] {
                                return Err(format!(
                                    "axis {place}{name}: expected room for the cells {}, found extent {extent} with the \
                                     first owned cell at {}",
                                    cells.owned, origin[axis]
                                ));
                            }
                        }
                        None if axes.contains(&Axis::Blocks) => {}
                        None if extent < wanted || (extent > wanted && !or_more) => {
                            let more = if or_more { " or more" } else { "" };
                            return Err(format!(
                                "axis {place}{name}: expected extent {wanted}{more} (the cells with their halo), found \
                                 {extent}"
                            ));
                        }
                        None => {}
                    }
                }
                Axis::Blocks => blocks = Some((place, stride)),
                Axis::Levels => {
                    strides.push(stride);
                    let levels = signed(extent)?;
                    owned = owned.with_further_axis(0, levels);
                    allocated = allocated.with_further_axis(0, levels);
                }
                Axis::Components => components = (extent, stride),
            }
            // Of the cells alone, so that strides along single cells have no effect.
            let needed = if or_more && !is_empty { allocated.extent(0) } else { extent };
            // Along axes of one element it may be anything.
            let stride = self.strides[place].wrapping_mul(bytes);
            expected.push(ExpectedAxis { extent: needed, or_more, stride });
        }
        let (count, stride) = components;
        let made = match blocks {
            None => BlockLayout::new(owned, allocated, &strides, count, stride),
            Some((place, block_stride)) => {
                let within =
                    axes.iter().position(|axis| *axis == Axis::Own(0)).map_or(0, |place| self.shape[place]);
                let blocks = CellBlocks { cells: within, stride: block_stride };
                let needed = blocks.count(allocated.extent(0));
                if self.shape[place] < needed {
                    let found = self.shape[place];
                    return Err(format!(
                        "axis {place}{name}: expected {needed} blocks or more, found {found}"
                    ));
                }
                BlockLayout::blocked(owned, allocated, blocks, &strides, count, stride)
            }
        };
        made.map(|layout| (layout, expected)).map_err(|error| error.to_string())
    }

    /// What each axis is.
    fn axes(&self, own: usize, mesh: bool) -> Result<Vec<Axis>, String> {
        let found = self.shape.len();
        if let Some(origin) = &self.origin {
            if mesh {
                return Err("origin: expected none on a mesh, whose cells have no sides".into());
            }
            if origin.len() != own {
                return Err(format!(
                    "origin: expected an index for each of {own} axes, found {}",
                    origin.len()
                ));
            }
        }
        let Some(axes) = &self.axes else {
            if found < own {
                return Err(format!("the number of axes: expected {own} or more, found {found}"));
            }
            // Components are one more axis than a field can have otherwise.
            let rest = |place| if place < MAX_AXES { Axis::Levels } else { Axis::Components };
            return Ok((0..found)
                .map(|place| if place < own { Axis::Own(place) } else { rest(place) })
                .collect());
        };
        if axes.len() != found {
            return Err(format!(
                "axes: expected one for each of {found} axes of the array, found {}",
                axes.len()
            ));
        }
        for axis in 0..own {
            let count = axes.iter().filter(|it| **it == Axis::Own(axis)).count();
            if count != 1 {
                let what = if mesh { "\"cells\"".to_string() } else { format!("axis {axis} of the grid") };
                return Err(format!("axes: expected {what} once, found it {count} times"));
            }
        }
        for axis in axes {
            match axis {
                Axis::Own(axis) if *axis >= own => {
                    return Err(format!(
                        "axes: expected axes of the grid from 0 to {}, found {axis}",
                        own - 1
                    ));
                }
                Axis::Blocks if !mesh => return Err("axes: expected no \"blocks\" on a grid".into()),
                _ => {}
            }
        }
        for (single, name) in [(Axis::Blocks, "blocks"), (Axis::Components, "components")] {
            let count = axes.iter().filter(|it| **it == single).count();
            if count > 1 {
                return Err(format!("axes: expected {name:?} once at most, found it {count} times"));
            }
        }
        Ok(axes.clone())
    }
}

/// The argument `axes` of a call.
pub(crate) fn axes_of(axes: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<Axis>>> {
    let Some(axes) = axes else { return Ok(None) };
    let mut found = Vec::new();
    for axis in entries(axes, "axes", "a sequence of numbers and names, one for each axis")? {
        if found.len() == MAX_ARRAY_AXES {
            return Err(PyValueError::new_err(format!(
                "axes: expected one for each of at most {MAX_ARRAY_AXES} axes, found more"
            )));
        }
        found.push(Axis::of(&axis?)?);
    }
    Ok(Some(found))
}

impl Axis {
    fn of(axis: &Bound<'_, PyAny>) -> PyResult<Axis> {
        let Ok(name) = axis.cast::<PyString>() else {
            return number(axis, "axes", "the number of an axis, or its name").map(Axis::Own);
        };
        let name: String = name.extract()?;
        match name.as_str() {
            "cells" => Ok(Axis::Own(0)),
            "blocks" => Ok(Axis::Blocks),
            "levels" => Ok(Axis::Levels),
            "components" => Ok(Axis::Components),
            _ => Err(PyValueError::new_err(format!(
                "axes: expected a number, \"cells\", \"blocks\", \"levels\" or \"components\", found {name:?}"
            ))),
        }
    }

    fn to_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let name = match self {
            Axis::Own(axis) => return Ok(axis.into_pyobject(py)?.into_any().unbind()),
            Axis::Blocks => "blocks",
            Axis::Levels => "levels",
            Axis::Components => "components",
        };
        Ok(PyString::new(py, name).into_any().unbind())
    }
}

/// The strides of C order in elements.
fn contiguous(shape: &[usize]) -> PyResult<Vec<isize>> {
    let mut strides = vec![1; shape.len()];
    let mut stride: isize = 1;
    for (place, &extent) in shape.iter().enumerate().rev() {
        strides[place] = stride;
        let next = isize::try_from(extent.max(1)).ok().and_then(|extent| stride.checked_mul(extent));
        stride =
            next.ok_or_else(|| PyValueError::new_err(format!("shape: {shape:?} is too large for memory")))?;
    }
    Ok(strides)
}
