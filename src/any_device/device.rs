//! `AnyDevice` as a device: each call goes to the device inside.

use std::time::Duration;

use haloport_core::device::{
    Attached, Combining, CopyItem, Device, DeviceError, DeviceId, DeviceInfo, Engine, Gates,
    ImmediateStreams, KernelArgument, KernelSource, LaunchConfig, MemoryExport, MemoryKind, NextReader,
    Pointer, Priority, StreamMessaging, StreamWords,
};

use super::values::inside;
use super::{AnyDevice, Buffer, Copies, Event, Kernel, Launch, Stream};

/// Evaluates an expression with the device inside and what is inside of each value that such a device made; an error, if
/// one was made by a device of another backend.
macro_rules! inside_all {
    ($any:ident, $($value:ident: $type:ident),+ => |$device:ident| $body:expr) => {
        match ($any, $($value),+) {
            #[cfg(feature = "cpu")]
            (AnyDevice::Cpu($device), $($type::Cpu($value)),+) => $body,
            #[cfg(feature = "cuda")]
            (AnyDevice::Cuda($device), $($type::Cuda($value)),+) => $body,
            #[cfg(feature = "sycl")]
            (AnyDevice::Sycl($device), $($type::Sycl($value)),+) => $body,
            #[allow(unreachable_patterns, reason = "with one backend alone, nothing is of another")]
            _ => Err($any.other_backend(stringify!($($value),+))),
        }
    };
}
pub(super) use inside_all;

/// Evaluates an expression with the device inside, and wraps what it has made.
macro_rules! wrapped {
    ($any:ident, $type:ident, |$device:ident| $body:expr) => {
        match $any {
            #[cfg(feature = "cpu")]
            AnyDevice::Cpu($device) => $type::Cpu($body),
            #[cfg(feature = "cuda")]
            AnyDevice::Cuda($device) => $type::Cuda($body),
            #[cfg(feature = "sycl")]
            AnyDevice::Sycl($device) => $type::Sycl($body),
        }
    };
}
pub(super) use wrapped;

// SAFETY: each call does what the device inside does, on what the device inside made.
unsafe impl Device for AnyDevice {
    type Stream = Stream;
    type Event = Event;
    type Buffer = Buffer;
    type Copies = Copies;
    type Kernel = Kernel;
    type Launch = Launch;

    fn info(&self) -> &DeviceInfo {
        AnyDevice::info(self)
    }

    fn engine(&self) -> Engine<Self> {
        Engine::of(self)
    }

    fn attach(&self) -> Result<Attached, DeviceError> {
        inside!(self, |device| device.attach())
    }

    fn default_stream(&self) -> Stream {
        wrapped!(self, Stream, |device| device.default_stream())
    }

    fn is_default(&self, stream: &Stream) -> bool {
        inside_all!(self, stream: Stream => |device| Ok(device.is_default(stream))).unwrap_or(false)
    }

    fn create_stream(&self, priority: Priority) -> Result<Stream, DeviceError> {
        Ok(wrapped!(self, Stream, |device| device.create_stream(priority)?))
    }

    unsafe fn borrow_stream(&self, handle: usize) -> Result<Stream, DeviceError> {
        // SAFETY: the caller's promise, which is about the device inside.
        Ok(wrapped!(self, Stream, |device| unsafe { device.borrow_stream(handle)? }))
    }

    fn synchronize(&self, stream: &Stream) -> Result<(), DeviceError> {
        inside_all!(self, stream: Stream => |device| device.synchronize(stream))
    }

    fn synchronize_all(&self) -> Result<(), DeviceError> {
        inside!(self, |device| device.synchronize_all())
    }

    fn check_not_captured(&self, stream: &Stream) -> Result<(), DeviceError> {
        inside_all!(self, stream: Stream => |device| device.check_not_captured(stream))
    }

    fn create_event(&self, timing: bool) -> Result<Event, DeviceError> {
        Ok(wrapped!(self, Event, |device| device.create_event(timing)?))
    }

    fn record(&self, event: &Event, stream: &Stream) -> Result<(), DeviceError> {
        inside_all!(self, event: Event, stream: Stream => |device| device.record(event, stream))
    }

    fn stream_wait(&self, stream: &Stream, event: &Event) -> Result<(), DeviceError> {
        inside_all!(self, stream: Stream, event: Event => |device| device.stream_wait(stream, event))
    }

    fn host_wait(&self, event: &Event) -> Result<(), DeviceError> {
        inside_all!(self, event: Event => |device| device.host_wait(event))
    }

    fn query(&self, event: &Event) -> Result<bool, DeviceError> {
        inside_all!(self, event: Event => |device| device.query(event))
    }

    fn elapsed(&self, begin: &Event, end: &Event) -> Result<Duration, DeviceError> {
        inside_all!(self, begin: Event, end: Event => |device| device.elapsed(begin, end))
    }

    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<Buffer, DeviceError> {
        Ok(wrapped!(self, Buffer, |device| device.allocate(bytes, kind)?))
    }

    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError> {
        inside!(self, |device| device.reaches(other))
    }

    unsafe fn copy(
        &self,
        source: Pointer,
        target: Pointer,
        bytes: usize,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise, which is about the device inside.
        inside_all!(self, stream: Stream => |device| unsafe { device.copy(source, target, bytes, stream) })
    }

    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &Stream) -> Result<(), DeviceError> {
        // SAFETY: as for `copy`.
        inside_all!(self, stream: Stream => |device| unsafe { device.write(source, target, stream) })
    }

    unsafe fn read(&self, source: Pointer, target: &mut [u8], stream: &Stream) -> Result<(), DeviceError> {
        // SAFETY: as for `copy`.
        inside_all!(self, stream: Stream => |device| unsafe { device.read(source, target, stream) })
    }

    unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        count: usize,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        // SAFETY: as for `copy`.
        inside_all!(self, stream: Stream => |device| unsafe { device.fill(target, element, count, stream) })
    }

    fn bind_copies(&self, items: Vec<CopyItem>, reader: NextReader) -> Result<Copies, DeviceError> {
        Ok(wrapped!(self, Copies, |device| device.bind_copies(items, reader)?))
    }

    unsafe fn run_copies(
        &self,
        copies: &Copies,
        bases: &[Pointer],
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        // SAFETY: as for `copy`.
        inside_all!(self, copies: Copies, stream: Stream => |device| unsafe { device.run_copies(copies, bases, stream) })
    }

    fn compile(&self, source: &KernelSource) -> Result<Kernel, DeviceError> {
        Ok(wrapped!(self, Kernel, |device| device.compile(source)?))
    }

    fn bind(
        &self,
        kernel: &Kernel,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<Launch, DeviceError> {
        Ok(match (self, kernel) {
            #[cfg(feature = "cpu")]
            (AnyDevice::Cpu(device), Kernel::Cpu(kernel)) => {
                Launch::Cpu(device.bind(kernel, config, arguments)?)
            }
            #[cfg(feature = "cuda")]
            (AnyDevice::Cuda(device), Kernel::Cuda(kernel)) => {
                Launch::Cuda(device.bind(kernel, config, arguments)?)
            }
            #[cfg(feature = "sycl")]
            (AnyDevice::Sycl(device), Kernel::Sycl(kernel)) => {
                Launch::Sycl(device.bind(kernel, config, arguments)?)
            }
            #[allow(unreachable_patterns, reason = "with one backend alone, nothing is of another")]
            _ => return Err(self.other_backend("kernel")),
        })
    }

    fn rebind(&self, launch: &mut Launch, index: usize, argument: KernelArgument) -> Result<(), DeviceError> {
        inside_all!(self, launch: Launch => |device| device.rebind(launch, index, argument))
    }

    unsafe fn launch(&self, launch: &Launch, stream: &Stream) -> Result<(), DeviceError> {
        // SAFETY: as for `copy`.
        inside_all!(self, launch: Launch, stream: Stream => |device| unsafe { device.launch(launch, stream) })
    }

    fn immediate_streams(&self) -> Option<&dyn ImmediateStreams<Stream>> {
        inside!(self, |device| device.immediate_streams().is_some()).then_some(self)
    }

    fn gates(&self) -> Option<&dyn Gates<Stream>> {
        inside!(self, |device| device.gates().is_some()).then_some(self)
    }

    fn stream_words(&self) -> Option<&dyn StreamWords<Stream, Copies>> {
        inside!(self, |device| device.stream_words().is_some()).then_some(self)
    }

    fn combining(&self) -> Option<&dyn Combining<Copies>> {
        inside!(self, |device| device.combining().is_some()).then_some(self)
    }

    fn memory_export(&self) -> Option<&dyn MemoryExport<Buffer>> {
        inside!(self, |device| device.memory_export().is_some()).then_some(self)
    }

    fn stream_messaging(&self) -> Option<&dyn StreamMessaging<Stream>> {
        inside!(self, |device| device.stream_messaging().is_some()).then_some(self)
    }

    fn defer_frees(&self) {
        inside!(self, |device| device.defer_frees());
    }

    fn resume_frees(&self) {
        inside!(self, |device| device.resume_frees());
    }
}

impl AnyDevice {
    /// The error of a call with `what` of a device of another backend.
    pub(super) fn other_backend(&self, what: &'static str) -> DeviceError {
        DeviceError::invalid(
            what,
            format!("what {} has made", self.id()),
            "what a device of another backend has made",
        )
    }
}
