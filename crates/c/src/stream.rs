//! With what an exchange is ordered.

use haloport::device::{AnyStream, Device};
use haloport::sycl::SyclDevice;
use haloport::{AnyDevice, Schedule};

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

/// The order of the start or the end of an exchange.
pub(crate) enum Order {
    Default,
    Block,
    On(Box<dyn AnyStream>),
}

impl Order {
    pub(crate) fn schedule(&self) -> Schedule<'_> {
        match self {
            Order::Default => Schedule::DefaultStream,
            Order::Block => Schedule::Blocking,
            Order::On(stream) => Schedule::On(&**stream),
        }
    }

    /// What `stream` means for fields on these devices. On the host, streams have no effect.
    ///
    /// # Safety
    /// The handle is that of a live stream or queue of the kind that `stream` names, which outlives the work in it.
    pub(crate) unsafe fn of(stream: CStream, devices: &[AnyDevice]) -> Result<Order, Failure> {
        let device = devices.iter().find(|device| !matches!(device, AnyDevice::Cpu(_)));
        match (stream.kind, device) {
            (DEFAULT, _) | (ON | SYCL, None) => Ok(Order::Default),
            (BLOCK, _) => Ok(Order::Block),
            (ON, Some(AnyDevice::Cuda(device))) => {
                // SAFETY: the caller's promise.
                Ok(Order::On(Box::new(unsafe { device.borrow_stream(stream.handle)? })))
            }
            (ON, Some(AnyDevice::Sycl(device))) => {
                // SAFETY: the caller's promise.
                Ok(Order::On(Box::new(unsafe { device.borrow_stream(stream.handle)? })))
            }
            (SYCL, Some(AnyDevice::Sycl(_))) => {
                // SAFETY: the caller's promise.
                let (_, stream) = unsafe { SyclDevice::from_sycl_queue(stream.handle)? };
                Ok(Order::On(Box::new(stream)))
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
