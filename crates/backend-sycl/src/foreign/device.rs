//! Devices in contexts of other programs: SYCL programs, and programs that use OpenCL.

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

use cl3::command_queue::{CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE, get_command_queue_info};
use cl3::context::{CL_CONTEXT_DEVICES, get_context_info};
use haloport_core::device::{DeviceError, DeviceInfo};
use haloport_core::element::{Element, ElementType};
use haloport_core::interop::ArrayDescription;
use haloport_core::{AnyField, BlockLayout, Field, FieldError};

use crate::SyclDevice;
use crate::driver::{Place, Queue};
use crate::libsycl::{self, native, place};
use crate::opencl::handles::{Context, QueueHandle};
use crate::opencl::library::{ANY, failed, library};
use crate::opencl::select::{Candidate, candidate_of};
use crate::opencl::{self, queue};
use crate::opened::Opened;
use crate::stream::SyclStream;

/// To use memory and queues of another program, open the device in that program's context: another context of the same
/// device is another device, with an [identity](haloport_core::device::DeviceId) of its own. Contexts and queues stay
/// alive as long as they are used here.
impl SyclDevice {
    /// The device of a `cl_command_queue` of another program, in the context of that queue, and the queue as a stream.
    ///
    /// The queue may be out of order. Work in the stream then waits for all earlier commands of the queue, and all
    /// later commands wait for it: an exchange that is started and finished [on](haloport_core::Schedule::On) the
    /// stream reads what earlier commands have written, and ends with a barrier in the queue, so that the next command
    /// of either program sees the halos. The host does not wait for that.
    ///
    /// # Safety
    /// `queue` is a live `cl_command_queue` of the process's OpenCL library.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if `queue` is null; [`DeviceError::NotFound`] if Haloport cannot use the
    /// device; [`DeviceError::Driver`].
    pub unsafe fn from_queue(queue: usize) -> Result<(SyclDevice, SyclStream), DeviceError> {
        let raw = not_null(queue, "the handle of a queue", "a `cl_command_queue`")?;
        library()?;
        // SAFETY: the caller's promise.
        let queue = unsafe { QueueHandle::retain(raw) }.map_err(failed("clRetainCommandQueue", ANY))?;
        SyclDevice::of_queue(queue)
    }

    /// The device of a `cl_context` of another program, in that context. `device` is a `cl_device_id` of the context,
    /// and may be `None` if the context has one device.
    ///
    /// # Safety
    /// `context` is a live `cl_context` of the process's OpenCL library.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if `context` is null, if `device` is of another context, and if it is `None`
    /// for a context of several devices; [`DeviceError::NotFound`] if Haloport cannot use the device;
    /// [`DeviceError::Driver`].
    pub unsafe fn from_context(context: usize, device: Option<usize>) -> Result<SyclDevice, DeviceError> {
        let raw = not_null(context, "the handle of a context", "a `cl_context`")?;
        library()?;
        // SAFETY: the caller's promise.
        let context = unsafe { Context::retain(raw) }.map_err(failed("clRetainContext", ANY))?;
        SyclDevice::in_context(context, device)
    }

    /// The properties of all devices of a backend of SYCL, such as `level_zero`, through SYCL, in the order of their numbers:
    /// [`select`](SyclDevice::select) opens `level_zero:0`, and so on. Opens none of them, but loads SYCL's library.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] if there is none, or if SYCL's library or Haloport's for it is missing.
    pub fn list_of_sycl(backend: &'static str) -> Result<Vec<DeviceInfo>, DeviceError> {
        place::list(backend)
    }

    /// Like [`from_queue`](SyclDevice::from_queue), for a `sycl::queue`, such as those in the `SyclQueueRef` capsules of
    /// Python packages.
    ///
    /// For SYCL's OpenCL backend, the stream is the OpenCL queue behind it. Work in the stream is then not ordered with
    /// commands that SYCL still holds back on the host, as it does behind host tasks and accessors of buffers: they are
    /// not yet in that queue. For other backends, such as Level Zero, each command goes through SYCL, which needs
    /// Haloport's library for that version of libsycl.
    ///
    /// # Safety
    /// `queue` is the address of a live `sycl::queue` of the SYCL library that this process has loaded.
    ///
    /// # Errors
    /// As for `from_queue`; [`DeviceError::NotFound`] if the process has not loaded a known SYCL library, or if
    /// Haloport's library for it is missing.
    pub unsafe fn from_sycl_queue(queue: usize) -> Result<(SyclDevice, SyclStream), DeviceError> {
        let raw = not_null(queue, "the address of a queue", "that of a `sycl::queue`")?;
        // SAFETY: the caller's promise.
        if let Some(queue) = unsafe { native::queue(raw) }? {
            return SyclDevice::of_queue(queue);
        }
        // SAFETY: the caller's promise.
        let device = SyclDevice::of_found(unsafe { place::Found::of_queue(raw) }?)?;
        // SAFETY: the caller's promise.
        let stream = unsafe { device.borrow_sycl_queue(queue) }?;
        Ok((device, stream))
    }

    /// As [`borrow_stream`](haloport_core::device::Device::borrow_stream), for a `sycl::queue` of this device's context, as
    /// for [`from_sycl_queue`](SyclDevice::from_sycl_queue). The queue stays alive as long as the stream.
    ///
    /// # Safety
    /// As for `from_sycl_queue`.
    ///
    /// # Errors
    /// As there, and [`DeviceError::InvalidArgument`] if the queue is of another context or device.
    pub unsafe fn borrow_sycl_queue(&self, queue: usize) -> Result<SyclStream, DeviceError> {
        let raw = not_null(queue, "the address of a queue", "that of a `sycl::queue`")?;
        let opened = self.opened();
        // SAFETY: the caller's promise.
        let queue = match (&opened.place, unsafe { native::queue(raw) }?) {
            (Place::OpenCl(place), Some(queue)) => Queue::OpenCl(queue::Queue::foreign(place, queue)?),
            (Place::OpenCl(place), None) => {
                let expected = format!("a queue of SYCL's OpenCL backend, in {}", place.name());
                return Err(DeviceError::invalid("a `sycl::queue`", expected, "one of another backend"));
            }
            (Place::Sycl(place), _) => {
                // SAFETY: the caller's promise.
                Queue::Sycl(unsafe { libsycl::queue::Queue::foreign(place, queue, false) }?)
            }
        };
        Ok(SyclStream::with_queue(opened, queue))
    }

    /// Like [`from_context`](SyclDevice::from_context), for a `sycl::context`, such as those in the `SyclContextRef`
    /// capsules of Python packages. `device` is for SYCL's OpenCL backend.
    ///
    /// # Safety
    /// `context` is the address of a live `sycl::context` of the SYCL library that this process has loaded.
    ///
    /// # Errors
    /// As for `from_context`, and as for [`from_sycl_queue`](SyclDevice::from_sycl_queue).
    pub unsafe fn from_sycl_context(
        context: usize,
        device: Option<usize>,
    ) -> Result<SyclDevice, DeviceError> {
        let raw = not_null(context, "the address of a context", "that of a `sycl::context`")?;
        // SAFETY: the caller's promise.
        match unsafe { native::context(raw) }? {
            Some(context) => SyclDevice::in_context(context, device),
            // SAFETY: the caller's promise.
            None => SyclDevice::of_found(unsafe { place::Found::of_context(raw) }?),
        }
    }

    /// A field in arrays of another program in unified shared memory: see [`Field::in_arrays`]. The memory must belong
    /// to the context of this device, which is checked; the host may use it if it is not device memory.
    ///
    /// # Errors
    /// As for [`Field::in_arrays`], and [`FieldError::Device`] with the error of
    /// [`allocation_of`](SyclDevice::allocation_of).
    ///
    /// # Safety
    /// As for [`Field::in_arrays`], except that the device can reach the memory, which is checked here.
    pub unsafe fn field_in_arrays<T: Element>(
        &self,
        blocks: Vec<(ArrayDescription, BlockLayout)>,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Field<T, SyclDevice>, FieldError> {
        let host_accessible = self.check_arrays(&blocks)?;
        // SAFETY: the caller's promise; the memory is of the device's context.
        unsafe { Field::in_arrays(self, blocks, host_accessible, owner) }
    }

    /// As [`field_in_arrays`](SyclDevice::field_in_arrays), with elements of a type known at run time.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn any_field_in_arrays(
        &self,
        element: ElementType,
        blocks: Vec<(ArrayDescription, BlockLayout)>,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<AnyField<SyclDevice>, FieldError> {
        let host_accessible = self.check_arrays(&blocks)?;
        // SAFETY: the caller's promise; the memory is of the device's context.
        unsafe { AnyField::in_arrays(self, element, blocks, host_accessible, owner) }
    }

    /// Checks that the arrays are in the device's context; returns whether the host reaches all of them.
    fn check_arrays(&self, blocks: &[(ArrayDescription, BlockLayout)]) -> Result<bool, DeviceError> {
        let mut host_accessible = true;
        for (array, _) in blocks {
            if let Some(allocation) = self.allocation_of(array)? {
                host_accessible &= allocation.host_accessible();
            }
        }
        Ok(host_accessible)
    }

    fn of_queue(queue: QueueHandle) -> Result<(SyclDevice, SyclStream), DeviceError> {
        let handle = |name| {
            let found =
                get_command_queue_info(queue.raw(), name).map_err(failed("clGetCommandQueueInfo", ANY));
            found.map(|handle| isize::from(handle) as *mut c_void)
        };
        let (context, device) = (handle(CL_QUEUE_CONTEXT)?, handle(CL_QUEUE_DEVICE)?);
        // SAFETY: a live queue keeps its context alive.
        let context = unsafe { Context::retain(context) }.map_err(failed("clRetainContext", ANY))?;
        let device = SyclDevice::of_candidate(candidate_of(device)?, context)?;
        let opened = device.opened();
        let Place::OpenCl(place) = &opened.place else {
            return Err(DeviceError::invalid("the device of a queue", "one of OpenCL", "one of SYCL"));
        };
        let stream = SyclStream::with_queue(opened, Queue::OpenCl(queue::Queue::foreign(place, queue)?));
        Ok((device, stream))
    }

    /// The device in a context of another program; the open one, if it is open there.
    fn of_candidate(candidate: Candidate, context: Context) -> Result<SyclDevice, DeviceError> {
        let native = (context.raw().addr(), candidate.device.id().addr());
        let known = |place: &Place| matches!(place, Place::OpenCl(place) if place.native() == native);
        let opened = Opened::find_or(known, |number| {
            Ok(Place::OpenCl(opencl::place::Place::in_context(candidate, context, number())?))
        })?;
        Ok(SyclDevice::of(opened))
    }

    /// The device that a filter string of SYCL names, such as `opencl:gpu:0`, in the default context of its platform: the
    /// context of arrays that name no other. Devices of SYCL's OpenCL backend are used through OpenCL.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] if SYCL knows no such device, or if Haloport's library for libsycl is missing;
    /// [`DeviceError::InvalidArgument`], [`DeviceError::Driver`].
    pub fn from_sycl_filter(filter: &str) -> Result<SyclDevice, DeviceError> {
        // DPC++ knows accelerators by the shorter word.
        let found = place::Found::of_filter(&filter.replace("accelerator", "acc"))?;
        match found.opencl()? {
            Some((context, device)) if !native::goes_through_sycl() => {
                SyclDevice::of_candidate(candidate_of(device)?, context)
            }
            _ => SyclDevice::of_found(found),
        }
    }

    /// The device of a place of SYCL; the open one, if it is open.
    fn of_found(found: place::Found) -> Result<SyclDevice, DeviceError> {
        let found = Arc::new(found);
        let known = |place: &Place| matches!(place, Place::Sycl(place) if place.is(&found));
        let open = |number: &dyn Fn() -> u32| place::Place::open(Arc::clone(&found), number());
        let opened = Opened::find_or(known, |number| Ok(Place::Sycl(Arc::new(open(number)?))))?;
        Ok(SyclDevice::of(opened))
    }

    fn in_context(context: Context, device: Option<usize>) -> Result<SyclDevice, DeviceError> {
        let devices =
            get_context_info(context.raw(), CL_CONTEXT_DEVICES).map_err(failed("clGetContextInfo", ANY))?;
        let devices: Vec<usize> = Vec::<isize>::from(devices).into_iter().map(isize::cast_unsigned).collect();
        let device = match (device, &devices[..]) {
            (Some(device), devices) if devices.contains(&device) => device,
            (None, [device]) => *device,
            (device, devices) => {
                return Err(DeviceError::invalid(
                    "the device of a context",
                    format!("one of {devices:#x?}"),
                    device.map_or("none".into(), |device| format!("{device:#x}")),
                ));
            }
        };
        SyclDevice::of_candidate(candidate_of(device as *mut c_void)?, context)
    }
}

fn not_null(address: usize, what: &'static str, expected: &str) -> Result<*mut c_void, DeviceError> {
    match address {
        0 => Err(DeviceError::invalid(what, expected, "null")),
        _ => Ok(address as *mut c_void),
    }
}
