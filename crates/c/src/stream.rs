//! With what an exchange is ordered.

use haloport::device::{Device, DeviceError, Pointer, any};
use haloport::sycl::{SyclDevice, SyclStream};
use haloport::{AnyDevice, Schedule};

use crate::arguments::expect_zero;
use crate::status::Failure;

/// `hp_stream` of the header.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CStream {
    pub(crate) kind: i32,
    pub(crate) unused: i32,
    pub(crate) handle: usize,
}

pub(crate) const DEFAULT: i32 = 0;
pub(crate) const BLOCK: i32 = 1;
pub(crate) const ON: i32 = 2;
pub(crate) const SYCL: i32 = 3;

/// A queue of OpenCL or SYCL: its device, in its context, and the queue as a stream.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) device: SyclDevice,
    stream: SyclStream,
}

impl Queue {
    /// The queue that `stream` names; `None` for `HP_DEFAULT`.
    ///
    /// # Safety
    /// The handle is that of a live queue of the kind that `stream` names.
    pub(crate) unsafe fn of(stream: CStream) -> Result<Option<Queue>, Failure> {
        expect_zero(stream.unused, "options.queue.unused")?;
        let (device, stream) = match stream.kind {
            DEFAULT => return Ok(None),
            // SAFETY: the caller's promise.
            ON => unsafe { SyclDevice::from_queue(stream.handle)? },
            // SAFETY: as above.
            SYCL => unsafe { SyclDevice::from_sycl_queue(stream.handle)? },
            kind => {
                return Err(Failure::argument(format!(
                    "options.queue.kind: expected HP_ON, HP_SYCL or HP_DEFAULT for none, found {kind}"
                )));
            }
        };
        // A driver that cannot look up addresses does not know which memory kernels reach either.
        match device.allocation(Pointer::new(std::ptr::null_mut())) {
            Err(error @ DeviceError::Unsupported { .. }) => Err(error.into()),
            _ => Ok(Some(Queue { device, stream })),
        }
    }
}

/// The order of the start or the end of an exchange.
pub(crate) enum Order {
    Default,
    Block,
    On(any::Stream),
}

impl Order {
    pub(crate) fn schedule(&self) -> Schedule<'_> {
        match self {
            Order::Default => Schedule::DefaultStream,
            Order::Block => Schedule::Blocking,
            Order::On(stream) => Schedule::On(stream),
        }
    }

    /// What `stream` means for fields on these devices, in a plan with `queue`. On the host, streams have no effect.
    ///
    /// # Safety
    /// The handle is that of a live stream or queue of the kind that `stream` names, which outlives the work in it.
    pub(crate) unsafe fn of(
        stream: CStream,
        devices: &[AnyDevice],
        queue: Option<&Queue>,
    ) -> Result<Order, Failure> {
        expect_zero(stream.unused, "stream.unused")?;
        let device = devices.iter().find(|device| !matches!(device, AnyDevice::Cpu(_)));
        match (stream.kind, device) {
            // Nothing of the program is in the default stream of a device of OpenCL.
            (DEFAULT, Some(AnyDevice::Sycl(_))) if let Some(queue) = queue => {
                Ok(Order::On(any::Stream::Sycl(queue.stream.clone())))
            }
            (DEFAULT, _) | (ON | SYCL, None) => Ok(Order::Default),
            (BLOCK, _) => Ok(Order::Block),
            (ON, Some(AnyDevice::Sycl(device))) if device.native() == (0, 0) => Err(Failure::argument(
                "stream.kind: expected HP_SYCL for fields in memory of a sycl::queue that is not one of OpenCL, found HP_ON",
            )),
            (ON, Some(AnyDevice::Sycl(_))) if stream.handle == 0 => {
                Err(Failure::argument("stream.handle: expected a cl_command_queue, found null"))
            }
            (ON, Some(device)) => {
                // SAFETY: the caller's promise.
                Ok(Order::On(unsafe { device.borrow_stream(stream.handle)? }))
            }
            (SYCL, Some(AnyDevice::Sycl(device))) => {
                // SAFETY: the caller's promise.
                Ok(Order::On(any::Stream::Sycl(unsafe { device.borrow_sycl_queue(stream.handle)? })))
            }
            (SYCL, Some(other)) => Err(Failure::argument(format!(
                "stream.kind: expected HP_ON for fields on {}, found HP_SYCL",
                other.info().id
            ))),
            (kind, _) => Err(Failure::argument(format!(
                "stream.kind: expected HP_DEFAULT, HP_BLOCK, HP_ON or HP_SYCL, found {kind}"
            ))),
        }
    }
}
