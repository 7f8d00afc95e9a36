//! Devices, and what is done with a device of any backend.

use std::sync::Arc;

use haloport::cpu::threads_asked_for;
use haloport::device::{DeviceId, DeviceSpec, MemoryKind, Pointer};
use haloport::exchange::FieldLayout;
use haloport::field::BlockLayout;
use haloport::interop::ArrayDeviceKind;
use haloport::{AnyDevice, AnyField, ElementType, Pattern};
use haloport_core::device::Device as CoreDevice;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::arguments::type_name;
use crate::arrays::sycl_owner::queue_of;
use crate::comm::Communicator;
use crate::error::OrRaise;
use crate::process;

/// A device. Devices are values: they can be compared, copied, hashed and pickled, by their names.
///
/// Parameters
/// ----------
/// name : str or dpctl.SyclQueue
///     ``"auto"``, ``"cpu"``, ``"cpu:threads=4"``, ``"cuda:0"``, ``"sycl:gpu:0"`` or the like; or a queue of SYCL, whose
///     device and context it then is.
///
/// Raises
/// ------
/// ValueError
///     If the name is not that of a device.
/// ExchangeError
///     If there is no such device; the text says what was looked for.
#[pyclass(frozen, module = "haloport")]
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) any: AnyDevice,
    /// The queue of SYCL that it was made from.
    queue: Option<Arc<Py<PyAny>>>,
}

#[pymethods]
impl Device {
    #[new]
    #[pyo3(signature = (name=None), text_signature = "(name='auto')")]
    fn py_new(name: Option<&Bound<'_, PyAny>>) -> PyResult<Device> {
        match name {
            None => Device::named("auto"),
            Some(name) => Device::of(name),
        }
    }

    /// The name, such as ``"cuda:0"``.
    #[getter]
    pub(crate) fn name(&self) -> String {
        self.any.info().id.to_string()
    }

    /// The backend: ``"cpu"``, ``"cuda"``, ``"sycl"``, or ``"level_zero"`` for such a device by SYCL.
    #[getter]
    fn backend(&self) -> &'static str {
        self.any.backend()
    }

    /// The name that the maker of the device gives it.
    #[getter]
    fn description(&self) -> String {
        self.any.info().name.clone()
    }

    /// Whether work goes on after a call has returned.
    #[getter]
    fn asynchronous(&self) -> bool {
        self.any.info().asynchronous
    }

    /// Whether the host can read and write the memory that the device allocates by default.
    #[getter]
    fn host_accessible(&self) -> bool {
        self.any.info().host_accessible
    }

    /// Waits until all work of the device is done.
    pub(crate) fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        process::check()?;
        py.detach(|| self.any.synchronize_all()).or_raise()
    }

    fn __repr__(&self) -> String {
        format!("<haloport.Device: {}, {}>", self.name(), self.description())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Device>().is_ok_and(|other| other.get().any.info().id == self.any.info().id)
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.any.info().id.hash(&mut hasher);
        hasher.finish()
    }

    /// A copy is the device itself, which does not change.
    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    /// The argument that makes it again, for ``pickle``. The process that reads it may be on another machine.
    fn __getnewargs__(&self) -> PyResult<(String,)> {
        if let AnyDevice::Cpu(cpu) = &self.any {
            return Ok((format!("cpu:threads={}", cpu.threads()),));
        }
        if self.queue.is_some() || self.id().context > 0 {
            return Err(PyTypeError::new_err(format!(
                "expected a device that its name opens, found {} in a context of SYCL, which cannot be pickled; pass the \
                 name of a device",
                self.name()
            )));
        }
        Ok((self.name(),))
    }
}

/// The devices of this machine, those of the CPU first. Loads the drivers of CUDA and OpenCL if they are installed.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<Device>> {
    process::begin_use()?;
    py.detach(|| {
        let reports = haloport::device::backends();
        let infos = reports.iter().flat_map(|report| &report.devices);
        let mut found: Vec<Device> =
            infos.map(|info| Device::named(&info.id.to_string())).collect::<PyResult<_>>()?;
        found.sort_by_key(|device| device.backend() != "cpu");
        Ok(found)
    })
}

impl Device {
    /// The device that the argument `device` of a call means.
    pub(crate) fn of(device: &Bound<'_, PyAny>) -> PyResult<Device> {
        if let Ok(device) = device.cast::<Device>() {
            return Ok(device.get().clone());
        }
        if let Some(queue) = queue_of(device)? {
            process::begin_use()?;
            let any = queue.device()?.into();
            return Ok(Device { any, queue: Some(Arc::new(device.clone().unbind())) });
        }
        let name: String = device.extract().map_err(|_| {
            let found = type_name(device);
            PyTypeError::new_err(format!(
                "device: expected a haloport.Device, its name or a SyclQueue, found {found}"
            ))
        })?;
        Device::named(&name)
    }

    fn named(name: &str) -> PyResult<Device> {
        process::begin_use()?;
        let spec: DeviceSpec = name.parse().or_raise()?;
        let spec = spec.or_threads(threads_asked_for().unwrap_or(1));
        Ok(Device { any: spec.open().or_raise()?, queue: None })
    }

    /// The CPU, with one thread.
    pub(crate) fn plain_cpu() -> PyResult<Device> {
        Device::named("cpu")
    }

    /// The CPU as a rank uses it.
    pub(crate) fn cpu(comm: &Communicator) -> PyResult<Device> {
        Ok(Device { any: comm.cpu()?.into(), queue: None })
    }

    pub(crate) fn queue(&self) -> Option<&Py<PyAny>> {
        self.queue.as_deref()
    }

    pub(crate) fn of_any(any: AnyDevice) -> Device {
        Device { any, queue: None }
    }

    pub(crate) fn is_cpu(&self) -> bool {
        matches!(self.any, AnyDevice::Cpu(_))
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.any.info().id
    }

    /// The layout of a field on this device.
    pub(crate) fn field_layout(
        &self,
        element: ElementType,
        vector: &[usize],
        blocks: Vec<BlockLayout>,
    ) -> PyResult<FieldLayout> {
        FieldLayout::new(&self.any, element, blocks).with_vector(vector).or_raise()
    }

    /// A field in memory that `owner` keeps alive.
    ///
    /// # Safety
    /// As for [`AnyField::from_raw`], on this device.
    pub(crate) unsafe fn field_at(
        &self,
        element: ElementType,
        vector: &[usize],
        blocks: Vec<(Pointer, BlockLayout)>,
        host_accessible: bool,
        owner: Box<dyn std::any::Any + Send + Sync>,
    ) -> PyResult<AnyField<AnyDevice>> {
        // SAFETY: the caller's promise.
        let field = unsafe { AnyField::from_raw(&self.any, element, blocks, host_accessible, owner) };
        field.with_vector(vector).or_raise()
    }

    /// As [`field_at`](Device::field_at), in memory of which neighbours may map pages if it is the host's.
    ///
    /// # Safety
    /// As for [`AnyField::from_raw_movable`], on this device.
    pub(crate) unsafe fn movable_field_at(
        &self,
        element: ElementType,
        vector: &[usize],
        blocks: Vec<(Pointer, BlockLayout)>,
        host_accessible: bool,
        owner: Box<dyn std::any::Any + Send + Sync>,
    ) -> PyResult<AnyField<AnyDevice>> {
        // SAFETY: the caller's promise.
        let field = unsafe { AnyField::from_raw_movable(&self.any, element, blocks, host_accessible, owner) };
        field.with_vector(vector).or_raise()
    }

    /// A field of zeros for the domains of `pattern`, with these extents of further axes. On the CPU, neighbours on this
    /// node can map it.
    pub(crate) fn field(
        &self,
        pattern: &Pattern,
        element: ElementType,
        further_axes: &[usize],
    ) -> PyResult<AnyField<AnyDevice>> {
        let builder = AnyField::builder(pattern).further_axes(further_axes).memory(MemoryKind::Device);
        builder.build_any(&self.any, element).or_raise()
    }

    /// The kind of array memory that this device allocates.
    pub(crate) fn array_kind(&self) -> ArrayDeviceKind {
        match self.any {
            AnyDevice::Cpu(_) => ArrayDeviceKind::Host,
            AnyDevice::Cuda(_) => ArrayDeviceKind::Cuda,
            AnyDevice::Sycl(_) => ArrayDeviceKind::Usm,
        }
    }
}
