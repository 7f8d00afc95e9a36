//! The device: a device of OpenCL with unified memory.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use haloport_core::device::dialect::FILL;
use haloport_core::device::{
    BoxCopy, CopyItem, Device, DeviceError, DeviceInfo, KernelArgument, KernelSource, LaunchConfig,
    MemoryKind, NextReader, Pointer, Priority,
};

use crate::copies::{Sharing, SyclCopies, address, copy, copy_box};
use crate::event::{self, SyclEvent};
use crate::kernels::{Grid, SyclKernel, SyclLaunch, enqueue, set_value};
use crate::memory::SyclBuffer;
use crate::open::{Opened, info_of};
use crate::program;
use crate::queue::{self, IMMEDIATE_QUEUES, SyclStream, WorkQueue};
use crate::select::{Kind, Selector, candidates, has_extension};

/// A GPU, a CPU or an accelerator that an OpenCL driver offers, with unified memory.
///
/// All handles of one device share a context and a default stream, however often it is opened. To use memory and queues of
/// another program, open it in that program's context: [`from_queue`](SyclDevice::from_queue).
#[derive(Debug, Clone)]
pub struct SyclDevice {
    opened: Arc<Opened>,
    sharing: Sharing,
}

impl SyclDevice {
    /// The best device there is: the first GPU, else the first accelerator, else the first CPU.
    ///
    /// # Errors
    /// As for [`select`](SyclDevice::select).
    pub fn new() -> Result<SyclDevice, DeviceError> {
        SyclDevice::select("sycl")
    }

    /// The device of that name: `sycl`, `sycl:cpu:0`, `sycl:gpu:1`, `opencl:cpu:0`; see [`Selector`].
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for a name that means nothing; [`DeviceError::NotFound`] where the library, a
    /// platform or the device is missing, or has neither unified shared memory nor shared virtual memory; what the driver
    /// says.
    pub fn select(name: &str) -> Result<SyclDevice, DeviceError> {
        let selector: Selector = name.parse()?;
        Ok(SyclDevice::of(Opened::new(selector.find()?)?))
    }

    /// The properties of all devices, in the order of their numbers. Opens none.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] where there is none.
    pub fn list() -> Result<Vec<DeviceInfo>, DeviceError> {
        Ok(candidates()?.iter().map(info_of).collect())
    }

    /// The native handles: a `cl_context` and a `cl_device_id`, alive as long as the device is open.
    pub fn native(&self) -> (usize, usize) {
        (self.opened.context.raw().addr(), self.opened.device.addr())
    }

    /// Builds a kernel from a SPIR-V module instead of its portable source. May block.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where the device takes none; [`DeviceError::Compile`] with the compiler's log.
    pub fn compile_spirv(&self, source: &KernelSource, module: &[u8]) -> Result<SyclKernel, DeviceError> {
        let program = program::from_spirv(&self.opened, source.name, module)?;
        SyclKernel::new(&self.opened, Arc::new(program), source)
    }

    /// Builds a kernel from what [`SyclKernel::binary`] gave on the same device and driver.
    ///
    /// # Errors
    /// What the driver says of a binary that is damaged or of another device.
    pub fn load(&self, source: &KernelSource, binary: &[u8]) -> Result<SyclKernel, DeviceError> {
        let program = program::from_binary(&self.opened, source.name, binary)?;
        SyclKernel::new(&self.opened, Arc::new(program), source)
    }

    pub(crate) fn of(opened: Arc<Opened>) -> SyclDevice {
        let sharing = Sharing::of(opened.kind);
        SyclDevice { opened, sharing }
    }

    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Fills memory that is not aligned as the driver's own fill wants it.
    ///
    /// # Safety
    /// As for [`fill`](Device::fill).
    unsafe fn fill_unaligned(
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
        // SAFETY: the kernel is ours alone.
        let status = unsafe { opened.unified.set_argument(opened.library, kernel.raw(), 0, target) };
        crate::driver::checked(status, "setting the target of a fill", opened.id())?;
        set_value(opened, &mut kernel, 1, &(element_bits as u64))?;
        set_value(opened, &mut kernel, 2, &((element_bits >> 64) as u64))?;
        set_value(opened, &mut kernel, 3, &(element.len() as i64))?;
        set_value(opened, &mut kernel, 4, &(count as i64))?;
        match Grid::of(LaunchConfig::linear(count)) {
            // SAFETY: the caller's promise; the driver keeps the kernel until it has run.
            Some(grid) => unsafe { enqueue(opened, &kernel, grid, stream) },
            None => Ok(()),
        }
    }
}

// SAFETY: queues are in order, or made so by barriers; events are markers behind the work; what the driver reports as
// complete is complete; memory is written by the commands that the calls put into queues and by nothing else.
unsafe impl Device for SyclDevice {
    type Stream = SyclStream;
    type Event = SyclEvent;
    type Buffer = SyclBuffer;
    type Copies = SyclCopies;
    type Kernel = SyclKernel;
    type Launch = SyclLaunch;

    fn info(&self) -> &DeviceInfo {
        &self.opened.info
    }

    fn default_stream(&self) -> SyclStream {
        SyclStream::new(&self.opened, Arc::clone(&self.opened.default))
    }

    fn create_stream(&self, priority: Priority) -> Result<SyclStream, DeviceError> {
        let Opened { context, device, info, .. } = &*self.opened;
        let queue = WorkQueue::new(context, *device, info.id, priority, info.stream_priorities)?;
        Ok(SyclStream::with_queue(&self.opened, queue))
    }

    fn create_immediate_stream(&self) -> Result<Option<SyclStream>, DeviceError> {
        let Opened { context, device, info, kind, .. } = &*self.opened;
        if *kind != Kind::Cpu || !has_extension(*device, IMMEDIATE_QUEUES) {
            return Ok(None);
        }
        let queue = WorkQueue::immediate(context, *device, info.id)?;
        Ok(Some(SyclStream::with_queue(&self.opened, queue)))
    }

    unsafe fn borrow_stream(&self, handle: usize) -> Result<SyclStream, DeviceError> {
        match handle {
            0 => Ok(self.default_stream()),
            // SAFETY: the caller promised a live queue.
            _ => unsafe { SyclStream::borrow(&self.opened, handle as *mut c_void) },
        }
    }

    fn synchronize(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        stream.finish()
    }

    fn synchronize_all(&self) -> Result<(), DeviceError> {
        queue::finish_all(&self.opened)
    }

    fn create_event(&self, timing: bool) -> Result<SyclEvent, DeviceError> {
        Ok(SyclEvent::new(self.id(), timing))
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

    fn gate(&self, stream: &SyclStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
        event::gate(&self.opened, stream)
    }

    fn call_host(&self, stream: &SyclStream, function: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError> {
        event::call_host(stream, function)
    }

    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<SyclBuffer, DeviceError> {
        SyclBuffer::new(&self.opened, bytes, kind)
    }

    fn allocate_on(&self, bytes: usize, stream: &SyclStream) -> Result<SyclBuffer, DeviceError> {
        SyclBuffer::on(stream, bytes)
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

    unsafe fn copy_box(&self, copy: &BoxCopy, stream: &SyclStream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { copy_box(&self.opened, copy, self.sharing, stream) }
    }

    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &SyclStream) -> Result<(), DeviceError> {
        // SAFETY: the slice is readable until the call returns, and then the copy is done.
        unsafe { copy(stream, (address(source), target), source.len(), true) }
    }

    unsafe fn read(
        &self,
        source: Pointer,
        target: &mut [u8],
        stream: &SyclStream,
    ) -> Result<(), DeviceError> {
        let to = Pointer::new(target.as_mut_ptr());
        // SAFETY: the slice is writable and ours alone until the call returns, and then the copy is done.
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
        if !target.as_ptr().addr().is_multiple_of(size) {
            // SAFETY: the caller's promise.
            return unsafe { self.fill_unaligned(target, element, count, stream) };
        }
        let Opened { unified, library, .. } = &*self.opened;
        stream.put("filling memory", |queue| {
            // SAFETY: the caller's promise, and the target is aligned.
            unsafe { unified.fill(library, queue, target, element, count * size) }
        })
    }

    fn bind_copies(&self, items: Vec<CopyItem>, _reader: NextReader) -> Result<SyclCopies, DeviceError> {
        SyclCopies::new(&self.opened, items, self.sharing)
    }

    unsafe fn relocate_copies(
        &self,
        copies: &mut SyclCopies,
        from: &[Pointer],
        to: &[Pointer],
    ) -> Result<(), DeviceError> {
        copies.relocate(from, to)
    }

    unsafe fn run_copies(&self, copies: &SyclCopies, stream: &SyclStream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { copies.run(stream) }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU runs lists of copies as a GPU does, so that the kernel for GPUs is tested without one.
    #[test]
    fn the_suite_passes_with_copies_as_on_a_gpu() {
        let Ok(mut device) = SyclDevice::new() else {
            eprintln!("skipped: no OpenCL device");
            return;
        };
        device.sharing = Sharing::Words;
        haloport_conformance::device::suite(&device, &[]).unwrap();
    }
}
