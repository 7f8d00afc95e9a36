//! The trait that a backend implements.

use std::fmt::Debug;
use std::time::Duration;

use super::{
    Attached, Buffer, Combining, CopyItem, DeviceError, DeviceId, DeviceInfo, Engine, Event, Gates,
    ImmediateStreams, KernelArgument, KernelSource, LaunchConfig, MemoryExport, MemoryKind, NextReader,
    Pointer, Priority, Stream, StreamMessaging, StreamWords,
};

/// A processor with memory, streams and kernels. Cloning gives another handle to the same device.
///
/// Calls that take a stream return as soon as the work is in the stream, unless they say otherwise. On a device that is
/// not [`asynchronous`](DeviceInfo::asynchronous), the work is done when they return, streams and events have the
/// handle 0, and waiting costs nothing.
///
/// # What each device has
/// The author of a backend writes
/// - `info`, and `engine`, which is always the same line;
/// - for streams: `default_stream`, `create_stream`, `borrow_stream`, `synchronize`, `synchronize_all`;
/// - for events: `create_event`, `record`, `stream_wait`, `host_wait`, `query`, `elapsed`;
/// - for memory: `allocate`, `copy`, `write`, `read`, `fill`, `bind_copies`, `run_copies`;
/// - for kernels: `compile`, `bind`, `rebind`, `launch`.
///
/// The defaults of `id`, `attach`, `is_default`, `reaches` and `check_not_captured` are right for most devices;
/// `defer_frees` and `resume_frees` concern those with gates, words or messages of streams.
///
/// # Roles
/// What only some devices can do is in traits of their own: [`ImmediateStreams`], [`Gates`], [`StreamWords`], [`Combining`],
/// [`MemoryExport`] and [`StreamMessaging`]. A device hands itself out for each role that it has, and sets its
/// flag in [`DeviceInfo::capabilities`], which is for reports: the conformance suite checks that the two agree.
///
/// # Safety of the unsafe calls
/// A call that takes addresses or arguments may use them until its work has finished in stream order, not only until it
/// returns. From the call until then the caller promises that
/// - every address is valid memory of this device, or host memory that the device can reach, for the whole range that
///   the call reads or writes;
/// - nothing writes what the work reads, and nothing reads or writes what the work writes, unless streams and events
///   order it before or after. Without such an order, two overlapping accesses are a data race if one is a write.
///
/// # Safety
/// An implementation does to memory what its methods document and nothing else, keeps the order that streams and events
/// give, and reports an event or a stream as complete only when the work before it is. The same holds for its buffers and
/// its roles. The exchange, which is safe, relies on that.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device",
    label = "not a device",
    note = "devices are those of the backends, such as `CpuDevice`, `CudaDevice`, `SyclDevice` and `DefaultDevice`, and \
            `AnyDevice`, which holds one of them"
)]
pub unsafe trait Device: Clone + Debug + Send + Sync + 'static {
    /// A stream of this device.
    type Stream: Stream;
    /// An event of this device.
    type Event: Event;
    /// Memory of this device.
    type Buffer: Buffer;
    /// A list of copies, checked and laid out for this device.
    type Copies: Debug + Send + 'static;
    /// A compiled kernel.
    type Kernel: Debug + Send + Sync + 'static;
    /// A kernel with its arguments bound.
    type Launch: Debug + Send + 'static;

    /// The properties of the device.
    fn info(&self) -> &DeviceInfo;

    /// [`Engine::of`]`(self)`, which exchanges the fields on the device. It is compiled with this method: once, in the crate
    /// of the backend.
    fn engine(&self) -> Engine<Self>;

    /// The identity of the device.
    fn id(&self) -> DeviceId {
        self.info().id
    }

    // Threads

    /// Prepares the calling thread for several calls of this device, and of libraries that use it, such as MPI, until the
    /// result is dropped (on CUDA, the device's context stays current). Until then, other code in this thread leaves
    /// that state as it finds it. Without this call the methods of this trait work, too, but may be slower. By
    /// default does nothing.
    ///
    /// # Errors
    /// Errors of the driver.
    fn attach(&self) -> Result<Attached, DeviceError> {
        Ok(Attached::default())
    }

    // Streams

    /// The stream in which callers work unless they name another one (on CUDA the legacy default stream).
    fn default_stream(&self) -> Self::Stream;

    /// Whether `stream` is a default stream, in which code unrelated to the caller may work, too. A device may have
    /// several default streams, and several handles of one.
    fn is_default(&self, stream: &Self::Stream) -> bool {
        stream.handle() == self.default_stream().handle()
    }

    /// Makes a stream, which waits for no other unless [`stream_wait`](Device::stream_wait) says so.
    ///
    /// # Errors
    /// Errors of the driver.
    fn create_stream(&self, priority: Priority) -> Result<Self::Stream, DeviceError>;

    /// A stream that the caller owns, by its native handle. The library never destroys it.
    ///
    /// # Safety
    /// `handle` is a live stream of this device (0 is the default stream). It outlives every clone of the returned
    /// stream and all work in them.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if the handle cannot belong to this device.
    unsafe fn borrow_stream(&self, handle: usize) -> Result<Self::Stream, DeviceError>;

    /// Blocks the host until all work in `stream` is done, and returns the first error of that work.
    ///
    /// # Errors
    /// Errors of the work.
    fn synchronize(&self, stream: &Self::Stream) -> Result<(), DeviceError>;

    /// Blocks the host until all work of every stream, handle and thread is done, and returns the first error of that
    /// work. Borrowed streams count as long as they are borrowed.
    ///
    /// # Errors
    /// Errors of the work.
    fn synchronize_all(&self) -> Result<(), DeviceError>;

    /// Checks that no program captures `stream`. An exchange cannot be part of captured work: it puts work into streams of
    /// its own, waits for it and sends. By default, no stream is captured.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if the stream is being captured; errors of the driver.
    fn check_not_captured(&self, _stream: &Self::Stream) -> Result<(), DeviceError> {
        Ok(())
    }

    // Events

    /// Makes an event. Only an event made with `timing` can be given to [`elapsed`](Device::elapsed).
    ///
    /// # Errors
    /// Errors of the driver.
    fn create_event(&self, timing: bool) -> Result<Self::Event, DeviceError>;

    /// Puts `event` at the present end of `stream`. Waits for an earlier recording keep that one.
    ///
    /// # Errors
    /// Errors of the driver.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<(), DeviceError>;

    /// Makes later work in `stream` wait for the latest recording of `event`. The host does not wait.
    ///
    /// # Errors
    /// Errors of the driver.
    fn stream_wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<(), DeviceError>;

    /// Blocks the host until the latest recording of `event` is reached.
    ///
    /// # Errors
    /// Errors of the work before the event.
    fn host_wait(&self, event: &Self::Event) -> Result<(), DeviceError>;

    /// Whether the latest recording of `event` is reached. Does not block.
    ///
    /// # Errors
    /// Errors of the work before the event.
    fn query(&self, event: &Self::Event) -> Result<bool, DeviceError>;

    /// The time between two recorded events, both complete and made with timing.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for an event without timing, not recorded or not complete.
    fn elapsed(&self, begin: &Self::Event, end: &Self::Event) -> Result<Duration, DeviceError>;

    // Memory

    /// Allocates `bytes` bytes of the given kind, filled with zeros. May block.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; [`DeviceError::Unsupported`] for a kind that the device does not
    /// [offer](DeviceInfo::offers).
    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<Self::Buffer, DeviceError>;

    /// Whether kernels and copies of this device reach memory that `other` has allocated in this process; enables that
    /// if the driver requires it. By default, a device reaches only its own memory.
    ///
    /// # Errors
    /// Errors of the driver.
    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError> {
        Ok(other == self.id())
    }

    // Copies, fills and lists of copies

    /// Copies `bytes` bytes; the two ranges do not overlap.
    ///
    /// # Safety
    /// See the trait.
    ///
    /// # Errors
    /// Errors of the driver.
    unsafe fn copy(
        &self,
        source: Pointer,
        target: Pointer,
        bytes: usize,
        stream: &Self::Stream,
    ) -> Result<(), DeviceError>;

    /// Copies host memory to the device, in stream order, and blocks until the data is there: callers start work in other
    /// streams right after it.
    ///
    /// # Safety
    /// See the trait, for `target`.
    ///
    /// # Errors
    /// Errors of the driver.
    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &Self::Stream) -> Result<(), DeviceError>;

    /// Copies from the device to host memory, in stream order, and blocks until the data is there.
    ///
    /// # Safety
    /// See the trait, for `source`.
    ///
    /// # Errors
    /// Errors of the driver.
    unsafe fn read(
        &self,
        source: Pointer,
        target: &mut [u8],
        stream: &Self::Stream,
    ) -> Result<(), DeviceError>;

    /// Writes the bytes of `element` (1, 2, 4, 8 or 16 bytes) `count` times in sequence.
    ///
    /// # Safety
    /// See the trait, for `target`.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for another element size; errors of the driver.
    unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        count: usize,
        stream: &Self::Stream,
    ) -> Result<(), DeviceError>;

    /// Lays out a list of copies that is run many times. Its copies have no order among themselves, and no target
    /// overlaps another target or a source. `reader` is the next reader of the targets; it affects only the speed.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for a list that the device cannot lay out; errors of the driver.
    fn bind_copies(&self, items: Vec<CopyItem>, reader: NextReader) -> Result<Self::Copies, DeviceError>;

    /// Runs a list of copies, as one launch if the device can. Block `k`, which ends of copies are
    /// [anchored](super::BoxCopy::anchored) to, begins at `bases[k]` in this run; `bases` is read before the call
    /// returns. Runs that are still under way keep their own `bases`. Neither blocks nor allocates.
    ///
    /// # Safety
    /// See the trait, for every source and target of the list. `bases` has an entry for every block of the list.
    ///
    /// # Errors
    /// Errors of the driver.
    unsafe fn run_copies(
        &self,
        copies: &Self::Copies,
        bases: &[Pointer],
        stream: &Self::Stream,
    ) -> Result<(), DeviceError>;

    // Kernels

    /// Compiles a kernel, or takes it from the cache. May block.
    ///
    /// # Errors
    /// [`DeviceError::Compile`] with the compiler's log.
    fn compile(&self, source: &KernelSource) -> Result<Self::Kernel, DeviceError>;

    /// Binds arguments to a kernel, so that [`launch`](Device::launch) takes only the stream. Argument `index` becomes
    /// parameter `index`, in the order of [`KernelSource::parameters`]: an address as an address, a number as a number
    /// of its type. A shape or strides are several parameters; by convention pointers come first, then shapes and
    /// strides, then other numbers.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if arguments and parameters differ.
    fn bind(
        &self,
        kernel: &Self::Kernel,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<Self::Launch, DeviceError>;

    /// Replaces one bound argument and touches no other; launches that are already in a stream keep the old one.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for an index or a type that does not fit.
    fn rebind(
        &self,
        launch: &mut Self::Launch,
        index: usize,
        argument: KernelArgument,
    ) -> Result<(), DeviceError>;

    /// Runs a bound kernel.
    ///
    /// # Safety
    /// See the trait, for everything that the kernel reads and writes through its arguments.
    ///
    /// # Errors
    /// Errors of the driver.
    unsafe fn launch(&self, launch: &Self::Launch, stream: &Self::Stream) -> Result<(), DeviceError>;

    // Roles

    /// Streams whose work the calling thread does. `None`, the default: a thread of the driver wakes up for each blocking
    /// exchange.
    fn immediate_streams(&self) -> Option<&dyn ImmediateStreams<Self::Stream>> {
        None
    }

    /// Points in streams that the host opens. `None`, the default: `finish` on a stream blocks the host until all messages
    /// have arrived.
    fn gates(&self) -> Option<&dyn Gates<Self::Stream>> {
        None
    }

    /// Words that streams write and await. `None`, the default: the host queries events, and hosts hand over the fields
    /// that neighbours copy.
    fn stream_words(&self) -> Option<&dyn StreamWords<Self::Stream, Self::Copies>> {
        None
    }

    /// Copies that combine. `None`, the default: halos of fields on the device cannot be accumulated.
    fn combining(&self) -> Option<&dyn Combining<Self::Copies>> {
        None
    }

    /// Memory that other processes of the node reach. `None`, the default: fields reach other processes in messages, unless
    /// the device [runs on the host](DeviceInfo::runs_on_host).
    fn memory_export(&self) -> Option<&dyn MemoryExport<Self::Buffer>> {
        None
    }

    /// Messages between ranks that streams send and receive; whether the library is installed shows only when it is asked
    /// for. `None`, the default: the transport moves all messages.
    fn stream_messaging(&self) -> Option<&dyn StreamMessaging<Self::Stream>> {
        None
    }

    // On devices with gates, words or messages of streams

    /// From now on streams may wait for neighbours, or for what this host does later. Freeing memory could wait for these
    /// streams, and meanwhile keep other threads of the process from the calls that would end the wait. So memory that is
    /// dropped from now on is freed later, if freeing waits. Calls are counted. By default does nothing.
    fn defer_frees(&self) {}

    /// Takes one call of [`defer_frees`](Device::defer_frees) back: the streams go on by themselves. After the last one,
    /// memory that was dropped meanwhile is freed, which may block until work is done. By default does nothing.
    fn resume_frees(&self) {}
}
