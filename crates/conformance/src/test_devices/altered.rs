//! A device that does what another one does, but for an alteration.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use haloport_core::device::{
    Attached, Buffer, CombineItem, Combining, CopyItem, Device, DeviceError, DeviceId, DeviceInfo, Engine,
    Gates, ImmediateStreams, KernelArgument, KernelSource, LaunchConfig, MemoryExport, MemoryKind,
    NextReader, Pointer, Priority, StreamGroup, StreamMessages, StreamMessagesOffer, StreamMessaging,
    StreamWords, WordOperation, offered,
};

/// A device `D` with an alteration.
#[derive(Debug, Clone)]
pub struct Altered<D, A> {
    device: D,
    alteration: A,
}

/// An alteration of calls: what differs from the device itself.
pub trait CallAlteration<D: Device>: Debug + Send + Sync + 'static {
    /// Is called before every call of the device that can fail.
    ///
    /// # Errors
    /// The error of that call, which is then not made.
    fn before(&self, _call: &'static str, _device: &D) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Is called before a list of copies is put into `stream`.
    ///
    /// # Errors
    /// The error of that call, which is then not made.
    fn before_copies(&self, _device: &D, _stream: &D::Stream) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Is called before memory is allocated by [`Device::allocate`].
    ///
    /// # Errors
    /// The error of that call, which is then not made.
    fn before_allocation(&self, _device: &D, _bytes: usize, _kind: MemoryKind) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The properties of the altered device, given those of the device.
    fn info<'a>(&'a self, device: &'a DeviceInfo) -> &'a DeviceInfo {
        device
    }
}

/// An alteration of calls and of memory.
pub trait Alteration<D: Device>: CallAlteration<D> + Clone {
    /// The memory of the altered device.
    type Buffer: Buffer;

    /// See [`Device::allocate`].
    ///
    /// # Errors
    /// As there.
    fn allocate(&self, device: &D, bytes: usize, kind: MemoryKind) -> Result<Self::Buffer, DeviceError>;

    /// See [`MemoryExport::allocate_exportable`]. By default calls `allocate`.
    ///
    /// # Errors
    /// As there.
    fn allocate_exportable(&self, device: &D, bytes: usize) -> Result<Self::Buffer, DeviceError> {
        self.allocate(device, bytes, MemoryKind::Device)
    }

    /// See [`MemoryExport::export`].
    ///
    /// # Errors
    /// As there.
    fn export(&self, device: &D, buffer: &Self::Buffer) -> Result<Vec<u8>, DeviceError>;

    /// See [`MemoryExport::import`].
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// As there.
    unsafe fn import(&self, device: &D, token: &[u8]) -> Result<Self::Buffer, DeviceError>;
}

/// A device with any alteration of calls: one type for all of them, so that exchanges are compiled for it once.
pub type AlteredCalls<D> = Altered<D, Arc<dyn CallAlteration<D>>>;

/// The device with an alteration of its calls.
pub fn with_calls<D: Device>(device: &D, alteration: impl CallAlteration<D>) -> AlteredCalls<D> {
    Altered::new(device, Arc::new(alteration))
}

impl<D: Device> CallAlteration<D> for Arc<dyn CallAlteration<D>> {
    fn before(&self, call: &'static str, device: &D) -> Result<(), DeviceError> {
        (**self).before(call, device)
    }

    fn before_copies(&self, device: &D, stream: &D::Stream) -> Result<(), DeviceError> {
        (**self).before_copies(device, stream)
    }

    fn before_allocation(&self, device: &D, bytes: usize, kind: MemoryKind) -> Result<(), DeviceError> {
        (**self).before_allocation(device, bytes, kind)
    }

    fn info<'a>(&'a self, device: &'a DeviceInfo) -> &'a DeviceInfo {
        (**self).info(device)
    }
}

/// The memory is that of the device.
impl<D: Device> Alteration<D> for Arc<dyn CallAlteration<D>> {
    type Buffer = D::Buffer;

    fn allocate(&self, device: &D, bytes: usize, kind: MemoryKind) -> Result<D::Buffer, DeviceError> {
        device.allocate(bytes, kind)
    }

    fn export(&self, device: &D, buffer: &D::Buffer) -> Result<Vec<u8>, DeviceError> {
        offered(device.memory_export(), "memory that other processes reach", device.id())?.export(buffer)
    }

    unsafe fn import(&self, device: &D, token: &[u8]) -> Result<D::Buffer, DeviceError> {
        let export = offered(device.memory_export(), "memory of other processes", device.id())?;
        // SAFETY: the caller's promise.
        unsafe { export.import(token) }
    }
}

impl<D: Device, A: Alteration<D>> Altered<D, A> {
    /// The altered device.
    pub fn new(device: &D, alteration: A) -> Altered<D, A> {
        Altered { device: device.clone(), alteration }
    }

    fn call(&self, call: &'static str) -> Result<&D, DeviceError> {
        self.alteration.before(call, &self.device)?;
        Ok(&self.device)
    }
}

// SAFETY: every call is that of a device that keeps these promises or of an alteration that keeps them, or does nothing
// and returns an error.
unsafe impl<D: Device, A: Alteration<D>> Device for Altered<D, A> {
    type Stream = D::Stream;
    type Event = D::Event;
    type Buffer = A::Buffer;
    type Copies = D::Copies;
    type Kernel = D::Kernel;
    type Launch = D::Launch;

    fn info(&self) -> &DeviceInfo {
        self.alteration.info(self.device.info())
    }

    fn engine(&self) -> Engine<Self> {
        Engine::of(self)
    }

    fn attach(&self) -> Result<Attached, DeviceError> {
        self.call("attach")?.attach()
    }

    fn default_stream(&self) -> D::Stream {
        self.device.default_stream()
    }

    fn is_default(&self, stream: &D::Stream) -> bool {
        self.device.is_default(stream)
    }

    fn create_stream(&self, priority: Priority) -> Result<D::Stream, DeviceError> {
        self.call("create_stream")?.create_stream(priority)
    }

    unsafe fn borrow_stream(&self, handle: usize) -> Result<D::Stream, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.call("borrow_stream")?.borrow_stream(handle) }
    }

    fn synchronize(&self, stream: &D::Stream) -> Result<(), DeviceError> {
        self.call("synchronize")?.synchronize(stream)
    }

    fn synchronize_all(&self) -> Result<(), DeviceError> {
        self.call("synchronize_all")?.synchronize_all()
    }

    fn create_event(&self, timing: bool) -> Result<D::Event, DeviceError> {
        self.call("create_event")?.create_event(timing)
    }

    fn record(&self, event: &D::Event, stream: &D::Stream) -> Result<(), DeviceError> {
        self.call("record")?.record(event, stream)
    }

    fn stream_wait(&self, stream: &D::Stream, event: &D::Event) -> Result<(), DeviceError> {
        self.call("stream_wait")?.stream_wait(stream, event)
    }

    fn host_wait(&self, event: &D::Event) -> Result<(), DeviceError> {
        self.call("host_wait")?.host_wait(event)
    }

    fn query(&self, event: &D::Event) -> Result<bool, DeviceError> {
        self.call("query")?.query(event)
    }

    fn elapsed(&self, begin: &D::Event, end: &D::Event) -> Result<Duration, DeviceError> {
        self.call("elapsed")?.elapsed(begin, end)
    }

    fn defer_frees(&self) {
        self.device.defer_frees();
    }

    fn resume_frees(&self) {
        self.device.resume_frees();
    }

    fn check_not_captured(&self, stream: &D::Stream) -> Result<(), DeviceError> {
        self.call("check_not_captured")?.check_not_captured(stream)
    }

    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<A::Buffer, DeviceError> {
        let device = self.call("allocate")?;
        self.alteration.before_allocation(device, bytes, kind)?;
        self.alteration.allocate(device, bytes, kind)
    }

    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError> {
        self.call("reaches")?.reaches(other)
    }

    unsafe fn copy(
        &self,
        source: Pointer,
        target: Pointer,
        bytes: usize,
        stream: &D::Stream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.call("copy")?.copy(source, target, bytes, stream) }
    }

    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &D::Stream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.call("write")?.write(source, target, stream) }
    }

    unsafe fn read(&self, source: Pointer, target: &mut [u8], stream: &D::Stream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.call("read")?.read(source, target, stream) }
    }

    unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        count: usize,
        stream: &D::Stream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.call("fill")?.fill(target, element, count, stream) }
    }

    fn bind_copies(&self, items: Vec<CopyItem>, reader: NextReader) -> Result<D::Copies, DeviceError> {
        self.call("bind_copies")?.bind_copies(items, reader)
    }

    unsafe fn run_copies(
        &self,
        copies: &D::Copies,
        bases: &[Pointer],
        stream: &D::Stream,
    ) -> Result<(), DeviceError> {
        let device = self.call("run_copies")?;
        self.alteration.before_copies(device, stream)?;
        // SAFETY: the caller's promise.
        unsafe { device.run_copies(copies, bases, stream) }
    }

    fn compile(&self, source: &KernelSource) -> Result<D::Kernel, DeviceError> {
        self.call("compile")?.compile(source)
    }

    fn bind(
        &self,
        kernel: &D::Kernel,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<D::Launch, DeviceError> {
        self.call("bind")?.bind(kernel, config, arguments)
    }

    fn rebind(
        &self,
        launch: &mut D::Launch,
        index: usize,
        argument: KernelArgument,
    ) -> Result<(), DeviceError> {
        self.call("rebind")?.rebind(launch, index, argument)
    }

    unsafe fn launch(&self, launch: &D::Launch, stream: &D::Stream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.call("launch")?.launch(launch, stream) }
    }

    fn immediate_streams(&self) -> Option<&dyn ImmediateStreams<D::Stream>> {
        self.info().capabilities.immediate_streams.then_some(self as _)
    }

    fn gates(&self) -> Option<&dyn Gates<D::Stream>> {
        self.info().capabilities.gates.then_some(self as _)
    }

    fn stream_words(&self) -> Option<&dyn StreamWords<D::Stream, D::Copies>> {
        self.info().capabilities.stream_words.then_some(self as _)
    }

    fn combining(&self) -> Option<&dyn Combining<D::Copies>> {
        self.info().capabilities.combining.then_some(self as _)
    }

    fn memory_export(&self) -> Option<&dyn MemoryExport<A::Buffer>> {
        self.info().capabilities.memory_export.then_some(self as _)
    }

    fn stream_messaging(&self) -> Option<&dyn StreamMessaging<D::Stream>> {
        self.info().capabilities.stream_messages.then_some(self as _)
    }
}

impl<D: Device, A: Alteration<D>> ImmediateStreams<D::Stream> for Altered<D, A> {
    fn create_immediate_stream(&self) -> Result<D::Stream, DeviceError> {
        let device = self.call("create_immediate_stream")?;
        offered(device.immediate_streams(), "immediate streams", device.id())?.create_immediate_stream()
    }
}

impl<D: Device, A: Alteration<D>> Gates<D::Stream> for Altered<D, A> {
    fn gate(&self, stream: &D::Stream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
        let device = self.call("gate")?;
        offered(device.gates(), "gates", device.id())?.gate(stream)
    }

    fn flush_remote_writes(&self) -> Result<(), DeviceError> {
        let device = self.call("flush_remote_writes")?;
        offered(device.gates(), "gates", device.id())?.flush_remote_writes()
    }
}

impl<D: Device, A: Alteration<D>> StreamWords<D::Stream, D::Copies> for Altered<D, A> {
    unsafe fn register_words(
        &self,
        memory: Pointer,
        bytes: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Box<dyn Any + Send + Sync>, DeviceError> {
        let words = words_of(self.call("register_words")?)?;
        // SAFETY: the caller's promise.
        unsafe { words.register_words(memory, bytes, owner) }
    }

    unsafe fn put_words(&self, operations: &[WordOperation], stream: &D::Stream) -> Result<(), DeviceError> {
        let words = words_of(self.call("put_words")?)?;
        // SAFETY: the caller's promise.
        unsafe { words.put_words(operations, stream) }
    }

    unsafe fn run_copies_unless(
        &self,
        stop: Pointer,
        copies: &D::Copies,
        bases: &[Pointer],
        stream: &D::Stream,
    ) -> Result<(), DeviceError> {
        let device = self.call("run_copies_unless")?;
        self.alteration.before_copies(device, stream)?;
        // SAFETY: the caller's promise.
        unsafe { words_of(device)?.run_copies_unless(stop, copies, bases, stream) }
    }
}

impl<D: Device, A: Alteration<D>> Combining<D::Copies> for Altered<D, A> {
    fn bind_combining(&self, items: Vec<CombineItem>) -> Result<D::Copies, DeviceError> {
        let device = self.call("bind_combining")?;
        offered(device.combining(), "copies that combine", device.id())?.bind_combining(items)
    }
}

impl<D: Device, A: Alteration<D>> MemoryExport<A::Buffer> for Altered<D, A> {
    fn allocate_exportable(&self, bytes: usize) -> Result<A::Buffer, DeviceError> {
        self.alteration.allocate_exportable(self.call("allocate_exportable")?, bytes)
    }

    fn export(&self, buffer: &A::Buffer) -> Result<Vec<u8>, DeviceError> {
        self.alteration.export(self.call("export")?, buffer)
    }

    unsafe fn import(&self, token: &[u8]) -> Result<A::Buffer, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.alteration.import(self.call("import")?, token) }
    }
}

impl<D: Device, A: Alteration<D>> StreamMessaging<D::Stream> for Altered<D, A> {
    fn offer_stream_messages(&self) -> Result<StreamMessagesOffer, DeviceError> {
        messaging_of(self.call("offer_stream_messages")?)?.offer_stream_messages()
    }

    fn stream_messages_token(&self) -> Result<Vec<u8>, DeviceError> {
        messaging_of(self.call("stream_messages_token")?)?.stream_messages_token()
    }

    fn join_stream_messages(
        &self,
        group: &StreamGroup<'_>,
    ) -> Result<Box<dyn StreamMessages<D::Stream>>, DeviceError> {
        messaging_of(self.call("join_stream_messages")?)?.join_stream_messages(group)
    }
}

fn words_of<D: Device>(device: &D) -> Result<&dyn StreamWords<D::Stream, D::Copies>, DeviceError> {
    offered(device.stream_words(), "words in streams", device.id())
}

/// The messages of streams of a device that has them.
pub(crate) fn messaging_of<D: Device>(device: &D) -> Result<&dyn StreamMessaging<D::Stream>, DeviceError> {
    offered(device.stream_messaging(), "messages in streams", device.id())
}
