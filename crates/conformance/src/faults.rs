//! A device whose calls can be made to fail, and exchanges on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use haloport_core::device::{
    BoxCopy, CopyItem, Device, DeviceError, DeviceInfo, KernelArgument, KernelSource, LaunchConfig,
    MemoryKind, NextReader, Pointer, Priority,
};
use haloport_core::{Communicator, DataPath, Schedule, run_ranks};

use crate::ordering::line::LineOf;
use crate::{Failure, ensure};

/// What the error of a call that was made to fail says.
const MADE_TO_FAIL: &str = "it was made to fail";

/// Cells that a rank sends in one exchange.
const CELLS: usize = 1024;

const ROUNDS: i64 = 3;

/// On three ranks that are threads, makes every call of rank 0's device fail in turn, from the first after binding on, with
/// messages and with memory that ranks reach in each other. The rank whose call fails gets that error, and the others
/// either right halos or an error that names a rank; nobody hangs. Gives the number of calls.
///
/// # Errors
/// What went otherwise.
pub fn every_call_fails_once<D: Device>(device: &D) -> Result<usize, Failure> {
    let mut calls = 0;
    for path in [DataPath::Messages, DataPath::Direct] {
        let mut number = 1;
        while call_fails(device, path, number)
            .map_err(|error| format!("{path}: call {number} fails: {error}"))?
        {
            number += 1;
        }
        calls += number as usize - 1;
    }
    Ok(calls)
}

/// Has call `number` of rank 0 fail; `false` where there are not as many.
fn call_fails<D: Device>(device: &D, path: DataPath, number: u64) -> Result<bool, Failure> {
    let came = run_ranks(3, |comm| {
        comm.set_time_limit(Some(Duration::from_secs(10)));
        let faulty = Faulty::new(device);
        let stream = faulty.create_stream(Priority::Normal)?;
        let mut line = LineOf::new(&comm, &faulty, path, CELLS)?;
        comm.barrier()?;
        if comm.rank() == 0 {
            faulty.fail_at(number);
        }
        let ended = exchanges(&mut line, &faulty, &stream);
        // What is left in the stream uses the field.
        device.synchronize(&stream)?;
        let came = comm.rank() == 0 && faulty.has_failed();
        judge_end(&comm, came, &ended)?;
        Ok::<_, Failure>(came)
    })?;
    Ok(came.contains(&true))
}

fn exchanges<D: Device>(line: &mut LineOf<D>, device: &D, stream: &D::Stream) -> Result<(), Failure> {
    for round in 1..=ROUNDS {
        line.write(round, stream)?;
        line.exchange.start(Schedule::On(stream))?.finish(Schedule::On(stream))?;
        line.look(stream)?;
        device.synchronize(stream)?;
        line.exchange.synchronize()?;
        line.verify(round, stream)?;
    }
    Ok(())
}

fn judge_end(comm: &Communicator, came: bool, ended: &Result<(), Failure>) -> Result<(), Failure> {
    let said = ended.as_ref().err().map(ToString::to_string);
    let right = match &said {
        Some(error) if came => error.contains(MADE_TO_FAIL),
        Some(error) => comm.rank() != 0 && error.contains("rank "),
        None => !came,
    };
    ensure!(right, "rank {} ended with {said:?}", comm.rank());
    Ok(())
}

/// A device that does what another one does, but for one call, which fails and does nothing.
#[derive(Debug, Clone)]
pub struct Faulty<D> {
    device: D,
    /// The number of the call that fails, counted down; 0: none.
    left: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
}

impl<D: Device> Faulty<D> {
    /// One of which no call fails.
    pub fn new(device: &D) -> Faulty<D> {
        Faulty { device: device.clone(), left: Arc::default(), failed: Arc::default() }
    }

    /// Has a later call fail: 1 is the next one.
    pub fn fail_at(&self, number: u64) {
        self.left.store(number, Ordering::SeqCst);
    }

    /// Whether the call came.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    fn call(&self, call: &'static str) -> Result<&D, DeviceError> {
        let next = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) == Ok(1) {
            self.failed.store(true, Ordering::SeqCst);
            return Err(DeviceError::Driver { call, device: self.device.id(), message: MADE_TO_FAIL.into() });
        }
        Ok(&self.device)
    }
}

// SAFETY: every call is one of a device that keeps these promises, or does nothing and gives an error.
unsafe impl<D: Device> Device for Faulty<D> {
    type Stream = D::Stream;
    type Event = D::Event;
    type Buffer = D::Buffer;
    type Copies = D::Copies;
    type Kernel = D::Kernel;
    type Launch = D::Launch;

    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn default_stream(&self) -> D::Stream {
        self.device.default_stream()
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

    fn gate(&self, stream: &D::Stream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
        self.call("gate")?.gate(stream)
    }

    fn call_host(&self, stream: &D::Stream, function: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError> {
        self.call("call_host")?.call_host(stream, function)
    }

    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<D::Buffer, DeviceError> {
        self.call("allocate")?.allocate(bytes, kind)
    }

    fn allocate_on(&self, bytes: usize, stream: &D::Stream) -> Result<D::Buffer, DeviceError> {
        self.call("allocate_on")?.allocate_on(bytes, stream)
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

    unsafe fn copy_box(&self, copy: &BoxCopy, stream: &D::Stream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.call("copy_box")?.copy_box(copy, stream) }
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

    unsafe fn run_copies(&self, copies: &D::Copies, stream: &D::Stream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.call("run_copies")?.run_copies(copies, stream) }
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
}
