//! The device.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use haloport_core::device::{
    Attached, CombineItem, Combining, CopyItem, Device, DeviceError, DeviceId, DeviceInfo, Engine, Gates,
    KernelArgument, KernelSource, LaunchConfig, MemoryExport, MemoryKind, NextReader, Pointer, Priority,
    StreamGroup, StreamMessages, StreamMessagesOffer, StreamMessaging, StreamWords, WordOperation,
};

use crate::driver::context::{address, call};
use crate::driver::raw_stream::RawStream;
use crate::driver::select::{Selector, candidates};
use crate::memory::allocation::Allocation;
use crate::memory::buffer::CudaBuffer;
use crate::memory::registered::RegisteredMemory;
use crate::nccl::messages::{CudaMessages, token};
use crate::nccl::offer::offer;
use crate::opened::Opened;
use crate::program::loaded::Program;
use crate::streams::event::{self, CudaEvent};
use crate::streams::gate::gate;
use crate::streams::stream::CudaStream;
use crate::streams::word_operations::put_words;
use crate::work::copies::{CudaCopies, copy};
use crate::work::kernels::{Arguments, CudaKernel, CudaLaunch, Grid, enqueue};

// Roles, as named in errors.
const GATES: &str = "gates, as CUDA_LAUNCH_BLOCKING is set, work is batched (WDDM) or streams write no words";
const WORDS: &str =
    "words in streams, as CUDA_LAUNCH_BLOCKING is set, work is batched (WDDM) or streams write no words";
const MESSAGES: &str = "messages in streams, as this system is not Linux, or CUDA_LAUNCH_BLOCKING is set";

/// An NVIDIA GPU.
///
/// All handles of one device share its primary context, which is that of CUDA's runtime. Streams, events and memory of
/// other libraries in the process can therefore be used with it. Calls leave the caller's current context as it is.
#[derive(Debug, Clone)]
pub struct CudaDevice {
    opened: Arc<Opened>,
}

impl CudaDevice {
    /// Opens the first device that can be used.
    ///
    /// # Errors
    /// As for [`select`](CudaDevice::select).
    pub fn new() -> Result<CudaDevice, DeviceError> {
        CudaDevice::select("cuda")
    }

    /// Opens the device of that name: `cuda`, `cuda:1`; see [`Selector`].
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if the name is malformed; [`DeviceError::NotFound`] if the driver or the device
    /// is missing, or the driver is too old; the driver's errors.
    pub fn select(name: &str) -> Result<CudaDevice, DeviceError> {
        let selector: Selector = name.parse()?;
        Ok(CudaDevice { opened: Opened::new(selector.find()?)? })
    }

    /// Lists the properties of all devices that can be used, in the order of their numbers. Opens none.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] if there is no driver or no device; the driver's errors.
    pub fn list() -> Result<Vec<DeviceInfo>, DeviceError> {
        Ok(candidates()?.into_iter().flatten().map(|candidate| candidate.info).collect())
    }

    /// The errors of all devices that cannot be used, for example because they have failed; each names its device.
    ///
    /// # Errors
    /// As for [`list`](CudaDevice::list).
    pub fn unusable() -> Result<Vec<DeviceError>, DeviceError> {
        Ok(candidates()?.into_iter().filter_map(Result::err).collect())
    }

    /// The native handle: the primary `CUcontext`, which lives as long as the device is open.
    pub fn native(&self) -> usize {
        self.opened.context.raw().expose_provenance()
    }

    /// Loads a kernel from PTX instead of its portable source; the driver compiles it. May block.
    ///
    /// # Errors
    /// [`DeviceError::Compile`] with the driver's log.
    pub fn compile_ptx(&self, source: &KernelSource, ptx: &str) -> Result<CudaKernel, DeviceError> {
        self.load(source, &[ptx.as_bytes(), b"\0"].concat())
    }

    /// Loads a kernel from a cubin: from [`CudaKernel::binary`] on a device of the same compute capability, or from
    /// `nvcc --cubin`.
    ///
    /// # Errors
    /// [`DeviceError::Compile`] if the bytes are not a cubin, or one for another device, with the driver's log.
    pub fn load(&self, source: &KernelSource, binary: &[u8]) -> Result<CudaKernel, DeviceError> {
        let program = Program::load(&self.opened.context, source.name, binary.into())?;
        CudaKernel::new(&self.opened, Arc::new(program), source)
    }

    /// An error unless the device has a role: its methods can be called without asking for it.
    fn has(&self, role: bool, what: &'static str) -> Result<(), DeviceError> {
        if role { Ok(()) } else { Err(DeviceError::Unsupported { what, device: self.id() }) }
    }

    /// Fills memory where the driver cannot: its own fills are limited in the size and the alignment of the element.
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
        let function = self.opened.fill_kernel(&stream.stream)?;
        let numbers = [bits as u64, (bits >> 64) as u64, element.len() as u64, count as u64];
        let arguments = Arguments::new([address(target)].into_iter().chain(numbers).collect());
        let grid = Grid { groups: [count.div_ceil(GROUP_THREADS), 1, 1], threads: [GROUP_THREADS, 1, 1] };
        // SAFETY: the caller's promise; the arguments are those of `fill`.
        unsafe { enqueue(function, grid, &arguments, stream) }
    }
}

// SAFETY: streams are in order; work that the driver reports as complete is complete; memory is written only by the
// work that the calls put into streams.
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

    fn engine(&self) -> Engine<Self> {
        Engine::of(self)
    }

    fn attach(&self) -> Result<Attached, DeviceError> {
        self.opened.context.attach()
    }

    fn default_stream(&self) -> CudaStream {
        CudaStream::new(&self.opened, RawStream::default_of(&self.opened.context))
    }

    fn is_default(&self, stream: &CudaStream) -> bool {
        stream.is_default()
    }

    fn create_stream(&self, priority: Priority) -> Result<CudaStream, DeviceError> {
        self.opened.prepare()?;
        let stream = RawStream::new(&self.opened.context, priority, self.opened.offers.priorities)?;
        Ok(CudaStream::new(&self.opened, stream))
    }

    unsafe fn borrow_stream(&self, handle: usize) -> Result<CudaStream, DeviceError> {
        // SAFETY: the caller promised a live stream.
        let stream = unsafe { RawStream::borrow(&self.opened.context, handle) }?;
        Ok(CudaStream::new(&self.opened, stream))
    }

    fn synchronize(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        stream.stream.synchronize()
    }

    fn synchronize_all(&self) -> Result<(), DeviceError> {
        self.opened.context.synchronize()
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

    fn defer_frees(&self) {
        self.opened.context.frees.defer();
    }

    fn resume_frees(&self) {
        self.opened.context.frees.resume();
    }

    fn check_not_captured(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        stream.stream.check_not_captured()
    }

    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<CudaBuffer, DeviceError> {
        Ok(CudaBuffer::new(&self.opened, Allocation::new(&self.opened, bytes, kind)?))
    }

    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError> {
        self.opened.peers.reach(&self.opened.context, other)
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

    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &CudaStream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.opened.pieces.write(&self.opened, source, target, &stream.stream) }
    }

    unsafe fn read(
        &self,
        source: Pointer,
        target: &mut [u8],
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.opened.pieces.read(&self.opened, source, target, &stream.stream) }
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
        // The driver fills with elements of 1, 2 and 4 bytes, at addresses that are multiples of their size.
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

    unsafe fn run_copies(
        &self,
        copies: &CudaCopies,
        bases: &[Pointer],
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { copies.run(None, bases, stream) }
    }

    fn compile(&self, source: &KernelSource) -> Result<CudaKernel, DeviceError> {
        let Some(portable) = source.portable else {
            let log = "it has no source in the portable dialect".into();
            return Err(DeviceError::Compile { kernel: source.name.into(), device: self.id(), log });
        };
        let program = self.opened.programs.portable(&self.opened, source.name, portable)?;
        CudaKernel::new(&self.opened, program, source)
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

    fn combining(&self) -> Option<&dyn Combining<CudaCopies>> {
        Some(self)
    }

    fn gates(&self) -> Option<&dyn Gates<CudaStream>> {
        self.info().capabilities.gates.then_some(self as _)
    }

    fn stream_words(&self) -> Option<&dyn StreamWords<CudaStream, CudaCopies>> {
        self.info().capabilities.stream_words.then_some(self as _)
    }

    fn memory_export(&self) -> Option<&dyn MemoryExport<CudaBuffer>> {
        self.info().capabilities.memory_export.then_some(self as _)
    }

    fn stream_messaging(&self) -> Option<&dyn StreamMessaging<CudaStream>> {
        self.info().capabilities.stream_messages.then_some(self as _)
    }
}

impl Combining<CudaCopies> for CudaDevice {
    fn bind_combining(&self, items: Vec<CombineItem>) -> Result<CudaCopies, DeviceError> {
        CudaCopies::combining(&self.opened, &items)
    }
}

impl Gates<CudaStream> for CudaDevice {
    fn gate(&self, stream: &CudaStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
        self.has(self.info().capabilities.gates, GATES)?;
        gate(stream)
    }

    fn flush_remote_writes(&self) -> Result<(), DeviceError> {
        self.opened.offers.remote_writes.flush(&self.opened.context)
    }
}

impl StreamWords<CudaStream, CudaCopies> for CudaDevice {
    unsafe fn register_words(
        &self,
        memory: Pointer,
        bytes: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Box<dyn Any + Send + Sync>, DeviceError> {
        self.has(self.info().capabilities.stream_words, WORDS)?;
        // SAFETY: the caller's promise.
        Ok(Box::new(unsafe { RegisteredMemory::new(&self.opened, memory, bytes, owner) }?))
    }

    unsafe fn put_words(&self, operations: &[WordOperation], stream: &CudaStream) -> Result<(), DeviceError> {
        self.has(self.info().capabilities.stream_words, WORDS)?;
        // SAFETY: the caller's promise.
        unsafe { put_words(operations, stream) }
    }

    unsafe fn run_copies_unless(
        &self,
        stop: Pointer,
        copies: &CudaCopies,
        bases: &[Pointer],
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        self.has(self.info().capabilities.stream_words, WORDS)?;
        // SAFETY: the caller's promise.
        unsafe { copies.run(Some(stop), bases, stream) }
    }
}

impl MemoryExport<CudaBuffer> for CudaDevice {
    fn allocate_exportable(&self, bytes: usize) -> Result<CudaBuffer, DeviceError> {
        Ok(CudaBuffer::new(&self.opened, Allocation::exportable(&self.opened, bytes)?))
    }

    fn export(&self, buffer: &CudaBuffer) -> Result<Vec<u8>, DeviceError> {
        buffer.memory.export()
    }

    unsafe fn import(&self, token: &[u8]) -> Result<CudaBuffer, DeviceError> {
        // SAFETY: the caller's promise.
        let memory = unsafe { Allocation::import(&self.opened, token) }?;
        Ok(CudaBuffer::new(&self.opened, memory))
    }
}

impl StreamMessaging<CudaStream> for CudaDevice {
    fn offer_stream_messages(&self) -> Result<StreamMessagesOffer, DeviceError> {
        self.has(self.info().capabilities.stream_messages, MESSAGES)?;
        offer(&self.opened)
    }

    fn stream_messages_token(&self) -> Result<Vec<u8>, DeviceError> {
        self.has(self.info().capabilities.stream_messages, MESSAGES)?;
        token(&self.opened)
    }

    fn join_stream_messages(
        &self,
        group: &StreamGroup<'_>,
    ) -> Result<Box<dyn StreamMessages<CudaStream>>, DeviceError> {
        self.has(self.info().capabilities.stream_messages, MESSAGES)?;
        Ok(Box::new(CudaMessages::join(&self.opened, group)?))
    }
}
