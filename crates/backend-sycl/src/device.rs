//! The device: one with unified memory, through OpenCL or through SYCL.

use std::sync::Arc;
use std::time::Duration;

use haloport_core::device::dialect::FILL;
use haloport_core::device::{
    CombineItem, Combining, CopyItem, Device, DeviceError, DeviceInfo, Engine, Gates, ImmediateStreams,
    KernelArgument, KernelSource, LaunchConfig, MemoryExport, MemoryKind, NextReader, Pointer, Priority,
};

use crate::buffer::SyclBuffer;
use crate::driver::Place;
use crate::event::{self, SyclEvent};
use crate::kernel::copies::{Division, SyclCopies, address, copy};
use crate::kernel::launch::{SyclKernel, SyclLaunch, enqueue, range_of};
use crate::kernel::program;
use crate::opencl::place::{self, info_of};
use crate::opencl::select::{Selector, candidates};
use crate::opened::Opened;
use crate::stream::{SyclStream, finish_all};

/// A GPU, a CPU or an accelerator with unified memory, through its OpenCL driver or through SYCL.
///
/// All handles of one device share a context and a default stream. To use memory and queues of another program, open
/// the device in that program's context: [`from_queue`](SyclDevice::from_queue).
#[derive(Debug, Clone)]
pub struct SyclDevice {
    opened: Arc<Opened>,
    division: Division,
}

impl SyclDevice {
    /// Opens the best device: of OpenCL, the first GPU, otherwise the first accelerator, otherwise the first CPU; the first one of
    /// Level Zero if OpenCL has none.
    ///
    /// # Errors
    /// As for [`select`](SyclDevice::select).
    pub fn new() -> Result<SyclDevice, DeviceError> {
        SyclDevice::select("sycl")
    }

    /// Opens the device with this name: `sycl`, `sycl:cpu:0`, `sycl:gpu:1`, `opencl:cpu:0`, through OpenCL; or `level_zero`,
    /// `level_zero:gpu:0`, through SYCL, in the default context of the platform. For `sycl` and a device that OpenCL does not have,
    /// that of Level Zero. See [`Selector`].
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if the name is not one of those forms; [`DeviceError::NotFound`] if the
    /// library, a platform or the device is missing, or if the device has neither unified shared memory nor shared
    /// virtual memory; [`DeviceError::Driver`].
    pub fn select(name: &str) -> Result<SyclDevice, DeviceError> {
        let selector: Selector = name.parse()?;
        if let Some(filter) = selector.filter() {
            return SyclDevice::from_sycl_filter(&filter);
        }
        let candidate = match (selector.find(), selector.filter_of_substitute()) {
            (Err(error @ DeviceError::NotFound { .. }), Some(filter)) => {
                return SyclDevice::from_sycl_filter(&filter).map_err(|_| error);
            }
            (found, _) => found?,
        };
        let device = candidate.device.id().addr();
        let known = |place: &Place| matches!(place, Place::OpenCl(place) if place.is_own(device));
        let opened = Opened::find_or(known, |_| Ok(Place::OpenCl(place::Place::new(candidate)?)))?;
        Ok(SyclDevice::of(opened))
    }

    /// The properties of all devices of OpenCL, in the order of their numbers. Opens none of them.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] if there is none.
    pub fn list() -> Result<Vec<DeviceInfo>, DeviceError> {
        Ok(candidates()?.iter().map(info_of).collect())
    }

    /// The native handles: a `cl_context` and a `cl_device_id`, alive as long as the device is open; zeros for a device
    /// of SYCL that is not of its OpenCL backend.
    pub fn native(&self) -> (usize, usize) {
        self.opened.place.native()
    }

    /// Builds a kernel from a SPIR-V module instead of its portable source. May block.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] or [`DeviceError::Compile`] if the device does not take SPIR-V;
    /// [`DeviceError::Compile`] with the compiler's log.
    pub fn compile_spirv(&self, source: &KernelSource, module: &[u8]) -> Result<SyclKernel, DeviceError> {
        let program = self.opened.place.program_of_spirv(source.name, module)?;
        SyclKernel::new(&self.opened, Arc::new(program), source)
    }

    /// Builds a kernel from a [binary](SyclKernel::binary) of the same device and driver.
    ///
    /// # Errors
    /// [`DeviceError::Driver`] or [`DeviceError::Compile`] if the binary is damaged or of another device.
    pub fn load(&self, source: &KernelSource, binary: &[u8]) -> Result<SyclKernel, DeviceError> {
        let program = self.opened.place.program_of_binary(source.name, binary)?;
        SyclKernel::new(&self.opened, Arc::new(program), source)
    }

    pub(crate) fn of(opened: Arc<Opened>) -> SyclDevice {
        let division = match &opened.place {
            Place::Sycl(place) if !place.has_compiler() => Division::Words,
            place => Division::of(place.kind()),
        };
        SyclDevice { opened, division }
    }

    pub(crate) fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// Fills memory by a kernel, where the driver's own fill cannot.
    ///
    /// # Safety
    /// As for [`fill`](Device::fill).
    unsafe fn fill_by_kernel(
        &self,
        target: Pointer,
        element: &[u8],
        count: usize,
        stream: &SyclStream,
    ) -> Result<(), DeviceError> {
        let opened = &self.opened;
        let mut bytes = [0; 16];
        bytes[..element.len()].copy_from_slice(element);
        let element_bits = u128::from_le_bytes(bytes);
        let mut kernel = program::kernel(opened, &*program::portable(opened, "fill", FILL)?, "fill")?;
        kernel.set_address(0, target, "setting the target of a fill")?;
        kernel.set_value(1, &(element_bits as u64))?;
        kernel.set_value(2, &((element_bits >> 64) as u64))?;
        kernel.set_value(3, &(element.len() as i64))?;
        kernel.set_value(4, &(count as i64))?;
        match range_of(LaunchConfig::linear(count)) {
            // SAFETY: the caller's promise; the driver keeps the kernel until it has run.
            Some(range) => unsafe { enqueue(&kernel, range, stream) },
            None => Ok(()),
        }
    }
}

// SAFETY: queues are in order, or barriers put their commands in order; events are markers after the work; work that
// the driver reports as complete is complete; only the commands that these calls put into queues write memory.
unsafe impl Device for SyclDevice {
    type Stream = SyclStream;
    type Event = SyclEvent;
    type Buffer = SyclBuffer;
    type Copies = SyclCopies;
    type Kernel = SyclKernel;
    type Launch = SyclLaunch;

    fn info(&self) -> &DeviceInfo {
        self.opened.info()
    }

    fn engine(&self) -> Engine<Self> {
        Engine::of(self)
    }

    fn default_stream(&self) -> SyclStream {
        SyclStream::new(&self.opened, Arc::clone(&self.opened.default))
    }

    fn create_stream(&self, priority: Priority) -> Result<SyclStream, DeviceError> {
        Ok(SyclStream::with_queue(&self.opened, self.opened.place.queue(priority)?))
    }

    unsafe fn borrow_stream(&self, handle: usize) -> Result<SyclStream, DeviceError> {
        match handle {
            0 => Ok(self.default_stream()),
            // SAFETY: the caller promised a live queue.
            _ => Ok(SyclStream::with_queue(&self.opened, unsafe { self.opened.place.queue_of(handle) }?)),
        }
    }

    fn synchronize(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        stream.finish()
    }

    fn synchronize_all(&self) -> Result<(), DeviceError> {
        finish_all(&self.opened)
    }

    fn create_event(&self, timing: bool) -> Result<SyclEvent, DeviceError> {
        Ok(SyclEvent::new(timing))
    }

    fn record(&self, event: &SyclEvent, stream: &SyclStream) -> Result<(), DeviceError> {
        event.record(stream)
    }

    fn stream_wait(&self, stream: &SyclStream, event: &SyclEvent) -> Result<(), DeviceError> {
        event.make_wait(stream)
    }

    fn host_wait(&self, event: &SyclEvent) -> Result<(), DeviceError> {
        event.wait()
    }

    fn query(&self, event: &SyclEvent) -> Result<bool, DeviceError> {
        event.is_reached()
    }

    fn elapsed(&self, begin: &SyclEvent, end: &SyclEvent) -> Result<Duration, DeviceError> {
        event::elapsed(begin, end)
    }

    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<SyclBuffer, DeviceError> {
        SyclBuffer::new(&self.opened, bytes, kind)
    }

    unsafe fn copy(
        &self,
        source: Pointer,
        target: Pointer,
        bytes: usize,
        stream: &SyclStream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { copy(stream, (source, target), bytes, false) }
    }

    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &SyclStream) -> Result<(), DeviceError> {
        // SAFETY: the slice is readable until the call returns, when the copy is complete.
        unsafe { copy(stream, (address(source), target), source.len(), true) }
    }

    unsafe fn read(
        &self,
        source: Pointer,
        target: &mut [u8],
        stream: &SyclStream,
    ) -> Result<(), DeviceError> {
        let to = Pointer::new(target.as_mut_ptr());
        // SAFETY: the slice is borrowed exclusively until the call returns, when the copy is complete.
        unsafe { copy(stream, (source, to), target.len(), true) }
    }

    unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        count: usize,
        stream: &SyclStream,
    ) -> Result<(), DeviceError> {
        let size = element.len();
        if !matches!(size, 1 | 2 | 4 | 8 | 16) {
            return Err(DeviceError::invalid("the element size of a fill", "1, 2, 4, 8 or 16 bytes", size));
        }
        if count == 0 {
            return Ok(());
        }
        if !stream.fills(target, element) {
            // SAFETY: the caller's promise.
            return unsafe { self.fill_by_kernel(target, element, count, stream) };
        }
        // SAFETY: the caller's promise, and the queue takes such a fill.
        stream.put(|queue| unsafe { queue.fill(target, element, count * size) })
    }

    fn bind_copies(&self, items: Vec<CopyItem>, _reader: NextReader) -> Result<SyclCopies, DeviceError> {
        SyclCopies::new(&self.opened, items, self.division)
    }

    unsafe fn run_copies(
        &self,
        copies: &SyclCopies,
        bases: &[Pointer],
        stream: &SyclStream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { copies.run(bases, stream) }
    }

    fn compile(&self, source: &KernelSource) -> Result<SyclKernel, DeviceError> {
        let Some(portable) = source.portable else {
            let log = "it has no source in the portable dialect".into();
            return Err(DeviceError::Compile { kernel: source.name.into(), device: self.id(), log });
        };
        SyclKernel::new(&self.opened, program::portable(&self.opened, source.name, portable)?, source)
    }

    fn bind(
        &self,
        kernel: &SyclKernel,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<SyclLaunch, DeviceError> {
        kernel.bind(config, arguments)
    }

    fn rebind(
        &self,
        launch: &mut SyclLaunch,
        index: usize,
        argument: KernelArgument,
    ) -> Result<(), DeviceError> {
        launch.rebind(index, argument)
    }

    unsafe fn launch(&self, launch: &SyclLaunch, stream: &SyclStream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { launch.run(stream) }
    }

    fn immediate_streams(&self) -> Option<&dyn ImmediateStreams<SyclStream>> {
        self.info().capabilities.immediate_streams.then_some(self as _)
    }

    fn gates(&self) -> Option<&dyn Gates<SyclStream>> {
        self.info().capabilities.gates.then_some(self as _)
    }

    fn memory_export(&self) -> Option<&dyn MemoryExport<SyclBuffer>> {
        self.info().capabilities.memory_export.then_some(self as _)
    }

    fn combining(&self) -> Option<&dyn Combining<SyclCopies>> {
        Some(self)
    }
}

impl Combining<SyclCopies> for SyclDevice {
    fn bind_combining(&self, items: Vec<CombineItem>) -> Result<SyclCopies, DeviceError> {
        SyclCopies::combining(&self.opened, &items)
    }
}

impl ImmediateStreams<SyclStream> for SyclDevice {
    fn create_immediate_stream(&self) -> Result<SyclStream, DeviceError> {
        Ok(SyclStream::with_queue(&self.opened, self.opened.place.immediate_queue()?))
    }
}

impl Gates<SyclStream> for SyclDevice {
    fn gate(&self, stream: &SyclStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
        event::gate(&self.opened, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU runs lists of copies like a GPU, to test the kernel for GPUs without one.
    #[test]
    fn the_suite_passes_with_copies_as_on_a_gpu() {
        let Ok(mut device) = SyclDevice::new() else {
            eprintln!("skipped: no OpenCL device");
            return;
        };
        device.division = Division::Words;
        haloport_conformance::device::suite(&device, &[]).unwrap();
    }
}
