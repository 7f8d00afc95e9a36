//! A ring of ranks: the exchange that most tests of streams run. Each rank sends all its cells to the next one, or the halo of its
//! left neighbour's cells to that one, which keeps the larger values.

use std::ops::Range;

use haloport_core::device::{
    Buffer, Combine, Device, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType, Pointer,
};
use haloport_core::{BindOptions, Communicator, DataPath, Exchange, Field, Grid, Halo, Pattern, Split};

use crate::{Failure, ensure};

/// The number of cells that are verified.
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

/// How the cells of a ring travel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Travel {
    options: fn() -> BindOptions,
    /// Whether halos go to their owners.
    is_reversed: bool,
}

impl Travel {
    pub(super) const fn to_halos(options: fn() -> BindOptions) -> Travel {
        Travel { options, is_reversed: false }
    }

    pub(super) const fn to_owners(options: fn() -> BindOptions) -> Travel {
        Travel { options, is_reversed: true }
    }

    /// Collective: a ring with `cells` cells for each rank, a multiple of 64.
    pub(super) fn ring<D: Device>(
        self,
        comm: &Communicator,
        device: &D,
        cells: usize,
    ) -> Result<RankRing<D>, Failure> {
        let options = (self.options)();
        let options = if self.is_reversed { options.accumulate(Combine::Max) } else { options };
        RankRing::bound(comm, device, options, cells, self.is_reversed)
    }
}

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
    begin: i64,
    is_reversed: bool,
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
        RankRing::bound(comm, device, options, cells, false)
    }

    fn bound(
        comm: &Communicator,
        device: &D,
        options: BindOptions,
        cells: usize,
        is_reversed: bool,
    ) -> Result<RankRing<D>, Failure> {
        let grid = Grid::new([cells * comm.size()])?.periodic([true])?;
        let domain = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::per_side([(cells, 0)]))?;
        let shared = device.info().offers(MemoryKind::Shared);
        let kind = if shared { MemoryKind::Shared } else { MemoryKind::Device };
        let field = Field::<i64, D>::builder(&pattern).memory(kind).build(device)?;
        let arriving = field.pointer(0)?.offset(if is_reversed { 8 * cells as isize } else { 0 });
        let samples = device.allocate(8 * SAMPLES as usize, MemoryKind::Device)?;
        let arguments = [
            KernelArgument::Pointer(arriving),
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
            is_reversed,
            samples,
            write: device.compile(&WRITE)?,
            sample,
            exchange: pattern.bind_with(field, options)?,
        })
    }

    pub(super) fn stream(&self, stream: Option<&D::Stream>) -> D::Stream {
        stream.cloned().unwrap_or_else(|| self.device.default_stream())
    }

    /// The value of the first cell that `rank` sends in `round`.
    fn first(&self, round: i64, rank: i64) -> i64 {
        (round * self.ranks + rank) << 32
    }

    /// The value of each cell that has arrived in `round`.
    pub(super) fn arrived(&self, round: i64) -> impl Iterator<Item = i64> {
        let away = if self.is_reversed { 1 } else { self.ranks - 1 };
        let first = self.first(round, (self.rank + away) % self.ranks);
        first..first + self.cells
    }

    /// The cells that arrive, as cells of the grid.
    pub(super) fn arriving(&self) -> Range<i64> {
        let first = if self.is_reversed { self.begin } else { self.begin - self.cells };
        first..first + self.cells
    }

    /// The cells that arrive, as elements in memory.
    pub(super) fn arriving_elements(&self) -> Range<usize> {
        let (cells, first) = (self.cells as usize, if self.is_reversed { self.cells as usize } else { 0 });
        first..first + cells
    }

    /// Puts a kernel that writes the cells that are sent into `stream`. If they are the halo, the owned cells get smaller values before.
    pub(super) fn write(&self, round: i64, stream: &D::Stream) -> Result<(), Failure> {
        let halo: Pointer = self.exchange.fields().pointer(0)?;
        let owned = halo.offset(8 * self.cells as isize);
        let first = self.first(round, self.rank);
        if !self.is_reversed {
            return self.write_cells(owned, first, stream);
        }
        self.write_cells(owned, self.first(round, 0) - self.cells, stream)?;
        self.write_cells(halo, first, stream)
    }

    fn write_cells(&self, cells: Pointer, first: i64, stream: &D::Stream) -> Result<(), Failure> {
        let arguments =
            [KernelArgument::Pointer(cells), KernelArgument::I64(first), KernelArgument::I64(self.cells)];
        let launch = self.device.bind(&self.write, LaunchConfig::linear(self.cells as usize), &arguments)?;
        // SAFETY: the cells live until a test has synchronised with the stream, and every exchange and every look is
        // ordered with this launch, which is what the tests verify.
        unsafe { self.device.launch(&launch, stream)? };
        Ok(())
    }

    /// Puts a kernel that samples the cells that arrive into `stream`.
    pub(super) fn look(&self, stream: &D::Stream) -> Result<(), Failure> {
        // SAFETY: as for `write`; the samples are read after this.
        unsafe { self.device.launch(&self.sample, stream)? };
        Ok(())
    }

    /// Verifies that the last look in `stream` saw what a neighbour wrote in `round`.
    pub(super) fn verify(&self, round: i64, stream: &D::Stream) -> Result<(), Failure> {
        let mut found = vec![0i64; SAMPLES as usize];
        // SAFETY: the buffer holds `SAMPLES` samples, and nothing else uses them now.
        unsafe { self.device.read(self.samples.pointer(), bytemuck::cast_slice_mut(&mut found), stream)? };
        let stride = (self.cells / SAMPLES) as usize;
        let expected = self.arrived(round).skip(stride - 1).step_by(stride);
        let wrong = found.iter().zip(expected).find(|(found, expected)| *found != expected);
        ensure!(wrong.is_none(), "round {round}: found and expected {wrong:?} among what has arrived");
        Ok(())
    }
}
