//! The device.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haloport_core::device::{
    Capabilities, CombineItem, Combining, CopyItem, Device, DeviceError, DeviceId, DeviceInfo, Engine, Event,
    KernelArgument, KernelSource, LaunchConfig, MemoryKind, NextReader, Pointer, Priority, Stream,
};
use rayon::prelude::*;

use crate::buffer::CpuBuffer;
use crate::copies::list::CpuCopies;
use crate::default_threads::default_threads;
use crate::kernels::{CpuKernel, CpuLaunch};

const ID: DeviceId = DeviceId { backend: "cpu", index: 0, context: 0 };

/// From this number on, a number of threads is taken for a mistake.
const TOO_MANY_THREADS: usize = 1 << 16;

/// The CPU as a device.
#[derive(Debug, Clone)]
pub struct CpuDevice {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    info: DeviceInfo,
    /// `None` if all work stays on the calling thread.
    pool: Option<rayon::ThreadPool>,
}

/// The stream of the CPU: a no-op with the handle 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuStream;

/// An event of the CPU: a no-op with the handle 0, and a time if it was created with timing.
#[derive(Debug)]
pub struct CpuEvent {
    /// The time when it was recorded; the outer `None` if it has no timing.
    recorded: Option<Mutex<Option<Instant>>>,
}

impl CpuDevice {
    /// The CPU with as many threads as the machine offers to this process; with one, if an MPI launcher has started
    /// several processes on this node, which share its cores. The environment variable `RAYON_NUM_THREADS` takes
    /// precedence.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if the variable is more than 65535; [`DeviceError::Driver`] if the threads cannot
    /// be started.
    pub fn new() -> Result<CpuDevice, DeviceError> {
        CpuDevice::with_threads(default_threads(
            |name| std::env::var(name).ok(),
            || std::thread::available_parallelism().map_or(1, usize::from),
        ))
    }

    /// The CPU with `threads` threads. With 1, the calling thread does all work, which suits programs with one rank per
    /// core.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if `threads` is 0 or more than 65535; [`DeviceError::Driver`] if the threads
    /// cannot be started.
    pub fn with_threads(threads: usize) -> Result<CpuDevice, DeviceError> {
        let pool = match threads {
            0 | TOO_MANY_THREADS.. => {
                let expected = format!("1 to {}", TOO_MANY_THREADS - 1);
                return Err(DeviceError::invalid("the threads of the CPU device", expected, threads));
            }
            1 => None,
            _ => Some(
                rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .thread_name(|index| format!("haloport-cpu-{index}"))
                    .build()
                    .map_err(|error| DeviceError::Driver {
                        call: "starting the threads of the pool",
                        device: ID,
                        message: error.to_string(),
                    })?,
            ),
        };
        let info = DeviceInfo {
            id: ID,
            name: processor_name(),
            driver: format!("rayon, {threads} threads"),
            compute_units: threads,
            memory_bytes: memory_bytes(),
            asynchronous: false,
            host_accessible: true,
            separate_memory: false,
            double_precision: true,
            half_precision: true,
            stream_priorities: false,
            shared_queues: false,
            capabilities: Capabilities {
                combining: true,
                pinned_memory: true,
                shared_memory: true,
                ..Capabilities::default()
            },
        };
        Ok(CpuDevice { inner: Arc::new(Inner { info, pool }) })
    }

    /// The number of threads that kernels and large copies are spread over.
    pub fn threads(&self) -> usize {
        self.inner.info.compute_units
    }
}

impl Stream for CpuStream {
    fn handle(&self) -> usize {
        0
    }

    fn device(&self) -> DeviceId {
        ID
    }
}

impl Event for CpuEvent {
    fn handle(&self) -> usize {
        0
    }
}

impl CpuEvent {
    fn time(&self, which: &'static str) -> Result<Instant, DeviceError> {
        let Some(recorded) = &self.recorded else {
            return Err(DeviceError::invalid(which, "an event made with timing", "one made without"));
        };
        recorded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .ok_or_else(|| DeviceError::invalid(which, "a recorded event", "one that was never recorded"))
    }
}

impl Combining<CpuCopies> for CpuDevice {
    fn bind_combining(&self, items: Vec<CombineItem>) -> Result<CpuCopies, DeviceError> {
        CpuCopies::combining(items, self.threads())
    }
}

// SAFETY: all work is done when a call returns, as streams and events report.
unsafe impl Device for CpuDevice {
    type Stream = CpuStream;
    type Event = CpuEvent;
    type Buffer = CpuBuffer;
    type Copies = CpuCopies;
    type Kernel = CpuKernel;
    type Launch = CpuLaunch;

    fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    fn engine(&self) -> Engine<Self> {
        Engine::of(self)
    }

    fn default_stream(&self) -> CpuStream {
        CpuStream
    }

    fn create_stream(&self, _priority: Priority) -> Result<CpuStream, DeviceError> {
        Ok(CpuStream)
    }

    unsafe fn borrow_stream(&self, handle: usize) -> Result<CpuStream, DeviceError> {
        match handle {
            0 => Ok(CpuStream),
            other => Err(DeviceError::invalid("the handle of a CPU stream", 0, other)),
        }
    }

    fn synchronize(&self, _stream: &CpuStream) -> Result<(), DeviceError> {
        Ok(())
    }

    fn synchronize_all(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn create_event(&self, timing: bool) -> Result<CpuEvent, DeviceError> {
        Ok(CpuEvent { recorded: timing.then(|| Mutex::new(None)) })
    }

    fn record(&self, event: &CpuEvent, _stream: &CpuStream) -> Result<(), DeviceError> {
        if let Some(recorded) = &event.recorded {
            *recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        Ok(())
    }

    fn stream_wait(&self, _stream: &CpuStream, _event: &CpuEvent) -> Result<(), DeviceError> {
        Ok(())
    }

    fn host_wait(&self, _event: &CpuEvent) -> Result<(), DeviceError> {
        Ok(())
    }

    fn query(&self, _event: &CpuEvent) -> Result<bool, DeviceError> {
        Ok(true)
    }

    fn elapsed(&self, begin: &CpuEvent, end: &CpuEvent) -> Result<Duration, DeviceError> {
        let begin = begin.time("the first event of an elapsed time")?;
        let end = end.time("the second event of an elapsed time")?;
        Ok(end.saturating_duration_since(begin))
    }

    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<CpuBuffer, DeviceError> {
        CpuBuffer::new(bytes, kind, ID)
    }

    unsafe fn copy(
        &self,
        source: Pointer,
        target: Pointer,
        bytes: usize,
        _stream: &CpuStream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller promised both ranges, and that they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), target.as_ptr(), bytes) };
        Ok(())
    }

    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &CpuStream) -> Result<(), DeviceError> {
        // SAFETY: the slice is readable, and only read; the caller promised the target.
        unsafe { self.copy(Pointer::new(source.as_ptr().cast_mut()), target, source.len(), stream) }
    }

    unsafe fn read(&self, source: Pointer, target: &mut [u8], stream: &CpuStream) -> Result<(), DeviceError> {
        // SAFETY: the slice is writable and borrowed exclusively; the caller promised the source.
        unsafe { self.copy(source, Pointer::new(target.as_mut_ptr()), target.len(), stream) }
    }

    unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        count: usize,
        _stream: &CpuStream,
    ) -> Result<(), DeviceError> {
        macro_rules! fill {
            ($bytes:literal) => {{
                let mut value = [0u8; $bytes];
                value.copy_from_slice(element);
                let target = target.as_ptr().cast::<[u8; $bytes]>();
                for index in 0..count {
                    // SAFETY: the caller promised `count` elements; `[u8; N]` has the alignment 1.
                    unsafe { target.add(index).write(value) };
                }
            }};
        }
        match element.len() {
            1 => fill!(1),
            2 => fill!(2),
            4 => fill!(4),
            8 => fill!(8),
            16 => fill!(16),
            other => {
                return Err(DeviceError::invalid(
                    "the element size of a fill",
                    "1, 2, 4, 8 or 16 bytes",
                    other,
                ));
            }
        }
        Ok(())
    }

    fn bind_copies(&self, items: Vec<CopyItem>, reader: NextReader) -> Result<CpuCopies, DeviceError> {
        Ok(CpuCopies::new(items, reader, self.threads()))
    }

    unsafe fn run_copies(
        &self,
        copies: &CpuCopies,
        bases: &[Pointer],
        _stream: &CpuStream,
    ) -> Result<(), DeviceError> {
        copies.run_by(|list| match &self.inner.pool {
            Some(pool) if list.parallel => pool.install(|| {
                // SAFETY: the caller promised every item; no two targets overlap, so items may run at the same time.
                list.items.par_chunks(1).with_max_len(1).for_each(|item| unsafe { list.run(item, bases) });
            }),
            // SAFETY: the caller promised every item of the list.
            _ => unsafe { list.run(&list.items, bases) },
        });
        Ok(())
    }

    fn combining(&self) -> Option<&dyn Combining<CpuCopies>> {
        Some(self)
    }

    fn compile(&self, source: &KernelSource) -> Result<CpuKernel, DeviceError> {
        Ok(CpuKernel { source: *source })
    }

    fn bind(
        &self,
        kernel: &CpuKernel,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<CpuLaunch, DeviceError> {
        kernel.source.check(arguments)?;
        Ok(CpuLaunch::new(kernel.source, config, arguments, self.threads()))
    }

    fn rebind(
        &self,
        launch: &mut CpuLaunch,
        index: usize,
        argument: KernelArgument,
    ) -> Result<(), DeviceError> {
        launch.source.check_one(index, &argument)?;
        launch.arguments[index] = argument;
        Ok(())
    }

    unsafe fn launch(&self, launch: &CpuLaunch, _stream: &CpuStream) -> Result<(), DeviceError> {
        match &self.inner.pool {
            Some(pool) if launch.ranges.len() > 1 => pool.install(|| {
                // SAFETY: the caller promised the memory that the kernel accesses; ranges are disjoint.
                launch.ranges.par_iter().with_max_len(1).for_each(|range| unsafe { launch.run(range) });
            }),
            _ => {
                for range in &launch.ranges {
                    // SAFETY: the caller promised the memory that the kernel accesses.
                    unsafe { launch.run(range) };
                }
            }
        }
        Ok(())
    }
}

/// The name of the processor, or its architecture if the system does not report a name.
fn processor_name() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            text.lines().find_map(|line| {
                line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().into())
            })
        })
        .unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

/// The memory of the machine in bytes, if the system reports it.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
