//! The device: a GPU of the CUDA driver.

use std::sync::Arc;
use std::time::Duration;

use haloport_core::device::dialect::FILL;
use haloport_core::device::{
    BoxCopy, Captured, CopyItem, Device, DeviceError, DeviceId, DeviceInfo, Flag, KernelArgument,
    KernelSource, LaunchConfig, MemoryKind, NextReader, Pointer, Priority, Stream as _,
};

use crate::context::call;
use crate::copies::{CudaCopies, address, copy, copy_box};
use crate::event::{self, CudaEvent};
use crate::flag::CudaFlag;
use crate::gate;
use crate::graph::CudaGraph;
use crate::kernels::{Arguments, CudaKernel, CudaLaunch, Grid, enqueue};
use crate::memory::CudaBuffer;
use crate::open::Opened;
use crate::peers;
use crate::program::{self, Function};
use crate::select::{Selector, candidates};
use crate::stream::{self, CudaStream};
use crate::word;

/// An NVIDIA GPU.
///
/// All handles of one device share its primary context, which is that of CUDA's runtime, so that streams, events and
/// memory of other libraries in the process can be used with it. Calls leave the caller's current context as it is.
#[derive(Debug, Clone)]
pub struct CudaDevice {
    opened: Arc<Opened>,
}

impl CudaDevice {
    /// The first device.
    ///
    /// # Errors
    /// As for [`select`](CudaDevice::select).
    pub fn new() -> Result<CudaDevice, DeviceError> {
        CudaDevice::select("cuda")
    }

    /// The device of that name: `cuda`, `cuda:1`; see [`Selector`].
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for a name that means nothing; [`DeviceError::NotFound`] where the driver or the
    /// device is missing, or the driver is too old; what the driver says.
    pub fn select(name: &str) -> Result<CudaDevice, DeviceError> {
        let selector: Selector = name.parse()?;
        Ok(CudaDevice { opened: Opened::new(selector.find()?)? })
    }

    /// The properties of all devices, in the order of their numbers. Opens none.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] where there is none; what the driver says.
    pub fn list() -> Result<Vec<DeviceInfo>, DeviceError> {
        Ok(candidates()?.into_iter().map(|candidate| candidate.info).collect())
    }

    /// The native handle: the primary `CUcontext`, alive as long as the device is open.
    pub fn native(&self) -> usize {
        self.opened.context.raw().expose_provenance()
    }

    /// Loads a kernel from PTX instead of its portable source; the driver compiles it. May block.
    ///
    /// # Errors
    /// [`DeviceError::Compile`] with the driver's log.
    pub fn compile_ptx(&self, source: &KernelSource, ptx: &str) -> Result<CudaKernel, DeviceError> {
        let program = program::from_ptx(&self.opened, source.name, ptx)?;
        CudaKernel::new(&self.opened, Arc::new(program), source)
    }

    /// Loads a kernel from a cubin: what [`CudaKernel::binary`] gave on a device of the same compute capability, or what
    /// `nvcc --cubin` left.
    ///
    /// # Errors
    /// [`DeviceError::Compile`] for what is no cubin; what the driver says of one for another device.
    pub fn load(&self, source: &KernelSource, binary: &[u8]) -> Result<CudaKernel, DeviceError> {
        let program = program::from_binary(&self.opened, source.name, binary)?;
        CudaKernel::new(&self.opened, Arc::new(program), source)
    }

    /// Captures what `work` puts into `stream` and, between events of it, into other streams, instead of doing it. May block.
    ///
    /// `work` puts nothing but launches, copies, fills and the order of events into streams: it neither waits nor asks
    /// whether something is done, nor allocates, frees, writes or reads. `stream` is not the default stream, and other streams
    /// wait for an event of it first, and it for events of them last.
    ///
    /// # Errors
    /// That of `work`; [`DeviceError::InvalidArgument`] for the default stream; what the driver says, which ends the capture
    /// where `work` does what it may not.
    pub fn capture_graph(
        &self,
        stream: &CudaStream,
        work: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<CudaGraph, DeviceError> {
        CudaGraph::capture(stream, work)
    }

    /// Fills memory with elements that the driver has no fill for, or at an address where it has none.
    ///
    /// # Safety
    /// As for [`fill`](Device::fill).
    unsafe fn fill_by_kernel(
        &self,
        target: Pointer,
        element: &[u8],
        count: usize,
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        const GROUP_THREADS: usize = 256;

        let mut bytes = [0; 16];
        bytes[..element.len()].copy_from_slice(element);
        let bits = u128::from_le_bytes(bytes);
        let program = program::portable(&self.opened, "fill", FILL)?;
        let function = Function::new(&self.opened, program, "fill")?;
        let numbers = [bits as u64, (bits >> 64) as u64, element.len() as u64, count as u64];
        let arguments = Arguments::new([address(target)].into_iter().chain(numbers).collect());
        let grid = Grid { groups: [count.div_ceil(GROUP_THREADS), 1, 1], threads: [GROUP_THREADS, 1, 1] };
        // SAFETY: the caller's promise; the arguments are those of `fill`.
        unsafe { enqueue(&function, grid, &arguments, stream) }
    }
}

// SAFETY: streams are in order; what the driver reports as complete is complete; memory is written by the work that the
// calls put into streams and by nothing else.
unsafe impl Device for CudaDevice {
    type Stream = CudaStream;
    type Event = CudaEvent;
    type Buffer = CudaBuffer;
    type Copies = CudaCopies;
    type Kernel = CudaKernel;
    type Launch = CudaLaunch;

    fn info(&self) -> &DeviceInfo {
        &self.opened.info
    }

    fn default_stream(&self) -> CudaStream {
        CudaStream::default_of(&self.opened)
    }

    fn create_stream(&self, priority: Priority) -> Result<CudaStream, DeviceError> {
        word::prepare(&self.opened)?;
        CudaStream::new(&self.opened, priority)
    }

    unsafe fn borrow_stream(&self, handle: usize) -> Result<CudaStream, DeviceError> {
        // SAFETY: the caller promised a live stream.
        unsafe { CudaStream::borrow(&self.opened, handle) }
    }

    fn synchronize(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        stream.synchronize()
    }

    fn synchronize_all(&self) -> Result<(), DeviceError> {
        stream::synchronize_all(&self.opened.context)
    }

    fn create_event(&self, timing: bool) -> Result<CudaEvent, DeviceError> {
        CudaEvent::new(&self.opened.context, timing)
    }

    fn record(&self, event: &CudaEvent, stream: &CudaStream) -> Result<(), DeviceError> {
        event.record(stream)
    }

    fn stream_wait(&self, stream: &CudaStream, event: &CudaEvent) -> Result<(), DeviceError> {
        event.make_wait(stream)
    }

    fn host_wait(&self, event: &CudaEvent) -> Result<(), DeviceError> {
        event.wait()
    }

    fn query(&self, event: &CudaEvent) -> Result<bool, DeviceError> {
        event.is_reached()
    }

    fn elapsed(&self, begin: &CudaEvent, end: &CudaEvent) -> Result<Duration, DeviceError> {
        event::elapsed(begin, end)
    }

    fn gate(&self, stream: &CudaStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
        gate::gate(stream)
    }

    fn call_host(&self, stream: &CudaStream, function: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError> {
        event::call_host(stream, function)
    }

    fn capture(
        &self,
        stream: &CudaStream,
        work: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<Box<dyn Captured<CudaStream>>, DeviceError> {
        if stream.handle() <= CudaStream::LAST_DEFAULT {
            let what = "capturing what is put into a default stream";
            return Err(DeviceError::Unsupported { what, device: self.id() });
        }
        Ok(Box::new(CudaGraph::capture(stream, work)?))
    }

    fn create_flag(&self) -> Result<Box<dyn Flag<CudaStream>>, DeviceError> {
        Ok(Box::new(CudaFlag::new(&self.opened)?))
    }

    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<CudaBuffer, DeviceError> {
        CudaBuffer::new(&self.opened, bytes, kind)
    }

    fn allocate_on(&self, bytes: usize, stream: &CudaStream) -> Result<CudaBuffer, DeviceError> {
        CudaBuffer::on(stream, bytes)
    }

    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError> {
        peers::reaches(&self.opened, other)
    }

    fn export(&self, buffer: &CudaBuffer) -> Result<Vec<u8>, DeviceError> {
        buffer.export()
    }

    unsafe fn import(&self, token: &[u8]) -> Result<CudaBuffer, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { CudaBuffer::import(&self.opened, token) }
    }

    unsafe fn copy(
        &self,
        source: Pointer,
        target: Pointer,
        bytes: usize,
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { copy(stream, (source, target), bytes) }
    }

    unsafe fn copy_box(&self, copy: &BoxCopy, stream: &CudaStream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { copy_box(copy, stream) }
    }

    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &CudaStream) -> Result<(), DeviceError> {
        let from = Pointer::new(source.as_ptr().cast_mut());
        // SAFETY: the slice is readable until the call returns, and then the copy is done.
        unsafe { copy(stream, (from, target), source.len()) }?;
        // The slice may lie in pinned memory, from which the copy goes on after the call.
        stream.synchronize()
    }

    unsafe fn read(
        &self,
        source: Pointer,
        target: &mut [u8],
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        let to = Pointer::new(target.as_mut_ptr());
        // SAFETY: the slice is writable and ours alone until the call returns, and then the copy is done.
        unsafe { copy(stream, (source, to), target.len()) }?;
        stream.synchronize()
    }

    unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        count: usize,
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        let size = element.len();
        if !matches!(size, 1 | 2 | 4 | 8 | 16) {
            return Err(DeviceError::invalid("the element size of a fill", "1, 2, 4, 8 or 16 bytes", size));
        }
        if count == 0 {
            return Ok(());
        }
        let (to, raw) = (address(target), stream.raw());
        // The driver fills with 1, 2 and 4 bytes, at addresses that are multiples of that.
        let narrow = (1..=4).find(|part| {
            size.is_multiple_of(*part) && element.chunks(*part).all(|each| each == &element[..*part])
        });
        let fitting = narrow.filter(|part| to.is_multiple_of(*part as u64));
        let all = count * size;
        // SAFETY: the caller's promise, and the target is aligned.
        unsafe {
            match (fitting, element) {
                (Some(1), [byte, ..]) => call!(stream.context(), cuMemsetD8Async(to, *byte, all, raw)),
                (Some(2), [a, b, ..]) => {
                    call!(stream.context(), cuMemsetD16Async(to, u16::from_ne_bytes([*a, *b]), all / 2, raw))
                }
                (Some(4), [a, b, c, d, ..]) => {
                    let element = u32::from_ne_bytes([*a, *b, *c, *d]);
                    call!(stream.context(), cuMemsetD32Async(to, element, all / 4, raw))
                }
                _ => self.fill_by_kernel(target, element, count, stream),
            }
        }
    }

    fn bind_copies(&self, items: Vec<CopyItem>, _reader: NextReader) -> Result<CudaCopies, DeviceError> {
        CudaCopies::new(&self.opened, items)
    }

    unsafe fn relocate_copies(
        &self,
        copies: &mut CudaCopies,
        from: &[Pointer],
        to: &[Pointer],
    ) -> Result<(), DeviceError> {
        copies.relocate(&self.opened, from, to)
    }

    unsafe fn run_copies(&self, copies: &CudaCopies, stream: &CudaStream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { copies.run(stream) }
    }

    fn compile(&self, source: &KernelSource) -> Result<CudaKernel, DeviceError> {
        let Some(portable) = source.portable else {
            let log = "it has no source in the portable dialect".into();
            return Err(DeviceError::Compile { kernel: source.name.into(), device: self.id(), log });
        };
        CudaKernel::new(&self.opened, program::portable(&self.opened, source.name, portable)?, source)
    }

    fn bind(
        &self,
        kernel: &CudaKernel,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<CudaLaunch, DeviceError> {
        kernel.bind(config, arguments)
    }

    fn rebind(
        &self,
        launch: &mut CudaLaunch,
        index: usize,
        argument: KernelArgument,
    ) -> Result<(), DeviceError> {
        launch.rebind(index, argument)
    }

    unsafe fn launch(&self, launch: &CudaLaunch, stream: &CudaStream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { launch.run(stream) }
    }
}
