//! Arrays in memory of Haloport.

use std::ffi::CStr;
use std::sync::Arc;

use haloport::device::Pointer;
use haloport::field::BlockLayout;
use haloport::interop::cuda_array::CudaArrayInterface;
use haloport::interop::dlpack::{DLDevice, Form, ManagedTensor, OwnedTensor};
use haloport::interop::stream::StreamOrder;
use haloport::interop::{ArrayDescription, ArrayDevice, Protocol, typestr};
use haloport::{AnyDevice, AnyField, ElementType, Pattern};
use haloport_core::device::Device as _;
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyDict, PyTuple};

use crate::arguments::{number, pair, shown};
use crate::arrays::described::Described;
use crate::arrays::described::Place;
use crate::arrays::element::{dtype_of, element_of};
use crate::device::Device;
use crate::error::OrRaise;
use crate::order::Order;
use crate::process::{self, Held};

/// An array in memory of Haloport, of zeros at first: what `empty` of a grid or a mesh returns on devices other than the
/// CPU. It can be passed to plans, and to other packages: by DLPack, by ``__cuda_array_interface__`` on CUDA, by
/// ``__sycl_usm_array_interface__`` if the device was made from a queue of SYCL, and by ``__array_interface__`` if the
/// host reaches it.
#[pyclass(frozen, module = "haloport")]
#[derive(Debug)]
pub(crate) struct Array {
    field: Arc<Held<AnyField<AnyDevice>>>,
    domain: usize,
    device: Device,
    dtype: Py<PyAny>,
    description: ArrayDescription,
    host_accessible: bool,
}

#[pymethods]
impl Array {
    /// The extent of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.description.shape())
    }

    /// The type of an element.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.clone_ref(py)
    }

    /// The distance in bytes between neighbours along each axis.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let bytes = self.description.element().bytes() as isize;
        PyTuple::new(py, self.description.strides().iter().map(|stride| stride * bytes))
    }

    /// The device of the memory.
    #[getter]
    fn device(&self) -> Device {
        self.device.clone()
    }

    /// A copy of the elements as an array of NumPy. Blocks until the work that is in the stream is done, and the copy after
    /// it.
    ///
    /// Parameters
    /// ----------
    /// stream : stream-like, optional
    ///     As for a plan; by default the current stream of the device.
    #[pyo3(signature = (*, stream=None))]
    fn to_numpy<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bytes = self.to_bytes(py, stream)?;
        let numpy = py.import("numpy")?;
        let options = PyDict::new(py);
        options.set_item("dtype", &self.dtype)?;
        let flat = numpy.call_method("frombuffer", (PyBytes::new(py, &bytes),), Some(&options))?;
        flat.call_method1("reshape", (self.shape(py)?,))?.call_method0("copy")
    }

    /// Copies the elements of an array of NumPy, or of an object that NumPy makes into one, into this array. Blocks
    /// until the work that is in the stream is done, and the copy after it.
    ///
    /// Parameters
    /// ----------
    /// array : array-like
    ///     Of this shape, of a dtype that is converted to this one.
    /// stream : stream-like, optional
    ///     As for a plan; by default the current stream of the device.
    #[pyo3(signature = (array, *, stream=None))]
    fn copy_from(
        slf: &Bound<'_, Self>,
        array: &Bound<'_, PyAny>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let options = PyDict::new(py);
        options.set_item("dtype", &this.dtype)?;
        let source = py.import("numpy")?.call_method("ascontiguousarray", (array,), Some(&options))?;
        let (expected, found) = (this.shape(py)?, source.getattr("shape")?);
        if !found.eq(&expected)? {
            return Err(PyValueError::new_err(format!(
                "array: expected the shape {expected}, found {found}"
            )));
        }
        let bytes: Vec<u8> = source.call_method0("tobytes")?.extract()?;
        this.set_bytes(py, &bytes, stream)
    }

    /// Shares the array by DLPack.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<&Bound<'_, PyAny>>,
        dl_device: Option<&Bound<'_, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let numbers = |value: Option<&Bound<'_, PyAny>>, name: &str| {
            value.map(|value| two_numbers(value, name)).transpose()
        };
        let dl_device = numbers(dl_device, "dl_device")?;
        // Versions beyond the type are later ones.
        let version = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
        let max_version =
            numbers(max_version, "max_version")?.map(|(major, minor)| (version(major), version(minor)));
        let own = self.__dlpack_device__()?;
        let own = (i64::from(own.0), i64::from(own.1));
        if dl_device.is_some_and(|wanted| wanted != own) || copy == Some(true) {
            return Err(PyBufferError::new_err(
                "DLPack: expected to share the memory where it is, found a wish for a copy; copy it with `to_numpy`",
            ));
        }
        let kind = self.description.device().kind;
        let expected = "None or a number; order streams with haloport.Event";
        let number = stream.map(|stream| number(stream, "`stream` of DLPack", expected)).transpose()?;
        self.order_before(py, StreamOrder::from_dlpack(kind, number).or_raise()?)?;
        let form = Form::for_consumer(max_version);
        let tensor =
            OwnedTensor::export(self.description.clone(), form, Arc::clone(&self.field)).or_raise()?;
        capsule(py, tensor.into_raw())
    }

    /// The type and the number of the device, as DLPack has them.
    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        let device = DLDevice::of(self.description.device()).or_raise()?;
        Ok((device.device_type, device.device_id))
    }

    /// The members of the array for packages that work on the host.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if !self.host_accessible {
            return Err(PyAttributeError::new_err(format!(
                "the memory of {} is not the host's; copy it with `to_numpy`",
                self.device.name()
            )));
        }
        let members = self.members(py)?;
        members.set_item("version", 3)?;
        members.set_item("strides", self.strides(py)?)?;
        Ok(members)
    }

    /// Refuses a copy by `numpy.asarray` of memory that the host does not reach.
    #[pyo3(signature = (*_options, **_named))]
    fn __array__(
        &self,
        _options: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        Err(PyTypeError::new_err(format!(
            "expected memory of the host, found that of {}; copy it with `to_numpy`",
            self.device.name()
        )))
    }

    /// The members of the array for packages that work on CUDA.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if !matches!(self.device.any, AnyDevice::Cuda(_)) {
            return Err(PyAttributeError::new_err("the array is not in memory of CUDA"));
        }
        let cuda = CudaArrayInterface::of(&self.description, StreamOrder::Default).or_raise()?;
        let members = self.members(py)?;
        members.set_item("version", 3)?;
        members.set_item("strides", self.strides(py)?)?;
        members.set_item("stream", cuda.stream)?;
        Ok(members)
    }

    /// The members of the array for packages that work on SYCL.
    #[getter]
    fn __sycl_usm_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(queue) = self.device.queue() else {
            return Err(PyAttributeError::new_err(
                "the array is in no memory of SYCL that a queue names; make the device from a queue: \
                 haloport.Device(queue)",
            ));
        };
        // The interface has no stream: its consumer may use any.
        self.order_before(py, StreamOrder::Unordered)?;
        self.device.synchronize(py)?;
        let members = self.members(py)?;
        members.set_item("version", 1)?;
        members.set_item("strides", self.description.strides())?;
        members.set_item("offset", 0)?;
        members.set_item("syclobj", queue)?;
        Ok(members)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let dtype = self.dtype.bind(py).str()?.to_string();
        Ok(format!("<haloport.Array: shape {}, {dtype}, {}>", self.shape(py)?, self.device.name()))
    }
}

impl Array {
    /// Arrays of zeros for the domains of `pattern`, of NumPy on the CPU, with further axes of these extents.
    pub(crate) fn of_pattern(
        py: Python<'_>,
        pattern: &Pattern,
        device: &Device,
        dtype: &Bound<'_, PyAny>,
        further: &[usize],
    ) -> PyResult<Vec<Py<PyAny>>> {
        let dtype = dtype_of(dtype)?;
        let element = element_of(&dtype)?;
        let field = py.detach(|| device.field(pattern, element, further))?;
        let field = Arc::new(Held::new(field));
        (0..pattern.domain_count())
            .map(|domain| {
                let array = Array::of_block(&field, domain, device, element, &dtype)?;
                let is_numpy = device.is_cpu();
                let made = Bound::new(py, array)?.into_any();
                Ok(if is_numpy { as_numpy(&made, &dtype)? } else { made }.unbind())
            })
            .collect()
    }

    /// The bytes of all elements, as `to_numpy` copies them.
    pub(crate) fn to_bytes(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<u8>> {
        self.wait_for(py, stream)?;
        let field = self.field.get()?;
        py.detach(|| field.to_bytes(self.domain)).or_raise()
    }

    /// Sets all elements, as `copy_from` does; `bytes` are as many as the array has.
    pub(crate) fn set_bytes(
        &self,
        py: Python<'_>,
        bytes: &[u8],
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.wait_for(py, stream)?;
        // Another handle to the same memory: `copy_from_bytes` takes an exclusive one.
        // SAFETY: no exchange of this field is in flight: the handle refuses to be written then; work in streams is
        // ordered by the default stream, as the method says.
        let mut target = unsafe { self.field.get()?.share() };
        py.detach(|| target.copy_from_bytes(self.domain, bytes)).or_raise()
    }

    /// Waits for the work in a stream of the device; the default stream orders the copy that follows itself.
    fn wait_for(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        process::check()?;
        let order = Order::of(py, stream, std::slice::from_ref(&self.device))?;
        match order {
            Order::On(_) => {
                py.detach(|| self.device.any.synchronize(&order.stream(&self.device.any))).or_raise()
            }
            Order::Default | Order::Block => Ok(()),
        }
    }

    fn of_block(
        field: &Arc<Held<AnyField<AnyDevice>>>,
        domain: usize,
        device: &Device,
        element: ElementType,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<Array> {
        let own = field.get()?;
        let (first, layout) = (own.pointer(domain).or_raise()?, own.layout(domain).or_raise()?.clone());
        let cells = layout.allocated();
        let shape: Vec<i64> = (0..cells.axes()).map(|axis| cells.extent(axis) as i64).collect();
        let index = device.id().index;
        let place = match device.is_cpu() {
            true => ArrayDevice::HOST,
            false => ArrayDevice { kind: device.array_kind(), index: Some(index) },
        };
        let strides = layout.strides().to_vec();
        let description = ArrayDescription::new(element, first, &shape, &strides, place).or_raise()?;
        let host_accessible = device.is_cpu() || device.any.info().host_accessible;
        let dtype = dtype.clone().unbind();
        Ok(Array {
            field: Arc::clone(field),
            domain,
            device: device.clone(),
            dtype,
            description,
            host_accessible,
        })
    }

    pub(crate) fn described(&self) -> PyResult<Described> {
        self.field.get()?;
        let place = if self.device.is_cpu() { Place::Host } else { Place::Own(self.device.id()) };
        Ok(Described { array: self.description.clone(), place, keep: None })
    }

    pub(crate) fn own_device(&self) -> &Device {
        &self.device
    }

    /// The array of Haloport whose memory, all of it and in the same layout, an object shows; `None` for others.
    pub(crate) fn behind<'py>(
        object: &Bound<'py, PyAny>,
        shown: &ArrayDescription,
    ) -> PyResult<Option<Bound<'py, Array>>> {
        let mut current = object.clone();
        // NumPy keeps chains of views short.
        for _ in 0..8 {
            if let Ok(array) = current.cast::<Array>() {
                let whole = &array.get().description;
                let same = whole.first() == shown.first()
                    && whole.shape() == shown.shape()
                    && whole.strides() == shown.strides()
                    && whole.element().bytes() == shown.element().bytes();
                return Ok(same.then(|| array.clone()));
            }
            match current.getattr_opt("base")? {
                Some(base) if !base.is_none() => current = base,
                _ => break,
            }
        }
        Ok(None)
    }

    /// The number of the domain, and whether `other` is another domain of the same field.
    pub(crate) fn is_of_same_field(&self, other: &Array) -> bool {
        Arc::ptr_eq(&self.field, &other.field)
    }

    pub(crate) fn domain(&self) -> usize {
        self.domain
    }

    pub(crate) fn element(&self) -> ElementType {
        self.description.element()
    }

    /// Whether its block has this layout.
    pub(crate) fn has_layout(&self, layout: &BlockLayout) -> bool {
        let Ok(field) = self.field.get() else { return false };
        field.layout(self.domain).is_ok_and(|own| own == layout)
    }

    /// Another field over the same memory, for an exchange; its first components point along the axes `vector`.
    ///
    /// # Safety
    /// As for [`haloport::AnyField::share`].
    pub(crate) unsafe fn share(&self, vector: &[usize]) -> PyResult<AnyField<AnyDevice>> {
        // SAFETY: the caller's promise.
        unsafe { self.field.get()?.share() }.with_vector(vector).or_raise()
    }

    /// The members that the interfaces have in common.
    fn members<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let element = self.description.element();
        let typestr = match typestr::of(Protocol::Description, element) {
            Ok(text) => text,
            Err(_) => format!("|V{}", element.bytes()),
        };
        let members = PyDict::new(py);
        members.set_item("shape", self.shape(py)?)?;
        members.set_item("typestr", typestr)?;
        members.set_item("data", (self.description.first().as_ptr().expose_provenance(), false))?;
        Ok(members)
    }

    /// Lets a consumer's stream wait for the default stream, in which the last work on the array may be.
    fn order_before(&self, py: Python<'_>, consumer: StreamOrder) -> PyResult<()> {
        match consumer {
            // The same stream, or none: exchanges that were finished have been ordered by their caller.
            StreamOrder::Default | StreamOrder::Unordered => Ok(()),
            _ => self.device.synchronize(py),
        }
    }
}

/// An array of Haloport that the host reaches, as one of NumPy, which keeps it alive.
fn as_numpy<'py>(array: &Bound<'py, PyAny>, dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let shown = array.py().import("numpy")?.call_method1("asarray", (array,))?;
    match shown.getattr("dtype")?.eq(dtype)? {
        true => Ok(shown),
        false => shown.call_method1("view", (dtype,)),
    }
}

/// The two numbers of an argument, such as a version.
fn two_numbers(value: &Bound<'_, PyAny>, name: &str) -> PyResult<(i64, i64)> {
    const EXPECTED: &str = "two whole numbers";
    let Some([one, other]) = pair(value)? else {
        return Err(PyTypeError::new_err(format!("{name}: expected {EXPECTED}, found {}", shown(value))));
    };
    Ok((number(&one, name, EXPECTED)?, number(&other, name, EXPECTED)?))
}

/// A capsule that owns the tensor.
fn capsule(py: Python<'_>, tensor: ManagedTensor) -> PyResult<Py<PyAny>> {
    unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
        // SAFETY: Python calls this once, with a capsule that was made below. A used one has another name.
        unsafe {
            for name in [c"dltensor", c"dltensor_versioned"] {
                if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) == 1 {
                    let pointer = ffi::PyCapsule_GetPointer(capsule, name.as_ptr());
                    if let Ok(tensor) = ManagedTensor::from_capsule(name, pointer) {
                        tensor.delete();
                    }
                }
            }
        }
    }
    let name: &'static CStr = tensor.capsule_name();
    let pointer = match tensor {
        ManagedTensor::Unversioned(pointer) => pointer.as_ptr().cast(),
        ManagedTensor::Versioned(pointer) => pointer.as_ptr().cast(),
    };
    // SAFETY: the pointer is not null, the name is static, and the destructor frees the tensor unless it was taken.
    let made = unsafe {
        Bound::from_owned_ptr_or_opt(py, ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destroy)))
    };
    made.map(Bound::unbind).ok_or_else(|| {
        // SAFETY: nothing else has the tensor.
        unsafe { tensor.delete() };
        PyErr::take(py).unwrap_or_else(|| PyMemoryError::new_err("a capsule could not be made"))
    })
}

/// The address of an array's first element as other modules see it.
pub(crate) fn address(pointer: Pointer) -> usize {
    pointer.as_ptr().expose_provenance()
}
