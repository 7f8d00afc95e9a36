//! Devices in contexts that other programs made: SYCL programs, and programs on OpenCL.

use std::any::Any;
use std::ffi::c_void;

use cl3::command_queue::{CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE, get_command_queue_data};
use cl3::context::{CL_CONTEXT_DEVICES, get_context_data};
use cl3::types::{cl_context, cl_device_id};
use haloport_core::device::DeviceError;
use haloport_core::element::Element;
use haloport_core::interop::ArrayDescription;
use haloport_core::{BlockLayout, Field, FieldError};

use crate::SyclDevice;
use crate::driver::{ANY, failed, handle, library};
use crate::handles::{Context, Queue};
use crate::libsycl;
use crate::open::Opened;
use crate::queue::SyclStream;
use crate::select::candidate_of;

/// Where memory and queues of another program are to be used, the device is opened in that program's context: another
/// context of the same device is another device, with an [identity](haloport_core::device::DeviceId) of its own. Contexts
/// and queues are kept alive as long as they are used here.
impl SyclDevice {
    /// The device of a `cl_command_queue` that somebody else made, in the context of that queue, and the queue as a stream.
    ///
    /// The queue may be out of order. Work that is put into the stream then waits for all that was put into the queue
    /// before, and all that is put into the queue afterwards waits for it: an exchange that is started and finished
    /// [on](haloport_core::Schedule::On) the stream reads what commands before have written, and its last command is a
    /// barrier in the queue, so that the next command, whoever puts it there, sees the halos. No host waits for that.
    ///
    /// # Safety
    /// `queue` is a live `cl_command_queue` of the process's OpenCL library.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for null; [`DeviceError::NotFound`] for a device that Haloport does not use; what
    /// the driver says.
    pub unsafe fn from_queue(queue: usize) -> Result<(SyclDevice, SyclStream), DeviceError> {
        let raw = not_null(queue, "the handle of a queue", "a `cl_command_queue`")?;
        library()?;
        // SAFETY: the caller's promise.
        let queue = unsafe { Queue::retain(raw) }.map_err(failed("clRetainCommandQueue", ANY))?;
        SyclDevice::of_queue(queue)
    }

    /// The device of a `cl_context` that somebody else made, in that context. `device` is a `cl_device_id` of it, which need
    /// not be said of a context of one device.
    ///
    /// # Safety
    /// `context` is a live `cl_context` of the process's OpenCL library.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for null, for a device of another context, and for a context of several devices
    /// where none is named; [`DeviceError::NotFound`] for a device that Haloport does not use; what the driver says.
    pub unsafe fn from_context(context: usize, device: Option<usize>) -> Result<SyclDevice, DeviceError> {
        let raw = not_null(context, "the handle of a context", "a `cl_context`")?;
        library()?;
        // SAFETY: the caller's promise.
        let context = unsafe { Context::retain(raw) }.map_err(failed("clRetainContext", ANY))?;
        SyclDevice::in_context(context, device)
    }

    /// As [`from_queue`](SyclDevice::from_queue), for a `sycl::queue` of SYCL's OpenCL backend, as the capsules
    /// `SyclQueueRef` of Python packages hold one. Commands that SYCL still holds back on the host, as it does behind host
    /// tasks and accessors of buffers, are not in the queue yet, so that nothing here is ordered with them.
    ///
    /// # Safety
    /// `queue` is the address of a live `sycl::queue` of the SYCL library that this process has loaded.
    ///
    /// # Errors
    /// As for `from_queue`; [`DeviceError::NotFound`] where the process has loaded no SYCL library that is known;
    /// [`DeviceError::InvalidArgument`] for a queue of another backend of SYCL.
    pub unsafe fn from_sycl_queue(queue: usize) -> Result<(SyclDevice, SyclStream), DeviceError> {
        let queue = not_null(queue, "the address of a queue", "that of a `sycl::queue`")?;
        // SAFETY: the caller's promise.
        SyclDevice::of_queue(unsafe { libsycl::native_queue(queue) }?)
    }

    /// As [`from_context`](SyclDevice::from_context), for a `sycl::context` of SYCL's OpenCL backend, as the capsules
    /// `SyclContextRef` of Python packages hold one.
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
        let context = not_null(context, "the address of a context", "that of a `sycl::context`")?;
        // SAFETY: the caller's promise.
        SyclDevice::in_context(unsafe { libsycl::native_context(context) }?, device)
    }

    /// A field in arrays of another program in unified shared memory: see [`Field::in_arrays`]. The memory is checked to
    /// belong to the context of this device; the host may use it where it is not device memory.
    ///
    /// # Errors
    /// As for [`Field::in_arrays`], and [`FieldError::Device`] with what [`allocation_of`](SyclDevice::allocation_of) says.
    ///
    /// # Safety
    /// As for [`Field::in_arrays`]; what is checked here, that the device can reach the memory, need not be promised.
    pub unsafe fn field_in_arrays<T: Element>(
        &self,
        blocks: Vec<(ArrayDescription, BlockLayout)>,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Field<T, SyclDevice>, FieldError> {
        let mut host_accessible = true;
        for (array, _) in &blocks {
            if let Some(allocation) = self.allocation_of(array)? {
                host_accessible &= allocation.host_accessible();
            }
        }
        // SAFETY: the caller's promise; the memory is of the device's context.
        unsafe { Field::in_arrays(self, blocks, host_accessible, owner) }
    }

    fn of_queue(queue: Queue) -> Result<(SyclDevice, SyclStream), DeviceError> {
        let of =
            |name| get_command_queue_data(queue.raw(), name).map_err(failed("clGetCommandQueueInfo", ANY));
        let context: cl_context = handle(Ok(of(CL_QUEUE_CONTEXT)?));
        let device: cl_device_id = handle(Ok(of(CL_QUEUE_DEVICE)?));
        // SAFETY: a live queue keeps its context alive.
        let context = unsafe { Context::retain(context) }.map_err(failed("clRetainContext", ANY))?;
        let opened = Opened::in_context(candidate_of(device)?, context)?;
        let stream = SyclStream::share(&opened, queue)?;
        Ok((SyclDevice::of(opened), stream))
    }

    fn in_context(context: Context, device: Option<usize>) -> Result<SyclDevice, DeviceError> {
        let devices =
            get_context_data(context.raw(), CL_CONTEXT_DEVICES).map_err(failed("clGetContextInfo", ANY))?;
        let devices: Vec<usize> =
            devices.chunks(size_of::<usize>()).map(|bytes| handle(Ok(bytes.to_vec())).addr()).collect();
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
        Ok(SyclDevice::of(Opened::in_context(candidate_of(device as cl_device_id)?, context)?))
    }
}

fn not_null(address: usize, what: &'static str, expected: &str) -> Result<*mut c_void, DeviceError> {
    match address {
        0 => Err(DeviceError::invalid(what, expected, "null")),
        _ => Ok(address as *mut c_void),
    }
}
