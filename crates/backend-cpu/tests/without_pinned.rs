//! Exchanges on a device whose memory transports cannot read, and which has no pinned memory: the CPU, that says so of
//! itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use haloport_conformance::{Failure, exchange, unstructured};
use haloport_core::device::{
    BoxCopy, CopyItem, Device, DeviceError, DeviceInfo, KernelArgument, KernelSource, LaunchConfig,
    MemoryKind, NextReader, Pointer, Priority,
};
use haloport_core::{DataPath, Field, Grid, Halo, Pattern, Schedule, Split, run_ranks};
use haloport_cpu::CpuDevice;

/// The CPU, with memory of the one kind that every device has.
#[derive(Debug, Clone)]
struct Bare {
    cpu: CpuDevice,
    info: DeviceInfo,
}

impl Bare {
    fn new() -> Bare {
        let cpu = CpuDevice::with_threads(1).unwrap();
        let info = DeviceInfo { host_accessible: false, ..cpu.info().clone() };
        Bare { cpu, info }
    }
}

// SAFETY: it does what the CPU does.
unsafe impl Device for Bare {
    type Stream = <CpuDevice as Device>::Stream;
    type Event = <CpuDevice as Device>::Event;
    type Buffer = <CpuDevice as Device>::Buffer;
    type Copies = <CpuDevice as Device>::Copies;
    type Kernel = <CpuDevice as Device>::Kernel;
    type Launch = <CpuDevice as Device>::Launch;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn default_stream(&self) -> Self::Stream {
        self.cpu.default_stream()
    }

    fn create_stream(&self, priority: Priority) -> Result<Self::Stream, DeviceError> {
        self.cpu.create_stream(priority)
    }

    unsafe fn borrow_stream(&self, handle: usize) -> Result<Self::Stream, DeviceError> {
        // SAFETY: the caller's promise, here and below.
        unsafe { self.cpu.borrow_stream(handle) }
    }

    fn synchronize(&self, stream: &Self::Stream) -> Result<(), DeviceError> {
        self.cpu.synchronize(stream)
    }

    fn create_event(&self, timing: bool) -> Result<Self::Event, DeviceError> {
        self.cpu.create_event(timing)
    }

    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<(), DeviceError> {
        self.cpu.record(event, stream)
    }

    fn stream_wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<(), DeviceError> {
        self.cpu.stream_wait(stream, event)
    }

    fn host_wait(&self, event: &Self::Event) -> Result<(), DeviceError> {
        self.cpu.host_wait(event)
    }

    fn query(&self, event: &Self::Event) -> Result<bool, DeviceError> {
        self.cpu.query(event)
    }

    fn elapsed(&self, begin: &Self::Event, end: &Self::Event) -> Result<Duration, DeviceError> {
        self.cpu.elapsed(begin, end)
    }

    fn allocate(&self, bytes: usize, kind: MemoryKind) -> Result<Self::Buffer, DeviceError> {
        match kind {
            MemoryKind::Device => self.cpu.allocate(bytes, kind),
            _ => Err(DeviceError::Unsupported { what: "memory of this kind", device: self.id() }),
        }
    }

    unsafe fn copy(
        &self,
        source: Pointer,
        target: Pointer,
        bytes: usize,
        stream: &Self::Stream,
    ) -> Result<(), DeviceError> {
        // SAFETY: see above.
        unsafe { self.cpu.copy(source, target, bytes, stream) }
    }

    unsafe fn copy_box(&self, copy: &BoxCopy, stream: &Self::Stream) -> Result<(), DeviceError> {
        // SAFETY: see above.
        unsafe { self.cpu.copy_box(copy, stream) }
    }

    unsafe fn write(&self, source: &[u8], target: Pointer, stream: &Self::Stream) -> Result<(), DeviceError> {
        // SAFETY: see above.
        unsafe { self.cpu.write(source, target, stream) }
    }

    unsafe fn read(
        &self,
        source: Pointer,
        target: &mut [u8],
        stream: &Self::Stream,
    ) -> Result<(), DeviceError> {
        // SAFETY: see above.
        unsafe { self.cpu.read(source, target, stream) }
    }

    unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        count: usize,
        stream: &Self::Stream,
    ) -> Result<(), DeviceError> {
        // SAFETY: see above.
        unsafe { self.cpu.fill(target, element, count, stream) }
    }

    fn bind_copies(&self, items: Vec<CopyItem>, reader: NextReader) -> Result<Self::Copies, DeviceError> {
        self.cpu.bind_copies(items, reader)
    }

    unsafe fn run_copies(&self, copies: &Self::Copies, stream: &Self::Stream) -> Result<(), DeviceError> {
        // SAFETY: see above.
        unsafe { self.cpu.run_copies(copies, stream) }
    }

    fn compile(&self, source: &KernelSource) -> Result<Self::Kernel, DeviceError> {
        self.cpu.compile(source)
    }

    fn bind(
        &self,
        kernel: &Self::Kernel,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<Self::Launch, DeviceError> {
        self.cpu.bind(kernel, config, arguments)
    }

    fn rebind(
        &self,
        launch: &mut Self::Launch,
        index: usize,
        argument: KernelArgument,
    ) -> Result<(), DeviceError> {
        self.cpu.rebind(launch, index, argument)
    }

    unsafe fn launch(&self, launch: &Self::Launch, stream: &Self::Stream) -> Result<(), DeviceError> {
        // SAFETY: see above.
        unsafe { self.cpu.launch(launch, stream) }
    }
}

#[test]
fn messages_take_the_way_through_plain_memory() {
    let device = Bare::new();
    assert!(matches!(device.allocate(8, MemoryKind::Pinned), Err(DeviceError::Unsupported { .. })));
    run_ranks(2, |comm| -> Result<(), Failure> {
        let grid = Grid::new([8])?.periodic([true])?;
        let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
        let mut field = Field::<f64, _>::new(&device, &pattern)?;
        let first = 4.0 * comm.rank() as f64;
        field.copy_from(0, &[-1.0, first, first + 1.0, first + 2.0, first + 3.0, -1.0])?;
        let options = haloport_core::BindOptions::default().path(DataPath::Messages);
        let mut exchange = pattern.bind_with(field, options)?;
        exchange.exchange(Schedule::DefaultStream)?;
        let traffic = exchange.traffic();
        assert!(traffic.message_bytes > 0 && traffic.sent_in_place_bytes == 0, "{traffic:?}");
        let found = exchange.fields().to_vec(0)?;
        assert_eq!([found[0], found[5]], [(first + 7.0) % 8.0, (first + 4.0) % 8.0]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn random_exchanges_match_the_global_oracle() {
    let device = Bare::new();
    for ranks in 1..=4 {
        run_ranks(ranks, |comm| -> Result<(), Failure> {
            for number in 0..100 {
                let size = 1 + number as usize / 10;
                exchange::check(&comm, &device, &exchange::Case::new(number, ranks, size))?;
                unstructured::check(&comm, &device, &unstructured::Case::new(number, ranks, size))?;
            }
            Ok(())
        })
        .unwrap();
    }
}
