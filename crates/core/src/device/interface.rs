//! The trait that a backend implements.

use std::fmt::Debug;
use std::time::Duration;

use super::{
    BoxCopy, Buffer, Captured, CopyItem, DeviceError, DeviceId, DeviceInfo, Event, Flag, KernelArgument,
    KernelSource, LaunchConfig, MemoryKind, NextReader, Pointer, Priority, Stream,
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
/// The defaults of `id`, `allocate_on` and `reaches` are right for most devices.
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
/// give, and reports an event or a stream as complete only when the work before it is. The same holds for its buffers,
/// its flags and its captured work. The exchange, which is safe, relies on that.
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

    // Streams

    /// The stream in which callers work unless they name another one (on CUDA the legacy default stream).
    fn default_stream(&self) -> Self::Stream;

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
    /// closed, the host makes no call that waits for the device, allocates or frees.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability, for an immediate stream, or if the driver refuses it there;
    /// errors of the driver.
    fn gate(&self, _stream: &Self::Stream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
        Err(DeviceError::Unsupported { what: "gates in a stream", device: self.id() })
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

    // Capability `capture`
    /// Captures what `work` puts into `stream`, instead of doing it. Between a wait for an event of `stream` and a wait
    /// of `stream` for one of their events, other streams are captured along. May block. `work` puts only launches,
    /// copies, fills, flags and the order of events into streams. It does not wait, ask whether something is done,
    /// allocate, free, write or read. No other thread puts anything into these streams meanwhile.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability, and for a stream that cannot be captured; the error of
    /// `work`; errors of the driver, also if `work` does what it may not.
    fn capture(
        &self,
        _stream: &Self::Stream,
        _work: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<Box<dyn Captured<Self::Stream>>, DeviceError> {
        Err(DeviceError::Unsupported { what: "capturing work", device: self.id() })
    }

    /// Makes a flag for streams of this device, also for captured work.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability; errors of the driver.
    fn create_flag(&self) -> Result<Box<dyn Flag<Self::Stream>>, DeviceError> {
        Err(DeviceError::Unsupported { what: "flags in streams", device: self.id() })
    }

    // Capability `memory_export`
    /// A token by which another process of this node finds the memory of `buffer`. Moves nothing.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] without the capability, and for a buffer that was imported or is not device memory
    /// from [`allocate`](Device::allocate); errors of the driver.
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
    /// token; errors of the driver.
    unsafe fn import(&self, _token: &[u8]) -> Result<Self::Buffer, DeviceError> {
        Err(DeviceError::Unsupported { what: "memory of other processes", device: self.id() })
    }
}
