//! The trait that a backend implements.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Attached, BoxCopy, Buffer, CopyItem, DeviceError, DeviceId, DeviceInfo, Event, KernelArgument,
    KernelSource, LaunchConfig, MemoryKind, NextReader, Pointer, Priority, Stream, StreamGroup,
    StreamMessages, StreamMessagesOffer, WordOperation,
};

/// A processor with memory, streams and kernels. Cloning gives another handle to the same device.
///
/// Calls that take a stream return as soon as the work is in the stream, unless they say otherwise. On a device that is
/// not [`asynchronous`](DeviceInfo::asynchronous), the work is done when they return, streams and events have the
/// handle 0, and waiting costs nothing.
///
/// # What each device has
/// The author of a backend writes
/// - `info`;
/// - for streams: `default_stream`, `create_stream`, `borrow_stream`, `synchronize`;
/// - for events: `create_event`, `record`, `stream_wait`, `host_wait`, `query`, `elapsed`;
/// - for memory: `allocate`, `copy`, `copy_box`, `write`, `read`, `fill`, `bind_copies`, `run_copies`;
/// - for kernels: `compile`, `bind`, `rebind`, `launch`.
///
/// The defaults of `id`, `attach`, `is_default`, `allocate_on` and `reaches` are right for most devices.
///
/// # Capabilities
/// All other methods are optional. A flag of [`Capabilities`](super::Capabilities), in [`DeviceInfo::capabilities`],
/// says whether the device offers them, and callers ask the flag first. A backend sets the flag and writes the methods,
/// or does neither: by default they return [`DeviceError::Unsupported`].
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
/// give, and reports an event or a stream as complete only when the work before it is. The same holds for its buffers.
/// The exchange, which is safe, relies on that.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device",
    label = "not a device",
    note = "devices are those of the backends, such as `CpuDevice`, `CudaDevice`, `SyclDevice` and `DefaultDevice`",
    note = "an `AnyDevice` holds one of them, and `with_device!(&any, |device| run(device))` hands that to generic code"
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

    /// The identity of the device.
    fn id(&self) -> DeviceId {
        self.info().id
    }

    // Threads

    /// Prepares the calling thread for several calls of this device, and of libraries that use it, such as MPI, until the
    /// result is dropped (on CUDA, the device's context stays current). The methods of this trait also work without it, but
    /// may be slower. Until then, other code in this thread leaves that state as it finds it. By default does nothing.
    ///
    /// # Errors
    /// Errors of the driver.
    fn attach(&self) -> Result<Attached, DeviceError> {
        Ok(Attached::default())
    }

    // Streams

    /// The stream in which callers work unless they name another one (on CUDA the legacy default stream).
    fn default_stream(&self) -> Self::Stream;

    /// Whether `stream` is a default stream, in which code that knows nothing of the caller may work, too: a device may
    /// have several, and several handles of one.
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

    /// Allocates device memory and fills it with zeros, both in stream order. By default calls `allocate`.
    ///
    /// # Errors
    /// As for [`allocate`](Device::allocate).
    fn allocate_on(&self, bytes: usize, _stream: &Self::Stream) -> Result<Self::Buffer, DeviceError> {
        self.allocate(bytes, MemoryKind::Device)
    }

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

    /// Copies a strided box, with its sign change if it has one; source and target do not overlap.
    ///
    /// # Safety
    /// See the trait.
    ///
    /// # Errors
    /// Errors of the driver.
    unsafe fn copy_box(&self, copy: &BoxCopy, stream: &Self::Stream) -> Result<(), DeviceError>;

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
    /// overlaps another target or a source. `reader` says who reads the targets next; it affects only the speed.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for a list that the device cannot lay out; errors of the driver.
    fn bind_copies(&self, items: Vec<CopyItem>, reader: NextReader) -> Result<Self::Copies, DeviceError>;

    /// Runs a list of copies, as one launch if the device can. Block `k`, which ends of copies are
    /// [anchored](BoxCopy::anchored) to, begins at `bases[k]` in this run; `bases` is read before the call returns. Runs
    /// that are still under way keep theirs. Neither blocks nor allocates.
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

    // Capability `all_streams`
    /// Blocks the host until all work of every stream, handle and thread is done, and returns the first error of that
    /// work. Borrowed streams count as long as they are borrowed.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability; errors of the work.
    fn synchronize_all(&self) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported { what: "waiting for all streams at once", device: self.id() })
    }

    // Capability `immediate_streams`, for asynchronous devices only
    /// Makes a stream whose work the calling thread does alone, before the call returns, so that no thread of the
    /// device has to wake up. A wait for an event in it blocks the host.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability; errors of the driver.
    fn create_immediate_stream(&self) -> Result<Self::Stream, DeviceError> {
        Err(DeviceError::Unsupported { what: "immediate streams", device: self.id() })
    }

    // Capability `gates`
    /// Puts a gate into `stream`: later work waits until the host calls or drops the returned function. While a gate is
    /// closed, the host makes no call that waits for the device or allocates, and [frees nothing](Device::defer_frees).
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability, for an immediate stream, or if the driver refuses it there;
    /// errors of the driver.
    fn gate(&self, _stream: &Self::Stream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
        Err(DeviceError::Unsupported { what: "gates in a stream", device: self.id() })
    }

    // Capabilities `gates`, `stream_words` and `stream_messages`
    /// From now on streams may wait for neighbours, or for what this host does later. Freeing memory could wait for these
    /// streams, and meanwhile keep other threads of the process from the calls that would end the wait. So memory that is
    /// dropped from now on is freed later, if freeing waits. Calls are counted. By default does nothing.
    fn defer_frees(&self) {}

    /// Takes one call of [`defer_frees`](Device::defer_frees) back: the streams go on by themselves. After the last one,
    /// memory that was dropped meanwhile is freed, which may block until work is done. By default does nothing.
    fn resume_frees(&self) {}

    // Capability `gates`
    /// Makes arrived writes of a network adapter to memory of this device visible to work that is already in streams, behind
    /// gates. Callers call it after the host has learnt of the arrival, and before they open these gates. Work that is put into
    /// streams later sees such writes in any case. Does not wait for work in streams. By default does nothing.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if that is impossible: then callers put no work behind gates that reads such memory.
    /// Errors of the driver.
    fn flush_remote_writes(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    // Capability `host_calls`
    /// Calls `function` once, from a thread of the driver, when the work that is now in `stream` is done or has failed;
    /// on a device that is not asynchronous, before this returns. Later work may or may not wait for `function`, which
    /// returns soon and makes no call of a device.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability; errors of the driver.
    fn call_host(
        &self,
        _stream: &Self::Stream,
        _function: Box<dyn FnOnce() + Send>,
    ) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported { what: "calls of the host from a stream", device: self.id() })
    }

    // On devices whose streams other programs capture
    /// Checks that no program captures `stream`. An exchange cannot be part of captured work: it puts work into streams of
    /// its own, waits for it and sends. By default, no stream is captured.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if the stream is being captured; errors of the driver.
    fn check_not_captured(&self, _stream: &Self::Stream) -> Result<(), DeviceError> {
        Ok(())
    }

    // Capability `stream_words`
    /// Makes memory of the host, such as memory that processes share, usable for [`put_words`](Device::put_words) on
    /// this device until the result is dropped. `memory` is a multiple of 4096, as is `bytes`. Memory of the kind
    /// [`MemoryKind::Pinned`] is usable without this. May block.
    ///
    /// # Safety
    /// The memory stays mapped as long as `owner` lives, which the device drops when the memory is not registered any more,
    /// and which owns no memory of a device. It is registered once at a time in this process.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability, and for memory that the driver refuses; errors of the driver.
    unsafe fn register_words(
        &self,
        _memory: Pointer,
        _bytes: usize,
        _owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Box<dyn Any + Send + Sync>, DeviceError> {
        Err(DeviceError::Unsupported { what: "words in memory of the host", device: self.id() })
    }

    /// Puts operations on words into `stream`, in this order. The driver does not know the order that words give. So
    /// while a stream awaits a word, the host makes no call that waits for the device or allocates memory, and
    /// [frees none](Device::defer_frees). If streams [share queues](DeviceInfo::shared_queues), the word is not written by
    /// work that this process puts into any stream of the device after the wait. Does not block.
    ///
    /// # Safety
    /// The words are in pinned memory of any device of this backend, or registered for this one, until the work is done.
    /// All others access them as atomics.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability; errors of the driver.
    unsafe fn put_words(
        &self,
        _operations: &[WordOperation],
        _stream: &Self::Stream,
    ) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported { what: "words in streams", device: self.id() })
    }

    /// As [`run_copies`](Device::run_copies), but copies nothing if the word at `stop` is not 0 when the device gets
    /// there: the device then accesses no source and no target.
    ///
    /// # Safety
    /// As for [`run_copies`](Device::run_copies), while the word is 0. The word is one for
    /// [`put_words`](Device::put_words).
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability; errors of the driver.
    unsafe fn run_copies_unless(
        &self,
        _stop: Pointer,
        _copies: &Self::Copies,
        _bases: &[Pointer],
        _stream: &Self::Stream,
    ) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported { what: "copies that a word stops", device: self.id() })
    }

    // Capability `memory_export`
    /// Allocates device memory as [`allocate`](Device::allocate) does, for data that other processes will map: what they
    /// map then holds no other memory of this process. It may take whole pages, such as 2 MiB. May block. By default
    /// calls `allocate`.
    ///
    /// # Errors
    /// As for [`allocate`](Device::allocate).
    fn allocate_exportable(&self, bytes: usize) -> Result<Self::Buffer, DeviceError> {
        self.allocate(bytes, MemoryKind::Device)
    }

    /// A token by which another process of this node finds the memory of `buffer`. Moves nothing.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability, and for a buffer that was imported or is not device memory
    /// from [`allocate`](Device::allocate) or [`allocate_exportable`](Device::allocate_exportable); errors of the driver.
    fn export(&self, _buffer: &Self::Buffer) -> Result<Vec<u8>, DeviceError> {
        Err(DeviceError::Unsupported { what: "memory that other processes reach", device: self.id() })
    }

    /// The memory that a device of the same backend has [exported](Device::export) in another process, mapped until the
    /// returned buffer is dropped. May block.
    ///
    /// # Safety
    /// The other process keeps its buffer for as long.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability; [`DeviceError::InvalidArgument`] for anything but such a
    /// token; [`DeviceError::NotFound`] if the other process does not hand the memory over; errors of the driver.
    unsafe fn import(&self, _token: &[u8]) -> Result<Self::Buffer, DeviceError> {
        Err(DeviceError::Unsupported { what: "memory of other processes", device: self.id() })
    }
    // Capability `stream_messages`
    /// The processor and the library of this rank, for the ranks that are to form a group. All ranks exchange their
    /// offers, and form a group only if each has one and [`StreamMessagesOffer::reason_against_group`] finds no reason against
    /// it. Loads the library that moves the messages. May block, but waits for no rank.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability; [`DeviceError::NotFound`] if the library is missing or too
    /// old; errors of the driver and the library.
    fn offer_stream_messages(&self) -> Result<StreamMessagesOffer, DeviceError> {
        Err(DeviceError::Unsupported { what: "messages in streams", device: self.id() })
    }

    /// Makes the token of a new group. One rank makes it, and gives it to all others. A token is for one group.
    ///
    /// # Errors
    /// As for [`offer_stream_messages`](Device::offer_stream_messages).
    fn stream_messages_token(&self) -> Result<Vec<u8>, DeviceError> {
        Err(DeviceError::Unsupported { what: "messages in streams", device: self.id() })
    }

    /// Joins a group, together with all its other ranks, and connects to the peers. Blocks until they have done the same,
    /// at most until the time limit.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability; [`DeviceError::InvalidArgument`] for a token, a rank or a peer
    /// that cannot be; errors of the driver and the library, also if ranks are missing at the time limit. One rank may
    /// get an error while others get none: the caller then aborts on all ranks.
    fn join_stream_messages(
        &self,
        _group: &StreamGroup<'_>,
    ) -> Result<Box<dyn StreamMessages<Self::Stream>>, DeviceError> {
        Err(DeviceError::Unsupported { what: "messages in streams", device: self.id() })
    }
}
