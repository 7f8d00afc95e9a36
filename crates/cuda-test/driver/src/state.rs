//! The state of the driver: the recorded calls, what lives, and the call that is to fail.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::lane::{Context, Lane};
use crate::objects::{Capture, Event, Object, Stream};
use crate::settings::settings;
use crate::status::{INVALID_CONTEXT, INVALID_HANDLE, Status};
use crate::work::point::Point;
use crate::work::queue::Queue;

#[derive(Debug)]
pub(crate) struct State {
    /// The calls, `NAME ARGUMENTS`, each with the number of its thread.
    pub(crate) calls: Vec<(u32, String)>,
    /// The objects that live, by their handles.
    pub(crate) objects: BTreeMap<usize, Object>,
    /// The streams that were made.
    streams: Vec<Weak<Stream>>,
    /// The default streams, by context and thread; that of thread `None` is the one that all threads share.
    defaults: BTreeMap<(usize, Option<u32>), Arc<Stream>>,
    /// The hardware queues, by device and priority, and the number of streams that they got.
    queues: BTreeMap<(i32, i32), GivenQueues>,
    /// The captures that have not ended.
    pub(crate) captures: Vec<Capture>,
    /// The next handle.
    next: usize,
    pub(crate) failure: Option<Failure>,
    /// The points that the call under way waits for before it returns.
    pub(crate) awaited: Vec<Arc<Point>>,
}

/// Queues, and the number of streams that they got.
type GivenQueues = (Vec<Arc<Queue>>, usize);

/// The call that is to fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    /// The number of calls that succeed before it.
    pub(crate) after: u64,
    pub(crate) status: Status,
    /// Whether all later calls fail, too.
    pub(crate) for_ever: bool,
    pub(crate) has_happened: bool,
}

/// Locks the state, for one call.
pub(crate) fn state() -> MutexGuard<'static, State> {
    static STATE: Mutex<State> = Mutex::new(State {
        calls: Vec::new(),
        objects: BTreeMap::new(),
        streams: Vec::new(),
        defaults: BTreeMap::new(),
        queues: BTreeMap::new(),
        captures: Vec::new(),
        next: 0x1000,
        failure: None,
        awaited: Vec::new(),
    });
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Records a call. Fails if the call is to fail.
    pub(crate) fn record(&mut self, name: &str, arguments: impl FnOnce() -> String) -> Result<(), Status> {
        if settings().records {
            self.calls.push((thread(), format!("{name} {}", arguments()).trim_end().to_string()));
        }
        match &mut self.failure {
            Some(failure) if failure.after == 0 => {
                if failure.has_happened && !failure.for_ever {
                    return Ok(());
                }
                failure.has_happened = true;
                Err(failure.status)
            }
            Some(failure) => {
                failure.after -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Adds an object and returns its handle.
    pub(crate) fn make(&mut self, object: Object) -> usize {
        let handle = self.next_handle();
        self.objects.insert(handle, object);
        handle
    }

    pub(crate) fn next_handle(&mut self) -> usize {
        self.next += 0x10;
        self.next
    }

    /// Checks that a primary context without a fault is current, and returns it.
    pub(crate) fn in_context(&self) -> Result<Arc<Context>, Status> {
        match self.objects.get(&current()) {
            Some(Object::Context { context, .. }) => match context.fault() {
                0 => Ok(Arc::clone(context)),
                fault => Err(fault),
            },
            _ => Err(INVALID_CONTEXT),
        }
    }

    /// The stream of a handle, in the current context. 0 and 1 are the default stream of all threads, 2 is that of this
    /// thread.
    pub(crate) fn stream(&mut self, handle: usize) -> Result<Arc<Stream>, Status> {
        let context = self.in_context()?;
        if handle > 2 {
            return match self.objects.get(&handle) {
                Some(Object::Stream(stream)) => Ok(Arc::clone(stream)),
                _ => Err(INVALID_HANDLE),
            };
        }
        let key = (context.handle, (handle == 2).then(thread));
        if let Some(stream) = self.defaults.get(&key) {
            return Ok(Arc::clone(stream));
        }
        let is_blocking = handle == 2;
        let stream = Arc::new(Stream {
            lane: Lane::new(context),
            queue: Queue::start()?,
            owns_queue: true,
            is_blocking,
        });
        Ok(Arc::clone(self.defaults.entry(key).or_insert(stream)))
    }

    /// Adds a stream and returns its handle.
    pub(crate) fn make_stream(&mut self, priority: i32, is_blocking: bool) -> Result<usize, Status> {
        let context = self.in_context()?;
        let queue = match settings().queues {
            None => Queue::start()?,
            Some(most) => {
                let class = if settings().shares_queues { 0 } else { priority };
                let (queues, given) = self.queues.entry((context.device, class)).or_default();
                *given += 1;
                let at = (*given - 1) % most;
                if at == queues.len() {
                    queues.push(Queue::start()?);
                }
                Arc::clone(&queues[at])
            }
        };
        let owns_queue = settings().queues.is_none();
        let stream = Arc::new(Stream { lane: Lane::new(context), queue, owns_queue, is_blocking });
        self.streams.retain(|other| other.strong_count() > 0);
        self.streams.push(Arc::downgrade(&stream));
        Ok(self.make(Object::Stream(stream)))
    }

    /// The streams of a context. The default stream of all threads is not blocking itself.
    pub(crate) fn streams_of(&self, context: usize) -> Vec<Arc<Stream>> {
        let made = self.streams.iter().filter_map(Weak::upgrade);
        made.chain(self.defaults.values().cloned())
            .filter(|stream| stream.lane.context.handle == context)
            .collect()
    }

    /// Points behind all work of a context.
    pub(crate) fn points_of(&self, context: usize) -> Vec<Arc<Point>> {
        self.streams_of(context).iter().map(|stream| stream.point_behind()).collect()
    }

    pub(crate) fn event(&mut self, handle: usize) -> Result<&mut Event, Status> {
        match self.objects.get_mut(&handle) {
            Some(Object::Event(event)) => Ok(event),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// Removes an object of this kind.
    pub(crate) fn destroy(&mut self, handle: usize, kind: &str) -> Result<(), Status> {
        match self.objects.get(&handle) {
            Some(object) if object.kind() == kind => {
                self.objects.remove(&handle);
                Ok(())
            }
            _ => Err(INVALID_HANDLE),
        }
    }

    /// Removes a context and its default streams.
    pub(crate) fn destroy_context(&mut self, handle: usize) -> Result<(), Status> {
        self.defaults.retain(|(context, _), _| *context != handle);
        self.destroy(handle, "context")
    }
}

thread_local! {
    /// The stack of current contexts of a thread.
    pub(crate) static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The current context of this thread; 0 if there is none.
pub(crate) fn current() -> usize {
    CONTEXTS.with_borrow(|contexts| contexts.last().copied().unwrap_or(0))
}

/// The number of this thread; threads count in the order of their first calls.
pub(crate) fn thread() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    thread_local!(static NUMBER: Cell<Option<u32>> = const { Cell::new(None) });
    NUMBER.with(|number| match number.get() {
        Some(known) => known,
        None => {
            let new = THREADS.fetch_add(1, Ordering::Relaxed);
            number.set(Some(new));
            new
        }
    })
}
