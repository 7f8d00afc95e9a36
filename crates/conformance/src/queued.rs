//! A device that goes on working after a call has returned, with gates, flags and captured work, over one
//! whose work is done when a call returns: each stream is a thread, but for immediate ones. So what exchanges do
//! on such devices is tested anywhere.

mod capture;
mod queue;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use haloport_core::device::{
    BoxCopy, Captured, CopyItem, Device, DeviceError, DeviceId, DeviceInfo, Event, Flag, KernelArgument,
    KernelSource, LaunchConfig, MemoryKind, NextReader, Pointer, Priority, Stream,
};

use capture::{Capture, Place, QueuedFlag};
use queue::{Point, Queue, Work, lock};

/// A device `D`, each of whose streams is a thread.
#[derive(Debug, Clone)]
pub struct Queued<D: Device> {
    inner: Arc<Inner<D>>,
    captures: Captures,
}

#[derive(Debug)]
struct Inner<D: Device> {
    device: D,
    info: DeviceInfo,
    default: Arc<Queue>,
    /// All others.
    queues: Mutex<Vec<Weak<Queue>>>,
    next: AtomicUsize,
}

/// The captures that go on.
#[derive(Debug, Clone, Default)]
struct Captures(Arc<Mutex<Vec<Capture>>>);

/// A stream: a thread, or the one that calls.
#[derive(Debug, Clone)]
pub struct QueuedStream {
    queue: Arc<Queue>,
    device: DeviceId,
}

/// A point in a stream.
#[derive(Debug)]
pub struct QueuedEvent {
    timing: bool,
    latest: Mutex<Latest>,
}

/// Where an event was recorded last.
#[derive(Debug, Clone, Default)]
enum Latest {
    #[default]
    Never,
    At(Arc<Point>),
    InCapture(Place),
}

/// A bound kernel. Launches that are in a stream keep theirs when it is bound to something else.
pub struct QueuedLaunch<D: Device> {
    kernel: Arc<D::Kernel>,
    config: LaunchConfig,
    arguments: Vec<KernelArgument>,
    bound: Arc<Mutex<D::Launch>>,
}

impl<D: Device> Queued<D> {
    /// Over `device`, whose work is done when a call returns.
    ///
    /// # Errors
    /// Where there is no thread for the default stream.
    pub fn new(device: &D) -> Result<Queued<D>, DeviceError> {
        let info = DeviceInfo { asynchronous: true, host_accessible: false, ..device.info().clone() };
        let default = Queue::new(0, info.id)?;
        let (queues, next) = (Mutex::default(), AtomicUsize::new(1));
        let inner = Arc::new(Inner { device: device.clone(), info, default, queues, next });
        Ok(Queued { inner, captures: Captures::default() })
    }

    fn number(&self) -> usize {
        self.inner.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A stream that can be found by its number, as long as somebody has it.
    fn keep(&self, queue: Arc<Queue>) -> QueuedStream {
        let mut queues = lock(&self.inner.queues);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        QueuedStream { queue, device: self.id() }
    }

    /// Puts into `stream` what calls the device.
    fn put(
        &self,
        stream: &QueuedStream,
        work: impl Fn(&D, &D::Stream) -> Result<(), DeviceError> + Send + Sync + 'static,
    ) -> Result<(), DeviceError> {
        let device = self.inner.device.clone();
        self.captures.put(stream, Arc::new(move || work(&device, &device.default_stream())))
    }
}

impl Captures {
    /// Does `work`, or captures it where the stream is captured.
    fn put(&self, stream: &QueuedStream, work: Work) -> Result<(), DeviceError> {
        let mut captures = lock(&self.0);
        for capture in captures.iter_mut() {
            if let Some(position) = capture.position(stream.queue.number) {
                capture.put(position, work);
                return Ok(());
            }
        }
        // Work of an immediate stream is done here, and may take its time.
        drop(captures);
        stream.queue.put(work)
    }

    /// That this thread captures nothing: `call` is one that no capture allows.
    fn refuse(&self, call: &'static str, device: DeviceId) -> Result<(), DeviceError> {
        if lock(&self.0).iter().any(Capture::is_of_this_thread) {
            let message = "it is not permitted while this thread captures".into();
            return Err(DeviceError::Driver { call, device, message });
        }
        Ok(())
    }
}

/// Ends a capture, also where its work panics.
struct Ends<'a>(&'a Captures, usize);

impl Ends<'_> {
    fn end(&self) -> Option<Capture> {
        let mut captures = lock(&self.0.0);
        let position = captures.iter().position(|capture| capture.number == self.1)?;
        Some(captures.remove(position))
    }
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl QueuedEvent {
    /// The point of the latest recording, if there is one.
    fn point(&self) -> Result<Option<Arc<Point>>, DeviceError> {
        match &*lock(&self.latest) {
            Latest::Never => Ok(None),
            Latest::At(point) => Ok(Some(Arc::clone(point))),
            Latest::InCapture(_) => {
                Err(DeviceError::invalid("an event", "one recorded in a stream", "one that was captured"))
            }
        }
    }

    fn time(&self, which: &'static str) -> Result<Instant, DeviceError> {
        let point = self.point()?.filter(|_| self.timing);
        let reached = point.and_then(|point| point.reached());
        let wanted = "an event made with timing, recorded and complete";
        reached.ok_or_else(|| DeviceError::invalid(which, wanted, "another"))
    }
}

/// Opens a gate when it is dropped.
struct Opens(Arc<Point>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.reach();
    }
}

impl Stream for QueuedStream {
    fn handle(&self) -> usize {
        self.queue.number
    }

    fn device(&self) -> DeviceId {
        self.device
    }
}

impl Event for QueuedEvent {
    fn handle(&self) -> usize {
        (&raw const *self).addr()
    }
}

impl<D: Device> fmt::Debug for QueuedLaunch<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QueuedLaunch").field(&self.bound).finish()
    }
}

// SAFETY: a stream's thread does one thing after the other; a point is reached, and a word set, by the work
// of a stream behind all that was put in before; memory is written by the device that this one is made of and
// by nothing else.
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

    fn default_stream(&self) -> QueuedStream {
        QueuedStream { queue: Arc::clone(&self.inner.default), device: self.id() }
    }

    fn create_stream(&self, _priority: Priority) -> Result<QueuedStream, DeviceError> {
        Ok(self.keep(Queue::new(self.number(), self.id())?))
    }

    fn create_immediate_stream(&self) -> Result<Option<QueuedStream>, DeviceError> {
        Ok(Some(self.keep(Queue::immediate(self.number(), self.id()))))
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
        self.captures.refuse("synchronize", self.id())?;
        stream.queue.synchronize()
    }

    fn synchronize_all(&self) -> Result<(), DeviceError> {
        self.captures.refuse("synchronize_all", self.id())?;
        let queues: Vec<Arc<Queue>> = lock(&self.inner.queues).iter().filter_map(Weak::upgrade).collect();
        self.inner.default.synchronize()?;
        queues.iter().try_for_each(|queue| queue.synchronize())
    }

    fn create_event(&self, timing: bool) -> Result<QueuedEvent, DeviceError> {
        Ok(QueuedEvent { timing, latest: Mutex::default() })
    }

    fn record(&self, event: &QueuedEvent, stream: &QueuedStream) -> Result<(), DeviceError> {
        let captures = lock(&self.captures.0);
        let captured =
            captures.iter().find_map(|capture| Some(capture.place(capture.position(stream.queue.number)?)));
        *lock(&event.latest) = match captured {
            Some(place) => Latest::InCapture(place),
            None => Latest::At(stream.queue.put_point()?),
        };
        Ok(())
    }

    fn stream_wait(&self, stream: &QueuedStream, event: &QueuedEvent) -> Result<(), DeviceError> {
        let latest = lock(&event.latest).clone();
        let mut captures = lock(&self.captures.0);
        match latest {
            Latest::Never => Ok(()),
            Latest::InCapture(place) => match captures.iter_mut().find(|capture| capture.has(place)) {
                Some(capture) => {
                    capture.wait(stream.queue.number, place);
                    Ok(())
                }
                None => Err(DeviceError::invalid(
                    "an event",
                    "one recorded in a stream",
                    "one of a capture that is over",
                )),
            },
            Latest::At(_) if captures.iter().any(|of| of.position(stream.queue.number).is_some()) => Err(
                DeviceError::invalid("an event in captured work", "one of the capture", "one from outside"),
            ),
            Latest::At(point) => {
                drop(captures);
                stream.queue.put(Arc::new(move || {
                    point.wait();
                    Ok(())
                }))
            }
        }
    }

    fn host_wait(&self, event: &QueuedEvent) -> Result<(), DeviceError> {
        self.captures.refuse("host_wait", self.id())?;
        if let Some(point) = event.point()? {
            point.wait();
        }
        Ok(())
    }

    fn query(&self, event: &QueuedEvent) -> Result<bool, DeviceError> {
        self.captures.refuse("query", self.id())?;
        Ok(event.point()?.is_none_or(|point| point.reached().is_some()))
    }

    fn elapsed(&self, begin: &QueuedEvent, end: &QueuedEvent) -> Result<Duration, DeviceError> {
        let begin = begin.time("the first event of an elapsed time")?;
        Ok(end.time("the second event of an elapsed time")?.saturating_duration_since(begin))
    }

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

    fn call_host(
        &self,
        stream: &QueuedStream,
        function: Box<dyn FnOnce() + Send>,
    ) -> Result<(), DeviceError> {
        let function = Mutex::new(Some(function));
        self.put(stream, move |device, stream| match lock(&function).take() {
            Some(function) => device.call_host(stream, function),
            None => Ok(()),
        })
    }

    fn capture(
        &self,
        stream: &QueuedStream,
        work: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<Box<dyn Captured<QueuedStream>>, DeviceError> {
        if stream.queue.number == 0 {
            let what = "capturing what is put into its default stream";
            return Err(DeviceError::Unsupported { what, device: self.id() });
        }
        let number = self.number();
        lock(&self.captures.0).push(Capture::new(number, stream.queue.number));
        let ends = Ends(&self.captures, number);
        work()?;
        let captured = ends.end().and_then(Capture::end);
        let captured = captured.ok_or_else(|| DeviceError::Driver {
            call: "capture",
            device: self.id(),
            message: "a stream of the capture was not waited for in the end".into(),
        })?;
        Ok(Box::new(captured))
    }

    fn create_flag(&self) -> Result<Box<dyn Flag<QueuedStream>>, DeviceError> {
        Ok(Box::new(QueuedFlag::new(&self.captures)))
    }

    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<D::Buffer, DeviceError> {
        self.captures.refuse("allocate", self.id())?;
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

    unsafe fn copy_box(&self, copy: &BoxCopy, stream: &QueuedStream) -> Result<(), DeviceError> {
        let copy = *copy;
        // SAFETY: as for `copy`.
        self.put(stream, move |device, stream| unsafe { device.copy_box(&copy, stream) })
    }

    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &QueuedStream) -> Result<(), DeviceError> {
        self.captures.refuse("write", self.id())?;
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
        self.captures.refuse("read", self.id())?;
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

    unsafe fn run_copies(&self, copies: &Self::Copies, stream: &QueuedStream) -> Result<(), DeviceError> {
        let copies = Arc::clone(copies);
        // SAFETY: as for `copy`.
        self.put(stream, move |device, stream| unsafe { device.run_copies(&lock(&copies), stream) })
    }

    unsafe fn relocate_copies(
        &self,
        copies: &mut Self::Copies,
        from: &[Pointer],
        to: &[Pointer],
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.device.relocate_copies(&mut lock(copies), from, to) }
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
}
