//! The device.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use haloport_core::device::{
    Capabilities, CombineItem, Combining, CopyItem, Device, DeviceError, DeviceInfo, Engine, Gates,
    ImmediateStreams, KernelArgument, KernelSource, LaunchConfig, MemoryKind, NextReader, Pointer, Priority,
    offered,
};

use super::event::QueuedEvent;
use super::queue::{Point, Queue, QueuedStream, lock};

/// A device `D`, each of whose streams is a thread.
#[derive(Debug, Clone)]
pub struct Queued<D: Device> {
    inner: Arc<Inner<D>>,
}

#[derive(Debug)]
struct Inner<D: Device> {
    device: D,
    info: DeviceInfo,
    default: Arc<Queue>,
    /// All streams but the default one.
    queues: Mutex<Vec<Weak<Queue>>>,
    next: AtomicUsize,
}

/// A bound kernel. If it is bound to other arguments, launches in a stream keep theirs.
pub struct QueuedLaunch<D: Device> {
    kernel: Arc<D::Kernel>,
    config: LaunchConfig,
    arguments: Vec<KernelArgument>,
    bound: Arc<Mutex<D::Launch>>,
}

impl<D: Device> Queued<D> {
    /// Makes it of `device`, whose work is done when a call returns.
    ///
    /// # Errors
    /// If the thread of the default stream cannot be started.
    pub fn new(device: &D) -> Result<Queued<D>, DeviceError> {
        let capabilities = Capabilities {
            immediate_streams: true,
            gates: true,
            memory_export: false,
            stream_messages: false,
            ..device.info().capabilities
        };
        let info = DeviceInfo {
            asynchronous: true,
            host_accessible: false,
            separate_memory: true,
            capabilities,
            ..device.info().clone()
        };
        let default = Queue::new(0, info.id)?;
        let (queues, next) = (Mutex::default(), AtomicUsize::new(1));
        let inner = Arc::new(Inner { device: device.clone(), info, default, queues, next });
        Ok(Queued { inner })
    }

    fn number(&self) -> usize {
        self.inner.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A stream that can be found by its number as long as it lives.
    fn registered(&self, queue: Arc<Queue>) -> QueuedStream {
        let mut queues = lock(&self.inner.queues);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        QueuedStream { queue, device: self.id() }
    }

    /// Puts work that calls the device into `stream`.
    fn put(
        &self,
        stream: &QueuedStream,
        work: impl Fn(&D, &D::Stream) -> Result<(), DeviceError> + Send + Sync + 'static,
    ) -> Result<(), DeviceError> {
        let device = self.inner.device.clone();
        stream.queue.put(Arc::new(move || work(&device, &device.default_stream())))
    }
}

/// Opens a gate when it is dropped.
struct Opens(Arc<Point>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.reach();
    }
}

impl<D: Device> fmt::Debug for QueuedLaunch<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QueuedLaunch").field(&self.bound).finish()
    }
}

// SAFETY: a stream's thread does one thing after the other; points are reached by work that a stream does after all earlier
// work; only the device that this one is made of writes memory.
unsafe impl<D: Device> Device for Queued<D> {
    type Stream = QueuedStream;
    type Event = QueuedEvent;
    type Buffer = D::Buffer;
    type Copies = Arc<Mutex<D::Copies>>;
    type Kernel = Arc<D::Kernel>;
    type Launch = QueuedLaunch<D>;

    fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    fn engine(&self) -> Engine<Self> {
        Engine::of(self)
    }

    fn default_stream(&self) -> QueuedStream {
        QueuedStream { queue: Arc::clone(&self.inner.default), device: self.id() }
    }

    fn create_stream(&self, _priority: Priority) -> Result<QueuedStream, DeviceError> {
        Ok(self.registered(Queue::new(self.number(), self.id())?))
    }

    unsafe fn borrow_stream(&self, handle: usize) -> Result<QueuedStream, DeviceError> {
        if handle == 0 {
            return Ok(self.default_stream());
        }
        let queues = lock(&self.inner.queues);
        let queue = queues.iter().filter_map(Weak::upgrade).find(|queue| queue.number == handle);
        let unknown =
            || DeviceError::invalid("the handle of a stream", "that of a stream that lives", handle);
        Ok(QueuedStream { queue: queue.ok_or_else(unknown)?, device: self.id() })
    }

    fn synchronize(&self, stream: &QueuedStream) -> Result<(), DeviceError> {
        stream.queue.synchronize()
    }

    fn synchronize_all(&self) -> Result<(), DeviceError> {
        let queues: Vec<Arc<Queue>> = lock(&self.inner.queues).iter().filter_map(Weak::upgrade).collect();
        self.inner.default.synchronize()?;
        queues.iter().try_for_each(|queue| queue.synchronize())
    }

    fn create_event(&self, timing: bool) -> Result<QueuedEvent, DeviceError> {
        Ok(QueuedEvent { timing, latest: Mutex::default() })
    }

    fn record(&self, event: &QueuedEvent, stream: &QueuedStream) -> Result<(), DeviceError> {
        *lock(&event.latest) = Some(stream.queue.put_point()?);
        Ok(())
    }

    fn stream_wait(&self, stream: &QueuedStream, event: &QueuedEvent) -> Result<(), DeviceError> {
        let Some(point) = event.point() else { return Ok(()) };
        stream.queue.put(Arc::new(move || {
            point.wait();
            Ok(())
        }))
    }

    fn host_wait(&self, event: &QueuedEvent) -> Result<(), DeviceError> {
        if let Some(point) = event.point() {
            point.wait();
        }
        Ok(())
    }

    fn query(&self, event: &QueuedEvent) -> Result<bool, DeviceError> {
        Ok(event.point().is_none_or(|point| point.reached().is_some()))
    }

    fn elapsed(&self, begin: &QueuedEvent, end: &QueuedEvent) -> Result<Duration, DeviceError> {
        let begin = begin.time("the first event of an elapsed time")?;
        Ok(end.time("the second event of an elapsed time")?.saturating_duration_since(begin))
    }

    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<D::Buffer, DeviceError> {
        self.inner.device.allocate(bytes, kind)
    }

    unsafe fn copy(
        &self,
        source: Pointer,
        target: Pointer,
        bytes: usize,
        stream: &QueuedStream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise, which lasts until the work is done.
        self.put(stream, move |device, stream| unsafe { device.copy(source, target, bytes, stream) })
    }

    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &QueuedStream) -> Result<(), DeviceError> {
        let from = Pointer::new(source.as_ptr().cast_mut());
        let bytes = source.len();
        // SAFETY: as for `copy`; the source is readable until this returns, when the work is done.
        self.put(stream, move |device, stream| unsafe { device.copy(from, target, bytes, stream) })?;
        self.synchronize(stream)
    }

    unsafe fn read(
        &self,
        source: Pointer,
        target: &mut [u8],
        stream: &QueuedStream,
    ) -> Result<(), DeviceError> {
        let (to, bytes) = (Pointer::new(target.as_mut_ptr()), target.len());
        // SAFETY: as for `copy`; the target is ours alone until this returns, when the work is done.
        self.put(stream, move |device, stream| unsafe { device.copy(source, to, bytes, stream) })?;
        self.synchronize(stream)
    }

    unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        count: usize,
        stream: &QueuedStream,
    ) -> Result<(), DeviceError> {
        if !matches!(element.len(), 1 | 2 | 4 | 8 | 16) {
            let wanted = "1, 2, 4, 8 or 16 bytes";
            return Err(DeviceError::invalid("the element size of a fill", wanted, element.len()));
        }
        let element = element.to_vec();
        // SAFETY: as for `copy`.
        self.put(stream, move |device, stream| unsafe { device.fill(target, &element, count, stream) })
    }

    fn bind_copies(&self, items: Vec<CopyItem>, reader: NextReader) -> Result<Self::Copies, DeviceError> {
        Ok(Arc::new(Mutex::new(self.inner.device.bind_copies(items, reader)?)))
    }

    unsafe fn run_copies(
        &self,
        copies: &Self::Copies,
        bases: &[Pointer],
        stream: &QueuedStream,
    ) -> Result<(), DeviceError> {
        let (copies, bases) = (Arc::clone(copies), bases.to_vec());
        // SAFETY: as for `copy`.
        self.put(stream, move |device, stream| unsafe { device.run_copies(&lock(&copies), &bases, stream) })
    }

    fn compile(&self, source: &KernelSource) -> Result<Self::Kernel, DeviceError> {
        Ok(Arc::new(self.inner.device.compile(source)?))
    }

    fn bind(
        &self,
        kernel: &Self::Kernel,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<QueuedLaunch<D>, DeviceError> {
        let bound = Arc::new(Mutex::new(self.inner.device.bind(kernel, config, arguments)?));
        Ok(QueuedLaunch { kernel: Arc::clone(kernel), config, arguments: arguments.to_vec(), bound })
    }

    fn rebind(
        &self,
        launch: &mut QueuedLaunch<D>,
        index: usize,
        argument: KernelArgument,
    ) -> Result<(), DeviceError> {
        let device = &self.inner.device;
        let mut bound = device.bind(&launch.kernel, launch.config, &launch.arguments)?;
        device.rebind(&mut bound, index, argument)?;
        launch.arguments[index] = argument;
        launch.bound = Arc::new(Mutex::new(bound));
        Ok(())
    }

    unsafe fn launch(&self, launch: &QueuedLaunch<D>, stream: &QueuedStream) -> Result<(), DeviceError> {
        let bound = Arc::clone(&launch.bound);
        // SAFETY: as for `copy`.
        self.put(stream, move |device, stream| unsafe { device.launch(&lock(&bound), stream) })
    }

    fn immediate_streams(&self) -> Option<&dyn ImmediateStreams<QueuedStream>> {
        Some(self)
    }

    fn gates(&self) -> Option<&dyn Gates<QueuedStream>> {
        Some(self)
    }

    fn combining(&self) -> Option<&dyn Combining<Self::Copies>> {
        self.inner.device.combining().is_some().then_some(self)
    }
}

impl<D: Device> Combining<Arc<Mutex<D::Copies>>> for Queued<D> {
    fn bind_combining(&self, items: Vec<CombineItem>) -> Result<Arc<Mutex<D::Copies>>, DeviceError> {
        let device = &self.inner.device;
        let combining = offered(device.combining(), "copies that combine", device.id())?;
        Ok(Arc::new(Mutex::new(combining.bind_combining(items)?)))
    }
}

impl<D: Device> ImmediateStreams<QueuedStream> for Queued<D> {
    fn create_immediate_stream(&self) -> Result<QueuedStream, DeviceError> {
        Ok(self.registered(Queue::immediate(self.number(), self.id())))
    }
}

impl<D: Device> Gates<QueuedStream> for Queued<D> {
    fn gate(&self, stream: &QueuedStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
        if stream.queue.is_immediate() {
            return Err(DeviceError::Unsupported { what: "gates in an immediate stream", device: self.id() });
        }
        let point = Arc::new(Point::default());
        let opens = Opens(Arc::clone(&point));
        self.put(stream, move |_, _| {
            point.wait();
            Ok(())
        })?;
        Ok(Box::new(move || drop(opens)))
    }
}
