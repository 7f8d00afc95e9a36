//! A ring of ranks, each of which sends all its cells to the next one: the exchange that most tests of streams run.

use haloport_core::device::{
    Buffer, Device, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType, Pointer,
};
use haloport_core::{BindOptions, Communicator, DataPath, Exchange, Field, Grid, Halo, Pattern, Split};

use crate::{Failure, ensure};

/// The number of halo cells that are verified.
const SAMPLES: i64 = 64;

/// `cells[i] = first + i`.
const WRITE: KernelSource = KernelSource {
    name: "write_numbers",
    portable: Some(
        "KERNEL void write_numbers(GLOBAL long *cells, long first, long count) {\n\
               \x20   long i = GLOBAL_INDEX(0);\n\
               \x20   if (i < count) cells[i] = first + i;\n\
               }\n",
    ),
    host: |range, arguments| {
        let [KernelArgument::Pointer(cells), KernelArgument::I64(first), KernelArgument::I64(count)] =
            arguments
        else {
            return;
        };
        for i in range.begin[0]..range.end[0].min(*count as usize) {
            // SAFETY: the launch promised `count` cells, and this one to this call alone.
            unsafe { cells.as_ptr().cast::<i64>().add(i).write(first + i as i64) };
        }
    },
    parameters: &[ParameterType::Pointer, ParameterType::I64, ParameterType::I64],
};

/// Samples the last of every `stride` cells.
const SAMPLE: KernelSource = KernelSource {
    name: "sample",
    portable: Some(
        "KERNEL void sample(GLOBAL const long *cells, GLOBAL long *samples, long stride, long count) {\n\
               \x20   long i = GLOBAL_INDEX(0);\n\
               \x20   if (i < count) samples[i] = cells[i * stride + stride - 1];\n\
               }\n",
    ),
    host: |range, arguments| {
        let [
            KernelArgument::Pointer(cells),
            KernelArgument::Pointer(samples),
            KernelArgument::I64(stride),
            KernelArgument::I64(count),
        ] = arguments
        else {
            return;
        };
        let (cells, samples) = (cells.as_ptr().cast::<i64>(), samples.as_ptr().cast::<i64>());
        let stride = *stride as usize;
        for i in range.begin[0]..range.end[0].min(*count as usize) {
            // SAFETY: the launch promised `count` samples, each of `stride` cells, and this one to this call alone.
            unsafe { *samples.add(i) = *cells.add(i * stride + stride - 1) };
        }
    },
    parameters: &[ParameterType::Pointer, ParameterType::Pointer, ParameterType::I64, ParameterType::I64],
};

/// A ring of ranks with the same number of cells each. The halo of a rank is all cells of its left neighbour.
pub(super) struct RankRing<D: Device> {
    /// Its field is in memory that the host can read, if the device has such memory.
    pub(super) exchange: Exchange<Field<i64, D>>,
    device: D,
    /// Cells that a rank owns, and that its left neighbour sends to it.
    cells: i64,
    rank: i64,
    ranks: i64,
    /// The first owned cell.
    pub(super) begin: i64,
    samples: D::Buffer,
    write: D::Kernel,
    sample: D::Launch,
}

impl<D: Device> RankRing<D> {
    /// Collective: each rank has `cells` cells, a multiple of 64.
    pub(super) fn new(
        comm: &Communicator,
        device: &D,
        path: DataPath,
        cells: usize,
    ) -> Result<RankRing<D>, Failure> {
        RankRing::with_options(comm, device, BindOptions::default().prefer(path), cells)
    }

    /// Collective: the same, bound with these options.
    pub(super) fn with_options(
        comm: &Communicator,
        device: &D,
        options: BindOptions,
        cells: usize,
    ) -> Result<RankRing<D>, Failure> {
        let grid = Grid::new([cells * comm.size()])?.periodic([true])?;
        let domain = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::per_side([(cells, 0)]))?;
        let shared = device.info().offers(MemoryKind::Shared);
        let kind = if shared { MemoryKind::Shared } else { MemoryKind::Device };
        let field = Field::<i64, D>::builder(&pattern).memory(kind).build(device)?;
        let halo = field.pointer(0)?;
        let samples = device.allocate(8 * SAMPLES as usize, MemoryKind::Device)?;
        let arguments = [
            KernelArgument::Pointer(halo),
            KernelArgument::Pointer(samples.pointer()),
            KernelArgument::I64(cells as i64 / SAMPLES),
            KernelArgument::I64(SAMPLES),
        ];
        let sample =
            device.bind(&device.compile(&SAMPLE)?, LaunchConfig::linear(SAMPLES as usize), &arguments)?;
        Ok(RankRing {
            device: device.clone(),
            cells: cells as i64,
            rank: comm.rank() as i64,
            ranks: comm.size() as i64,
            begin: domain.lower()[0],
            samples,
            write: device.compile(&WRITE)?,
            sample,
            exchange: pattern.bind_with(field, options)?,
        })
    }

    pub(super) fn stream(&self, stream: Option<&D::Stream>) -> D::Stream {
        stream.cloned().unwrap_or_else(|| self.device.default_stream())
    }

    pub(super) fn left(&self) -> i64 {
        (self.rank + self.ranks - 1) % self.ranks
    }

    /// The value of the first cell of `rank` in `round`.
    pub(super) fn first(&self, round: i64, rank: i64) -> i64 {
        (round * self.ranks + rank) << 32
    }

    /// Puts a kernel that writes the owned cells into `stream`.
    pub(super) fn write(&self, round: i64, stream: &D::Stream) -> Result<(), Failure> {
        let owned: Pointer = self.exchange.fields().pointer(0)?.offset(8 * self.cells as isize);
        let arguments = [
            KernelArgument::Pointer(owned),
            KernelArgument::I64(self.first(round, self.rank)),
            KernelArgument::I64(self.cells),
        ];
        let launch = self.device.bind(&self.write, LaunchConfig::linear(self.cells as usize), &arguments)?;
        // SAFETY: the cells live until a test has synchronised with the stream, and every exchange and every look is
        // ordered with this launch, which is what the tests verify.
        unsafe { self.device.launch(&launch, stream)? };
        Ok(())
    }

    /// Puts a kernel that samples the halo into `stream`.
    pub(super) fn look(&self, stream: &D::Stream) -> Result<(), Failure> {
        // SAFETY: as for `write`; the samples are read after this.
        unsafe { self.device.launch(&self.sample, stream)? };
        Ok(())
    }

    /// Verifies that the last look in `stream` saw what the left neighbour wrote in `round`.
    pub(super) fn verify(&self, round: i64, stream: &D::Stream) -> Result<(), Failure> {
        let mut found = vec![0i64; SAMPLES as usize];
        // SAFETY: the buffer holds `SAMPLES` samples, and nothing else uses them now.
        unsafe { self.device.read(self.samples.pointer(), bytemuck::cast_slice_mut(&mut found), stream)? };
        let stride = self.cells / SAMPLES;
        let expected = |sample: i64| self.first(round, self.left()) + (sample + 1) * stride - 1;
        let wrong = found.iter().zip(0..).find(|(found, sample)| **found != expected(*sample));
        ensure!(wrong.is_none(), "round {round}: found {wrong:?} in the halo");
        Ok(())
    }
}
