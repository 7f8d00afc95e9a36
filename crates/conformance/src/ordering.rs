//! How exchanges are ordered with the work around them, on devices that go on working after a call has returned.
//!
//! Every test fails if one wait is left out. Streams are held back by gates, so that what does not wait comes too early,
//! and what is copied is large, so that what does not wait for the end of a copy reads what was there before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haloport_core::device::{
    Buffer, Device, DeviceError, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType,
    Pointer, Priority,
};
use haloport_core::{
    BindOptions, Communicator, DataPath, Exchange, Field, Grid, Halo, Pattern, Pending, Schedule, Split,
};

use crate::{Failure, ensure};

/// Cells that a rank owns, and its left neighbour sends it: 16 MiB.
const CELLS: i64 = 2 << 20;

/// How many of them are looked at.
const SAMPLES: i64 = 64;

/// How long a gate is closed, so that what does not wait for it is done before.
const CLOSED: Duration = Duration::from_millis(30);

/// `cells[i] = first + i`.
const WRITE: KernelSource = KernelSource {
    name: "write_numbers",
    portable: Some(
        "KERNEL void write_numbers(GLOBAL long *cells, long first, long count) {\n\
               \x20   long i = GLOBAL_INDEX(0);\n\
               \x20   if (i < count) cells[i] = first + i;\n\
               }\n",
    ),
    host: |_, _| {},
    parameters: &[ParameterType::Pointer, ParameterType::I64, ParameterType::I64],
};

/// The last of every `stride` cells.
const SAMPLE: KernelSource = KernelSource {
    name: "sample",
    portable: Some(
        "KERNEL void sample(GLOBAL const long *cells, GLOBAL long *samples, long stride, long count) {\n\
               \x20   long i = GLOBAL_INDEX(0);\n\
               \x20   if (i < count) samples[i] = cells[i * stride + stride - 1];\n\
               }\n",
    ),
    host: |_, _| {},
    parameters: &[ParameterType::Pointer, ParameterType::Pointer, ParameterType::I64, ParameterType::I64],
};

/// Collective: all tests, on a device with gates; nothing on one without, whose work is done when a call returns.
/// `borrowed` is a stream that somebody else made, if there is one.
///
/// # Errors
/// What came too early or too late, or the error of a call.
pub fn suite<D: Device>(
    comm: &Communicator,
    device: &D,
    borrowed: Option<&D::Stream>,
) -> Result<(), Failure> {
    if !device.info().asynchronous {
        return Ok(());
    }
    let own = [device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?];
    let (one, two) = (Some(&own[0]), Some(&own[1]));
    let mut pairs = vec![(None, None), (one, one), (one, two), (one, None), (None, two)];
    pairs.extend(borrowed.iter().flat_map(|&b| [(Some(b), Some(b)), (one, Some(b)), (Some(b), two)]));
    for path in [DataPath::Messages, DataPath::Direct] {
        let named = |what: &str, outcome: Result<(), Failure>| {
            outcome.map_err(|error| Failure::from(format!("{what}, {path}: {error}")))
        };
        for (number, &(start, finish)) in pairs.iter().enumerate() {
            let between = between_streams(comm, device, path, start, finish);
            named(&format!("from stream to stream, pair {number}"), between)?;
        }
        named("a finish that blocks", blocking(comm, device, path))?;
        named("what is received next", received_next(comm, device, path))?;
        named("two in flight", two_in_flight(comm, device, path, &own))?;
        named("access from the host", host_access(comm, device, path))?;
        named("an exchange that is dropped", dropped(comm, device, path))?;
    }
    Ok(())
}

/// Packing waits for a kernel that writes the field, and a look at the halo waits for the unpacking.
fn between_streams<D: Device>(
    comm: &Communicator,
    device: &D,
    path: DataPath,
    start: Option<&D::Stream>,
    finish: Option<&D::Stream>,
) -> Result<(), Failure> {
    let mut line = LineOf::new(comm, device, path)?;
    for round in 1..=3 {
        let (from, to) = (line.stream(start), line.stream(finish));
        let open = device.gate(&from)?;
        line.write(round, &from)?;
        let pending = line.exchange.start(schedule(start))?;
        poll_while_closed(&pending);
        open();
        pending.finish(schedule(finish))?;
        line.look(&to)?;
        line.verify(round, &to)?;
    }
    comm.barrier()?;
    Ok(())
}

/// After `finish` has blocked, any stream sees the halo, and the owned cells may be written: no neighbour reads them.
fn blocking<D: Device>(comm: &Communicator, device: &D, path: DataPath) -> Result<(), Failure> {
    let mut line = LineOf::new(comm, device, path)?;
    let other = device.create_stream(Priority::Normal)?;
    for round in 1..=3 {
        line.write(round, &other)?;
        device.synchronize(&other)?;
        line.exchange.start(Schedule::Blocking)?.finish(Schedule::Blocking)?;
        line.look(&other)?;
        line.write(round + 100, &other)?;
        line.verify(round, &other)?;
        device.synchronize(&other)?;
    }
    comm.barrier()?;
    Ok(())
}

/// What a neighbour sends next does not disturb what is still being unpacked.
fn received_next<D: Device>(comm: &Communicator, device: &D, path: DataPath) -> Result<(), Failure> {
    let mut line = LineOf::new(comm, device, path)?;
    let [one, two] = [device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?];
    let seen = device.create_event(false)?;
    line.write(1, &one)?;
    let pending = line.exchange.start(Schedule::On(&one))?;
    wait(&pending);
    // Every second rank holds its unpacking back, and with it what it sends next; its neighbours send theirs.
    let open = if comm.rank().is_multiple_of(2) { Some(device.gate(&two)?) } else { None };
    pending.finish(Schedule::On(&two))?;
    line.look(&two)?;
    device.record(&seen, &two)?;
    device.stream_wait(&one, &seen)?;
    line.write(2, &one)?;
    let pending = line.exchange.start(Schedule::On(&one))?;
    poll_while_closed(&pending);
    open.into_iter().for_each(|open| open());
    pending.finish(Schedule::On(&one))?;
    line.verify(1, &two)?;
    line.look(&one)?;
    line.verify(2, &one)?;
    comm.barrier()?;
    Ok(())
}

/// Two exchanges on two streams, of which the one that was started first is held back longer.
fn two_in_flight<D: Device>(
    comm: &Communicator,
    device: &D,
    path: DataPath,
    streams: &[D::Stream; 2],
) -> Result<(), Failure> {
    let mut lines = [LineOf::new(comm, device, path)?, LineOf::new(comm, device, path)?];
    for round in 1..=3 {
        let mut open = Vec::new();
        let mut pending = Vec::new();
        for (line, stream) in lines.iter_mut().zip(streams) {
            open.push(device.gate(stream)?);
            line.write(round, stream)?;
            pending.push(line.exchange.start(Schedule::On(stream))?);
        }
        for (stream, pending) in streams.iter().zip(pending).rev() {
            poll_while_closed(&pending);
            open.pop().into_iter().for_each(|open| open());
            pending.finish(Schedule::On(stream))?;
        }
        for (line, stream) in lines.iter().zip(streams) {
            line.look(stream)?;
            line.verify(round, stream)?;
        }
    }
    comm.barrier()?;
    Ok(())
}

/// Copies to the host, and views where there are any, wait for an unpacking that `finish` has left in a stream.
fn host_access<D: Device>(comm: &Communicator, device: &D, path: DataPath) -> Result<(), Failure> {
    let mut line = LineOf::new(comm, device, path)?;
    let stream = device.create_stream(Priority::Normal)?;
    for round in 1..=2 {
        line.write(round, &stream)?;
        let pending = line.exchange.start(Schedule::On(&stream))?;
        wait(&pending);
        let open = device.gate(&stream)?;
        pending.finish(Schedule::On(&stream))?;
        let opened = open_later(open);
        let field = line.exchange.fields();
        let halo = match field.view(0) {
            Ok(view) if round == 2 => (0..CELLS).map(|at| view.get(&[line.begin - CELLS + at])).collect(),
            _ => Some(field.to_vec(0)?[..CELLS as usize].to_vec()),
        };
        opened.join().map_err(|_| "the opener panicked")?;
        let halo: Vec<i64> = halo.ok_or("a cell is not there")?;
        let wrong = halo.iter().zip(0..).find(|(found, at)| **found != line.first(round, line.left()) + at);
        ensure!(wrong.is_none(), "round {round}: found {wrong:?} in the halo");
    }
    comm.barrier()?;
    Ok(())
}

/// An exchange ends when its last unpacking is done, so that memory is not freed before.
fn dropped<D: Device>(comm: &Communicator, device: &D, path: DataPath) -> Result<(), Failure> {
    static OPEN: [AtomicBool; 64] = [const { AtomicBool::new(false) }; 64];
    let mut line = LineOf::new(comm, device, path)?;
    let stream = device.create_stream(Priority::Normal)?;
    let is_open = &OPEN[comm.rank() % OPEN.len()];
    is_open.store(false, Ordering::SeqCst);
    let pending = line.exchange.start(Schedule::On(&stream))?;
    wait(&pending);
    let open = device.gate(&stream)?;
    pending.finish(Schedule::On(&stream))?;
    let opened = open_later(Box::new(move || {
        is_open.store(true, Ordering::SeqCst);
        open();
    }));
    drop(line);
    let waited = is_open.load(Ordering::SeqCst);
    opened.join().map_err(|_| "the opener panicked")?;
    ensure!(waited, "it was dropped while its unpacking was held back");
    comm.barrier()?;
    Ok(())
}

type Opener = Box<dyn FnOnce() + Send>;

fn open_later(open: Opener) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        thread::sleep(CLOSED);
        open();
    })
}

fn schedule<S: haloport_core::device::Stream>(stream: Option<&S>) -> Schedule<'_> {
    stream.map_or(Schedule::DefaultStream, |stream| Schedule::On(stream))
}

/// Makes progress while a gate is closed: what can go wrong now does.
fn poll_while_closed<F>(pending: &Pending<'_, F>) {
    let begin = Instant::now();
    while begin.elapsed() < CLOSED {
        pending.is_ready();
        thread::yield_now();
    }
}

/// Waits until `finish` would wait for nobody.
fn wait<F>(pending: &Pending<'_, F>) {
    while !pending.is_ready() {
        thread::yield_now();
    }
}

/// A periodic line of which each rank owns [`CELLS`], with all cells of the left neighbour as halo.
struct LineOf<D: Device> {
    /// In memory that the host reads, where there is such memory.
    exchange: Exchange<Field<i64, D>>,
    device: D,
    rank: i64,
    ranks: i64,
    /// The first cell that is owned.
    begin: i64,
    samples: D::Buffer,
    write: D::Kernel,
    sample: D::Launch,
}

impl<D: Device> LineOf<D> {
    fn new(comm: &Communicator, device: &D, path: DataPath) -> Result<LineOf<D>, Failure> {
        let grid = Grid::new([CELLS as usize * comm.size()])?.periodic([true])?;
        let domain = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::per_side([(CELLS as usize, 0)]))?;
        let kind = match device.allocate(1, MemoryKind::Shared) {
            Err(DeviceError::Unsupported { .. }) => MemoryKind::Device,
            _ => MemoryKind::Shared,
        };
        let field = Field::<i64, D>::builder(&pattern).memory(kind).build(device)?;
        let halo = field.pointer(0)?;
        let samples = device.allocate(8 * SAMPLES as usize, MemoryKind::Device)?;
        let arguments = [
            KernelArgument::Pointer(halo),
            KernelArgument::Pointer(samples.pointer()),
            KernelArgument::I64(CELLS / SAMPLES),
            KernelArgument::I64(SAMPLES),
        ];
        let sample =
            device.bind(&device.compile(&SAMPLE)?, LaunchConfig::linear(SAMPLES as usize), &arguments)?;
        Ok(LineOf {
            device: device.clone(),
            rank: comm.rank() as i64,
            ranks: comm.size() as i64,
            begin: domain.lower()[0],
            samples,
            write: device.compile(&WRITE)?,
            sample,
            exchange: pattern.bind_with(field, BindOptions::default().path(path))?,
        })
    }

    fn stream(&self, stream: Option<&D::Stream>) -> D::Stream {
        stream.cloned().unwrap_or_else(|| self.device.default_stream())
    }

    fn left(&self) -> i64 {
        (self.rank + self.ranks - 1) % self.ranks
    }

    /// The value of the first cell of `rank` in `round`.
    fn first(&self, round: i64, rank: i64) -> i64 {
        (round * self.ranks + rank) << 32
    }

    /// Puts into `stream` what writes the owned cells.
    fn write(&self, round: i64, stream: &D::Stream) -> Result<(), Failure> {
        let owned: Pointer = self.exchange.fields().pointer(0)?.offset(8 * CELLS as isize);
        let arguments = [
            KernelArgument::Pointer(owned),
            KernelArgument::I64(self.first(round, self.rank)),
            KernelArgument::I64(CELLS),
        ];
        let launch = self.device.bind(&self.write, LaunchConfig::linear(CELLS as usize), &arguments)?;
        // SAFETY: the cells live until a test has synchronised with the stream, and every exchange and every look is
        // ordered with it: that is what is tested.
        unsafe { self.device.launch(&launch, stream)? };
        Ok(())
    }

    /// Puts into `stream` what looks at the halo.
    fn look(&self, stream: &D::Stream) -> Result<(), Failure> {
        // SAFETY: as for `write`; the samples are read after this.
        unsafe { self.device.launch(&self.sample, stream)? };
        Ok(())
    }

    /// Whether the look in `stream` saw what the left neighbour wrote in `round`.
    fn verify(&self, round: i64, stream: &D::Stream) -> Result<(), Failure> {
        let mut found = vec![0i64; SAMPLES as usize];
        // SAFETY: the samples are as many, and nothing else uses them now.
        unsafe { self.device.read(self.samples.pointer(), bytemuck::cast_slice_mut(&mut found), stream)? };
        let stride = CELLS / SAMPLES;
        let expected = |sample: i64| self.first(round, self.left()) + (sample + 1) * stride - 1;
        let wrong = found.iter().zip(0..).find(|(found, sample)| **found != expected(*sample));
        ensure!(wrong.is_none(), "round {round}: found {wrong:?} in the halo");
        Ok(())
    }
}
