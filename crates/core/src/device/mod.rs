//! The device layer: streams, events, memory, asynchronous copies and kernels, as one small trait.
//!
//! [`Device`] is the unsafe layer: calls whose effect outlives them have written contracts. The exchange above it
//! is safe. A backend implements this one trait and proves it with the conformance suite. One that compiles kernels at run
//! time keeps them in the [`KernelCache`].

mod cache;
mod captured;
mod copy;
mod current;
pub mod dialect;
mod error;
mod info;
mod kernel;
mod memory;
mod memory_kind;
mod stream;

use std::fmt::Debug;
use std::time::Duration;

pub use cache::{KernelCache, KernelKey, KernelParts};
pub use captured::{Captured, Flag};
pub use copy::{
    Anchors, BoxCopy, CopyAxis, CopyItem, IndexedCopy, MAX_COPY_AXES, NextReader, Rows, SignChange,
};
pub use current::{CurrentStream, current_stream, make_current};
pub use error::DeviceError;
pub use info::{DeviceId, DeviceInfo};
pub use kernel::{HostKernel, IndexRange, KernelArgument, KernelSource, LaunchConfig, ParameterType};
pub use memory::{Buffer, MemoryRange, Pointer};
pub use memory_kind::MemoryKind;
pub use stream::{AnyStream, Event, Priority, Stream};

/// A processor with memory, streams and kernels. Cloning gives another handle to the same device.
///
/// Calls that take a stream return as soon as the work is in the stream, unless they say otherwise; on a device
/// that is not [`asynchronous`](DeviceInfo::asynchronous) the work is done when they return, streams and events
/// have the handle 0, and waiting costs nothing.
///
/// # Safety of the unsafe calls
/// A call that is given addresses or arguments may use them until its work has finished in stream order, not only
/// until it returns. From the call until then the caller promises that
/// - every address is valid memory of this device, or host memory that the device can reach, for the whole range
///   that the call reads or writes;
/// - nothing writes what the work reads, and nothing reads or writes what the work writes, unless it is ordered
///   before or after by streams and events. Two accesses that overlap, of which one is a write, and which are not
///   so ordered, are a data race.
///
/// # Safety
/// An implementation does to memory what its methods say and nothing else, keeps the order that streams and events
/// give, and reports an event or a stream as complete only when the work before it is; so do its buffers, its flags
/// and what it captures. The exchange above, which is safe, relies on that.
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

    /// The stream that the device's users work on unless they say otherwise (on CUDA the legacy default stream).
    fn default_stream(&self) -> Self::Stream;

    /// Makes a stream, which waits for no other unless told to.
    ///
    /// # Errors
    /// What the driver says.
    fn create_stream(&self, priority: Priority) -> Result<Self::Stream, DeviceError>;

    /// Makes a stream whose work is done by the thread that puts it there, before the call returns: no thread of the device
    /// has to wake for it, and none shares it. A wait for an event in such a stream blocks the host. `None` where an
    /// asynchronous device has no such streams, which is the default, and on all others, whose work is done then anyway.
    ///
    /// # Errors
    /// What the driver says.
    fn create_immediate_stream(&self) -> Result<Option<Self::Stream>, DeviceError> {
        Ok(None)
    }

    /// A stream that somebody else made and keeps, by its native handle. It is never destroyed by us.
    ///
    /// # Safety
    /// `handle` is a live stream of this device (0 is the default stream) and outlives every clone of what this
    /// returns, with all work put on it.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] where the handle cannot be one of this device.
    unsafe fn borrow_stream(&self, handle: usize) -> Result<Self::Stream, DeviceError>;

    /// Blocks the host until all work in `stream` is done, and gives the first error of that work.
    ///
    /// # Errors
    /// What the driver says of the work.
    fn synchronize(&self, stream: &Self::Stream) -> Result<(), DeviceError>;

    /// Blocks the host until all work in every stream of the device is done, whichever handle or thread has put it there,
    /// and gives the first error of that work. Streams that were borrowed count as long as they are.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where the device cannot, which is the default; what the driver says of the work.
    fn synchronize_all(&self) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported { what: "waiting for all streams at once", device: self.id() })
    }

    // Events

    /// Makes an event. Only an event made with `timing` can be given to [`elapsed`](Device::elapsed).
    ///
    /// # Errors
    /// What the driver says.
    fn create_event(&self, timing: bool) -> Result<Self::Event, DeviceError>;

    /// Puts `event` at the present end of `stream`. Waits on an earlier recording keep that one.
    ///
    /// # Errors
    /// What the driver says.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<(), DeviceError>;

    /// Makes later work in `stream` wait for the latest recording of `event`. The host does not wait.
    ///
    /// # Errors
    /// What the driver says.
    fn stream_wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<(), DeviceError>;

    /// Blocks the host until the latest recording of `event` is reached.
    ///
    /// # Errors
    /// What the driver says of the work before it.
    fn host_wait(&self, event: &Self::Event) -> Result<(), DeviceError>;

    /// Whether the latest recording of `event` is reached. Does not block.
    ///
    /// # Errors
    /// What the driver says of the work before it.
    fn query(&self, event: &Self::Event) -> Result<bool, DeviceError>;

    /// The time between two recorded events, both complete and made with timing.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for an event without timing, not recorded or not complete.
    fn elapsed(&self, begin: &Self::Event, end: &Self::Event) -> Result<Duration, DeviceError>;

    /// Puts a gate into `stream`: later work waits until the host opens the gate by calling the returned function, or
    /// drops it. While a gate is closed, the host makes no call that waits for the device, allocates or frees.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where the device has none, which is the default, and in immediate streams.
    fn gate(&self, _stream: &Self::Stream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
        Err(DeviceError::Unsupported { what: "gates in a stream", device: self.id() })
    }

    /// Calls `function` once, from a thread of the driver, when the work that is now in `stream` is done or has failed; where
    /// work is done when a call returns, before this one does. Later work may or may not wait for it. It returns soon and
    /// makes no call of a device.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where the device cannot, which is the default; what the driver says.
    fn call_host(
        &self,
        _stream: &Self::Stream,
        _function: Box<dyn FnOnce() + Send>,
    ) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported { what: "calls of the host from a stream", device: self.id() })
    }

    // Captured work

    /// Captures what `work` puts into `stream`, instead of doing it. Between a wait for an event of `stream` and a
    /// wait of `stream` for an event of theirs, other streams are captured along. May block.
    ///
    /// `work` puts nothing but launches, copies, fills, flags and the order of events into streams: it neither waits
    /// nor asks whether something is done, nor allocates, frees, writes or reads. Nobody else puts anything into
    /// these streams meanwhile.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where the device cannot, which is the default, or not in this stream; that of
    /// `work`; what the driver says, also of a `work` that does what it may not.
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
    /// [`DeviceError::Unsupported`] where the device has none, which is the default; what the driver says.
    fn create_flag(&self) -> Result<Box<dyn Flag<Self::Stream>>, DeviceError> {
        Err(DeviceError::Unsupported { what: "flags in streams", device: self.id() })
    }

    // Memory

    /// Allocates `bytes` bytes of the given kind, filled with zeros. May block.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], and [`DeviceError::Unsupported`] for a kind that the device lacks.
    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<Self::Buffer, DeviceError>;

    /// Allocates device memory in stream order where the device can, else as [`allocate`](Device::allocate).
    /// It is filled with zeros in stream order.
    ///
    /// # Errors
    /// As for [`allocate`](Device::allocate).
    fn allocate_on(&self, bytes: usize, _stream: &Self::Stream) -> Result<Self::Buffer, DeviceError> {
        self.allocate(bytes, MemoryKind::Device)
    }

    // Memory of others

    /// Whether kernels and copies of this device reach memory that `other` has allocated in this process. Sees to it, where
    /// the driver wants to be told.
    ///
    /// # Errors
    /// What the driver says.
    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError> {
        Ok(other == self.id())
    }

    /// What another process of this node finds the memory of `buffer` by. Moves nothing.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where processes cannot reach it, which is the default; what the driver says.
    fn export(&self, _buffer: &Self::Buffer) -> Result<Vec<u8>, DeviceError> {
        Err(DeviceError::Unsupported { what: "memory that other processes reach", device: self.id() })
    }

    /// The memory that a device of the same backend has [exported](Device::export) in another process, as this one reaches it
    /// until what this returns is dropped. May block.
    ///
    /// # Safety
    /// The other process keeps its buffer for as long.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for what is no such token; [`DeviceError::Unsupported`]; what the driver says.
    unsafe fn import(&self, _token: &[u8]) -> Result<Self::Buffer, DeviceError> {
        Err(DeviceError::Unsupported { what: "memory of other processes", device: self.id() })
    }

    // Copies and fills

    /// Copies `bytes` bytes; the two ranges do not overlap.
    ///
    /// # Safety
    /// See the trait: `source` is read and `target` written until the work is done in stream order.
    ///
    /// # Errors
    /// What the driver says.
    unsafe fn copy(
        &self,
        source: Pointer,
        target: Pointer,
        bytes: usize,
        stream: &Self::Stream,
    ) -> Result<(), DeviceError>;

    /// Copies a strided box (two, three or more axes), with its [`SignChange`] if it has one; source and target do not
    /// overlap.
    ///
    /// # Safety
    /// See the trait.
    ///
    /// # Errors
    /// What the driver says.
    unsafe fn copy_box(&self, copy: &BoxCopy, stream: &Self::Stream) -> Result<(), DeviceError>;

    /// Copies host memory to the device. It returns when `source` may be used again, so it may block.
    ///
    /// # Safety
    /// See the trait, for `target`.
    ///
    /// # Errors
    /// What the driver says.
    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &Self::Stream) -> Result<(), DeviceError>;

    /// Copies from the device to host memory, and blocks until the data is there.
    ///
    /// # Safety
    /// See the trait, for `source`.
    ///
    /// # Errors
    /// What the driver says.
    unsafe fn read(
        &self,
        source: Pointer,
        target: &mut [u8],
        stream: &Self::Stream,
    ) -> Result<(), DeviceError>;

    /// Writes the bytes of `element` (1, 2, 4, 8 or 16 of them) `count` times in sequence.
    ///
    /// # Safety
    /// See the trait, for `target`.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for another element size; what the driver says.
    unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        count: usize,
        stream: &Self::Stream,
    ) -> Result<(), DeviceError>;

    // Bound copies

    /// Lays out a list of copies for running many times. The copies of one list have no order among themselves,
    /// and no target overlaps another target or a source. `reader` says who reads the targets next; it changes nothing
    /// but the speed.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for a list that is malformed; what the driver says.
    fn bind_copies(&self, items: Vec<CopyItem>, reader: NextReader) -> Result<Self::Copies, DeviceError>;

    /// Runs a list of copies, as one launch where the device can.
    ///
    /// # Safety
    /// See the trait, for every source and target of the list.
    ///
    /// # Errors
    /// What the driver says.
    unsafe fn run_copies(&self, copies: &Self::Copies, stream: &Self::Stream) -> Result<(), DeviceError>;

    /// Moves a bound list along with the blocks of memory that its copies are [anchored](BoxCopy::anchored) to: block `k`
    /// begins at `to[k]` now, and did at `from[k]`. Later runs use the new addresses. May block.
    ///
    /// # Safety
    /// No run of the list is under way.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] (the default) if the device cannot move lists; errors of the driver.
    unsafe fn relocate_copies(
        &self,
        _copies: &mut Self::Copies,
        _from: &[Pointer],
        _to: &[Pointer],
    ) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported {
            what: "moving a list of copies to other addresses",
            device: self.id(),
        })
    }

    // Kernels

    /// Compiles a kernel, or takes it from the cache. May block.
    ///
    /// # Errors
    /// [`DeviceError::Compile`] with the compiler's log.
    fn compile(&self, source: &KernelSource) -> Result<Self::Kernel, DeviceError>;

    /// Binds arguments to a kernel. The hot call, [`launch`](Device::launch), passes nothing but the stream.
    ///
    /// Arguments are flattened here, once: argument `index` becomes parameter `index` of the kernel, in the order of
    /// [`KernelSource::parameters`], an address as an address and a number as a number of its type. What is more than that,
    /// such as a shape or strides, its author lays out as several parameters, by convention pointers first, then shapes and
    /// strides, then other numbers.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] where arguments and parameters differ.
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
    /// What the driver says.
    unsafe fn launch(&self, launch: &Self::Launch, stream: &Self::Stream) -> Result<(), DeviceError>;
}
