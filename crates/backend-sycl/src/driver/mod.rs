//! What the crate asks of a driver: one type for each object, which is OpenCL's or SYCL's.
//!
//! [`Place`] makes all others. A command that is given objects of both drivers returns an error.

use std::ffi::c_void;
use std::sync::Arc;

use haloport_core::device::{DeviceError, DeviceId, DeviceInfo, KernelCache, MemoryKind, Pointer, Priority};

use crate::kind::Kind;
use crate::opencl::event::Opening;
use crate::{libsycl, opencl};

/// A device in a context.
#[derive(Debug)]
pub(crate) enum Place {
    OpenCl(Arc<opencl::place::Place>),
    Sycl(Arc<libsycl::place::Place>),
}

/// A queue of Haloport, or one of another program that is kept alive.
#[derive(Debug)]
pub(crate) enum Queue {
    OpenCl(opencl::queue::Queue),
    Sycl(libsycl::queue::Queue),
}

/// A point in a queue.
#[derive(Debug)]
pub(crate) enum Marker {
    OpenCl(opencl::event::Marker),
    Sycl(libsycl::event::Marker),
}

/// The source of the time at which a marker is reached.
#[derive(Debug)]
pub(crate) enum Time {
    OpenCl(opencl::event::Time),
    Sycl(libsycl::event::Marker),
}

/// A program that was built.
#[derive(Debug)]
pub(crate) enum Program {
    OpenCl(opencl::program::Program),
    Sycl(libsycl::program::Program),
}

/// A kernel with its arguments.
#[derive(Debug)]
pub(crate) enum Kernel {
    OpenCl(opencl::kernel::Kernel),
    Sycl(libsycl::program::Kernel),
}

/// The numbers of threads of a launch and of each of its groups, along three axes. Groups are whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NdRange {
    pub(crate) global: [usize; 3],
    pub(crate) group: [usize; 3],
}

/// A command with objects of both drivers.
fn mixed(what: &'static str) -> DeviceError {
    DeviceError::invalid(what, "one of the driver that the stream belongs to", "one of the other driver")
}

macro_rules! both {
    ($value:expr, $it:ident => $body:expr) => {
        match $value {
            Self::OpenCl($it) => $body,
            Self::Sycl($it) => $body,
        }
    };
}

impl Place {
    pub(crate) fn info(&self) -> &DeviceInfo {
        both!(self, place => place.info())
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.info().id
    }

    pub(crate) fn kind(&self) -> Kind {
        both!(self, place => place.kind())
    }

    /// The addresses of the context and the device.
    pub(crate) fn native(&self) -> (usize, usize) {
        both!(self, place => place.native())
    }

    /// Makes an in-order queue.
    pub(crate) fn queue(&self, priority: Priority) -> Result<Queue, DeviceError> {
        Ok(match self {
            Place::OpenCl(place) => Queue::OpenCl(opencl::queue::Queue::new(place, priority)?),
            Place::Sycl(place) => Queue::Sycl(libsycl::queue::Queue::new(place, priority)?),
        })
    }

    /// Makes a queue whose commands are executed by the thread that puts them there.
    pub(crate) fn immediate_queue(&self) -> Result<Queue, DeviceError> {
        if !self.info().capabilities.immediate_streams {
            return Err(DeviceError::Unsupported { what: "immediate streams", device: self.id() });
        }
        Ok(match self {
            Place::OpenCl(place) => Queue::OpenCl(opencl::queue::Queue::immediate(place)?),
            Place::Sycl(place) => Queue::Sycl(libsycl::queue::Queue::immediate(place)?),
        })
    }

    /// Shares a queue of another program, if it is of this place.
    ///
    /// # Safety
    /// `handle` is a live `cl_command_queue`, for a place of OpenCL, or the address of a `sycl::queue`, and outlives this one.
    pub(crate) unsafe fn queue_of(&self, handle: usize) -> Result<Queue, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe {
            Ok(match self {
                Place::OpenCl(place) => Queue::OpenCl(opencl::queue::Queue::of_handle(place, handle)?),
                Place::Sycl(place) => Queue::Sycl(libsycl::queue::Queue::foreign(place, handle, true)?),
            })
        }
    }

    /// Whether the device has memory of this kind.
    pub(crate) fn offers(&self, kind: MemoryKind) -> bool {
        both!(self, place => place.offers(kind))
    }

    /// Allocates memory of a kind that the device has, not initialised; null if there is not enough.
    pub(crate) fn allocate(&self, bytes: usize, kind: MemoryKind) -> *mut c_void {
        both!(self, place => place.allocate(bytes, kind))
    }

    /// # Safety
    /// `memory` came from [`allocate`](Place::allocate), is freed once, and no command uses it any more.
    pub(crate) unsafe fn free(&self, memory: *mut c_void) {
        // SAFETY: the caller's promise.
        both!(self, place => unsafe { place.free(memory) });
    }

    /// The program of a source in the portable dialect, whose text in OpenCL C is given: from the kernel cache of the
    /// process, else compiled.
    pub(crate) fn program(&self, name: &str, source: &str, text: &str) -> Result<Program, DeviceError> {
        Ok(match self {
            Place::OpenCl(place) => {
                Program::OpenCl(opencl::program::cached(KernelCache::of_process(), place, name, text)?)
            }
            Place::Sycl(place) => {
                Program::Sycl(libsycl::program::Program::of_source(place, name, source, text)?)
            }
        })
    }

    /// The program of a SPIR-V module.
    pub(crate) fn program_of_spirv(&self, name: &str, module: &[u8]) -> Result<Program, DeviceError> {
        Ok(match self {
            Place::OpenCl(place) => Program::OpenCl(opencl::program::from_spirv(place, name, module)?),
            Place::Sycl(place) => Program::Sycl(libsycl::program::Program::of_spirv(place, name, module)?),
        })
    }

    /// The program of a [binary](Program::binary) of the same device and driver.
    pub(crate) fn program_of_binary(&self, name: &str, binary: &[u8]) -> Result<Program, DeviceError> {
        Ok(match self {
            Place::OpenCl(place) => Program::OpenCl(opencl::program::from_binary(place, name, binary)?),
            Place::Sycl(place) => Program::Sycl(libsycl::program::Program::of_binary(place, name, binary)?),
        })
    }
}

impl Queue {
    /// The address of the `cl_command_queue` or the `sycl::queue`.
    pub(crate) fn handle(&self) -> usize {
        both!(self, queue => queue.handle())
    }

    pub(crate) fn is_in_order(&self) -> bool {
        both!(self, queue => queue.is_in_order())
    }

    /// Whether each command is executed by the thread that puts it there, before the call returns.
    pub(crate) fn is_immediate(&self) -> bool {
        both!(self, queue => queue.is_immediate())
    }

    /// Puts a copy into the queue. If `blocking`, it is complete when the call returns.
    ///
    /// # Safety
    /// As for [`Device::copy`](haloport_core::device::Device::copy), on this queue.
    pub(crate) unsafe fn copy(
        &self,
        ends: (Pointer, Pointer),
        bytes: usize,
        blocking: bool,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        both!(self, queue => unsafe { queue.copy(ends, bytes, blocking) })
    }

    /// Whether [`fill`](Queue::fill) takes elements of this value at this address.
    pub(crate) fn fills(&self, target: Pointer, element: &[u8]) -> bool {
        both!(self, queue => queue.fills(target, element))
    }

    /// Puts a fill of `bytes` bytes into the queue.
    ///
    /// # Safety
    /// As for [`Device::fill`](haloport_core::device::Device::fill), on this queue, which [`fills`](Queue::fills) so.
    pub(crate) unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        bytes: usize,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        both!(self, queue => unsafe { queue.fill(target, element, bytes) })
    }

    /// Puts a kernel into the queue, whose arguments are all set.
    ///
    /// # Safety
    /// As for [`Device::launch`](haloport_core::device::Device::launch), on this queue.
    pub(crate) unsafe fn launch(&self, kernel: &Kernel, range: NdRange) -> Result<(), DeviceError> {
        match (self, kernel) {
            // SAFETY: the caller's promise.
            (Queue::OpenCl(queue), Kernel::OpenCl(kernel)) => unsafe { queue.launch(kernel, range) },
            // SAFETY: the caller's promise.
            (Queue::Sycl(queue), Kernel::Sycl(kernel)) => unsafe { queue.launch(kernel, range) },
            _ => Err(mixed("the kernel of a launch")),
        }
    }

    /// Makes later commands wait for all earlier ones, and for `event` if there is one.
    pub(crate) fn barrier(&self, event: Option<&Marker>) -> Result<(), DeviceError> {
        match (self, event) {
            (Queue::OpenCl(queue), None) => queue.barrier(None),
            (Queue::OpenCl(queue), Some(Marker::OpenCl(event))) => queue.barrier(Some(event)),
            (Queue::Sycl(queue), None) => queue.barrier(None),
            (Queue::Sycl(queue), Some(Marker::Sycl(event))) => queue.barrier(Some(event)),
            _ => Err(mixed("the event that a stream waits for")),
        }
    }

    /// Puts a marker into the queue, which is reached when all earlier commands are complete.
    pub(crate) fn marker(&self) -> Result<Marker, DeviceError> {
        Ok(match self {
            Queue::OpenCl(queue) => Marker::OpenCl(queue.marker()?),
            Queue::Sycl(queue) => Marker::Sycl(queue.marker()?),
        })
    }

    /// Holds later commands back until the function is called or dropped.
    pub(crate) fn gate(&self) -> Result<Opening, DeviceError> {
        both!(self, queue => queue.gate())
    }

    /// The source of the time of a new marker of this queue.
    pub(crate) fn time_of(&self, reached: &Marker) -> Result<Time, DeviceError> {
        match (self, reached) {
            (Queue::OpenCl(queue), Marker::OpenCl(reached)) => queue.time_of(reached).map(Time::OpenCl),
            (Queue::Sycl(queue), Marker::Sycl(reached)) => queue.time_of(reached).map(Time::Sycl),
            _ => Err(mixed("the event whose time is taken")),
        }
    }

    /// Makes the driver begin with the commands in the queue, as every wait for one of its events requires.
    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        both!(self, queue => queue.flush())
    }

    /// Blocks until all commands in the queue are complete.
    pub(crate) fn finish(&self) -> Result<(), DeviceError> {
        both!(self, queue => queue.finish())
    }
}

impl Marker {
    /// The address of the `cl_event` or the `sycl::event`.
    pub(crate) fn handle(&self) -> usize {
        both!(self, marker => marker.handle())
    }

    /// Blocks until the marker is reached, or a command before it has failed. The queue was flushed.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        both!(self, marker => marker.wait())
    }

    pub(crate) fn is_reached(&self) -> Result<bool, DeviceError> {
        both!(self, marker => marker.is_reached())
    }

    /// The time at which the marker, which is reached, was reached: nanoseconds of the clock that it is taken from.
    pub(crate) fn time(&self, time: &Time) -> Result<u64, DeviceError> {
        match (self, time) {
            (Marker::OpenCl(marker), Time::OpenCl(time)) => marker.time(time),
            (Marker::Sycl(_), Time::Sycl(clock)) => clock.time(),
            _ => Err(mixed("the time of an event")),
        }
    }
}

impl Program {
    /// The binary of the program, for [`Place::program_of_binary`].
    pub(crate) fn binary(&self) -> Result<Vec<u8>, DeviceError> {
        both!(self, program => program.binary())
    }

    /// A kernel of the program, without arguments; `None` if it holds none of that name.
    pub(crate) fn kernel(&self, name: &str) -> Option<Kernel> {
        match self {
            Program::OpenCl(program) => program.kernel(name).map(Kernel::OpenCl),
            Program::Sycl(program) => program.kernel(name).map(Kernel::Sycl),
        }
    }
}

impl Kernel {
    /// The address of the `cl_kernel` or the `sycl::kernel`.
    pub(crate) fn handle(&self) -> usize {
        both!(self, kernel => kernel.handle())
    }

    /// The number of its parameters; 0 if the driver does not know it.
    pub(crate) fn parameters(&self) -> usize {
        both!(self, kernel => kernel.parameters())
    }

    /// Sets an address as an argument; `call` names the call in an error.
    pub(crate) fn set_address(
        &mut self,
        index: usize,
        pointer: Pointer,
        call: &'static str,
    ) -> Result<(), DeviceError> {
        match self {
            Kernel::OpenCl(kernel) => kernel.set_address(index, pointer, call),
            Kernel::Sycl(kernel) => {
                kernel.set_address(index, pointer);
                Ok(())
            }
        }
    }

    /// Sets a plain value without padding as an argument: a number, or the addresses of blocks.
    pub(crate) fn set_value<T: Copy>(&mut self, index: usize, value: &T) -> Result<(), DeviceError> {
        // SAFETY: the value is alive, has no padding, and its bytes are only read.
        let bytes =
            unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) };
        match self {
            Kernel::OpenCl(kernel) => kernel.set_value(index, bytes),
            Kernel::Sycl(kernel) => {
                kernel.set_value(index, bytes);
                Ok(())
            }
        }
    }

    /// Declares that the kernel follows `pointers`, which it finds in memory and not among its arguments.
    pub(crate) fn declare_reached(
        &mut self,
        pointers: impl Iterator<Item = Pointer>,
    ) -> Result<(), DeviceError> {
        match self {
            Kernel::OpenCl(kernel) => kernel.declare_reached(pointers),
            // SYCL declares that of all its kernels.
            Kernel::Sycl(_) => Ok(()),
        }
    }
}
