//! The model on one rank: fields on a device, kernels, exchanges and time steps.

use std::time::{Duration, Instant};

use haloport::device::{Buffer, Device, DeviceError, KernelArgument, KernelSource, LaunchConfig, MemoryKind};
use haloport::{
    BindError, Communicator, Exchange, ExchangeError, Field, FieldError, Halo, Neighbours, Pattern,
    PatternError, Schedule, TransportError,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::numbers::{differing, larger, largest_difference};
use crate::traffic::Moved;
use crate::tsunami::block::{Block, BlockError, Fields, MARGIN, State};
use crate::tsunami::decomposition::{DecompositionError, decompose};
use crate::tsunami::kernels::{CORRECT, EXTREMES, PREDICT, RAISE_LARGEST, STAGE_TIME_STEP, WALLS, wall_bits};
use crate::tsunami::relief::Relief;
use crate::tsunami::scheme::Physics;

/// Depth and momenta, as they travel.
type Flow<D> = [Field<f64, D>; 3];

/// The model on one rank.
///
/// The state and the first half of each step are two sets of fields, each with an exchange of
/// its own. The bed and the metric lie beside them on the device, and every kernel is bound to
/// its arrays once; a step launches kernels, exchanges halos, and reads back two values for
/// each row of the block.
pub struct Solver<D: Device> {
    comm: Communicator,
    device: D,
    stream: D::Stream,
    physics: Physics,
    grid: [usize; 2],
    parts: [usize; 2],
    block: Block,
    state: Exchange<Flow<D>>,
    predicted: Exchange<Flow<D>>,
    largest: Field<f64, D>,
    /// The largest rate of each row, then the smallest depth of each.
    extremes: D::Buffer,
    extremes_on_host: Vec<f64>,
    /// What kernels read besides.
    _constant: [D::Buffer; 2],
    launches: Launches<D>,
    min_depth: f64,
    spent: Spent,
}

/// Kernels with their arguments.
struct Launches<D: Device> {
    extremes: D::Launch,
    state_walls: D::Launch,
    predict: D::Launch,
    predicted_walls: D::Launch,
    correct: D::Launch,
    raise_largest: D::Launch,
}

/// Where a rank's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// In exchanges of halos, from start to finish.
    pub exchange: Duration,
    /// In the reduction that finds the time step, waiting for slower ranks included.
    pub reduction: Duration,
}

/// Fields of the whole grid, row by row from the south.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whole {
    /// Depth, metres.
    pub h: Vec<f64>,
    /// Depth times eastward velocity, m^2/s.
    pub hu: Vec<f64>,
    /// Depth times northward velocity, m^2/s.
    pub hv: Vec<f64>,
    /// Largest wave height so far, metres; see [`wave_height`](crate::tsunami::survey::wave_height).
    pub largest: Vec<f64>,
}

/// Why the model could not be set up or run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SolverError {
    /// The grid could not be dealt out to the ranks.
    #[error(transparent)]
    Decomposition(#[from] DecompositionError),
    /// A rank's block could not be made.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The pattern's error.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A field's error.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The error of binding an exchange.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// An exchange's error.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The transport's error.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The device's error.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Nothing limits the time step.
    #[error("the time step must be above 0 s and finite, found {found}: is there any water?")]
    TimeStep {
        /// The time step, seconds.
        found: f64,
    },
}

impl<D: Device> Solver<D> {
    /// Collective: the model on the grid of `relief`, one block for each rank, without water.
    ///
    /// # Errors
    /// [`SolverError`].
    pub fn new(
        comm: &Communicator,
        device: &D,
        relief: &Relief,
        physics: &Physics,
    ) -> Result<Self, SolverError> {
        let (grid, split) = decompose(relief.nx(), relief.ny(), comm.size())?;
        let parts = split.parts_per_axis();
        let mine = split.part(comm.rank());
        let halo = Halo::uniform(MARGIN).with_neighbours(Neighbours::Faces);
        let pattern = Pattern::structured(comm, &grid, mine.as_slice(), &halo)?;

        let flow = || -> Result<Flow<D>, FieldError> {
            Ok([Field::new(device, &pattern)?, Field::new(device, &pattern)?, Field::new(device, &pattern)?])
        };
        let (state, predicted, largest) = (flow()?, flow()?, Field::<f64, D>::new(device, &pattern)?);
        let layout = state[0].layout(0)?;
        let range = |axis: usize| {
            let owned = layout.owned();
            owned.lower()[axis] as usize..owned.upper()[axis] as usize
        };
        let block = Block::new(relief, range(1), range(0), layout.strides()[0] as usize)?;

        let stream = device.default_stream();
        let constant =
            [upload(device, &stream, &block.bed)?, upload(device, &stream, &block.metric.view().to_vec())?];
        let [bed, metric] = [constant[0].pointer(), constant[1].pointer()].map(KernelArgument::Pointer);
        let extremes = device.allocate(2 * block.ny() * size_of::<f64>(), MemoryKind::Device)?;
        let extremes_at = KernelArgument::Pointer(extremes.pointer());
        let largest_at = KernelArgument::Pointer(largest.pointer(0)?);
        let [q, q1] = [pointers(&state)?, pointers(&predicted)?];
        let [nx, ny, pitch] = [block.nx(), block.ny(), block.pitch].map(|n| KernelArgument::I64(n as i64));
        let [drag, dry, no_time] = [physics.drag, physics.dry, 0.0].map(KernelArgument::F64);
        let closed = KernelArgument::I64(wall_bits(block.walls));
        let bind = |source: &KernelSource, config: LaunchConfig, arguments: &[&[KernelArgument]]| {
            device.bind(&device.compile(source)?, config, &arguments.concat())
        };
        let plane = LaunchConfig::plane(block.nx(), block.ny());
        let rows = LaunchConfig::linear(block.ny());
        let lines = LaunchConfig::linear(block.nx() + block.ny());
        let shape = [nx, ny, pitch];
        let launches = Launches {
            extremes: bind(&EXTREMES, rows, &[&q, &[bed, metric, extremes_at], &shape, &[dry]])?,
            state_walls: bind(&WALLS, lines, &[&q, &shape, &[closed]])?,
            predict: bind(&PREDICT, plane, &[&q, &q1, &[bed, metric], &shape, &[drag, dry, no_time]])?,
            predicted_walls: bind(&WALLS, lines, &[&q1, &shape, &[closed]])?,
            correct: bind(&CORRECT, plane, &[&q1, &q, &[bed, metric], &shape, &[drag, dry, no_time]])?,
            raise_largest: bind(&RAISE_LARGEST, plane, &[&[q[0], bed, largest_at], &shape])?,
        };
        Ok(Self {
            comm: comm.clone(),
            device: device.clone(),
            stream,
            physics: *physics,
            grid: [relief.ny(), relief.nx()],
            parts: [parts[0], parts[1]],
            extremes_on_host: vec![0.0; 2 * block.ny()],
            block,
            state: pattern.bind(state)?,
            predicted: pattern.bind(predicted)?,
            largest,
            extremes,
            _constant: constant,
            launches,
            min_depth: f64::INFINITY,
            spent: Spent::default(),
        })
    }

    /// The rectangle of cells that this rank owns.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Blocks along the rows' axis (south to north) and along the columns' (west to east).
    pub fn parts(&self) -> [usize; 2] {
        self.parts
    }

    /// Where this rank's time went.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Replaces the state by arrays of the layout of [`block`](Solver::block), and raises the
    /// largest wave height to it.
    ///
    /// # Errors
    /// [`SolverError`].
    pub fn set_state(&mut self, fields: &Fields) -> Result<(), SolverError> {
        let values = [&fields.h, &fields.hu, &fields.hv];
        for (field, values) in self.state.fields_mut().iter_mut().zip(values) {
            field.copy_from(0, values)?;
        }
        Ok(self.launch(&self.launches.raise_largest)?)
    }

    /// Collective: one time step, as long as is stable but at most `longest` seconds. Returns
    /// its length, the same on every rank.
    ///
    /// # Errors
    /// [`SolverError`].
    pub fn step(&mut self, longest: f64) -> Result<f64, SolverError> {
        let rate = self.survey_rows()?;
        let began = Instant::now();
        let rate = self.comm.all_max(rate)?;
        self.spent.reduction += began.elapsed();
        let dt = self.physics.time_step(rate).min(longest);
        if !(dt > 0.0 && dt.is_finite()) {
            return Err(SolverError::TimeStep { found: dt });
        }
        for launch in [&mut self.launches.predict, &mut self.launches.correct] {
            self.device.rebind(launch, STAGE_TIME_STEP, KernelArgument::F64(dt))?;
        }
        self.launch(&self.launches.state_walls)?;
        self.spent.exchange += timed(&mut self.state)?;
        self.launch(&self.launches.predict)?;
        self.launch(&self.launches.predicted_walls)?;
        self.spent.exchange += timed(&mut self.predicted)?;
        self.launch(&self.launches.correct)?;
        self.launch(&self.launches.raise_largest)?;
        Ok(dt)
    }

    /// Collective: the smallest depth of any cell at the beginning of any step so far and now,
    /// metres.
    ///
    /// # Errors
    /// [`SolverError`].
    pub fn min_depth(&mut self) -> Result<f64, SolverError> {
        self.survey_rows()?;
        Ok(-self.comm.all_max(-self.min_depth)?)
    }

    /// The depth of an owned cell, counted from the block's first row and column, metres.
    ///
    /// # Errors
    /// [`SolverError`].
    pub fn depth(&self, row: usize, column: usize) -> Result<f64, SolverError> {
        let cell = self.block.index(row, column) * size_of::<f64>();
        let from = self.state.fields()[0].pointer(0)?.offset(cell as isize);
        let mut depth = [0.0];
        // SAFETY: the cell lies in the field, which no exchange is using; the kernels that write it are in the same
        // stream.
        unsafe { self.device.read(from, bytemuck::cast_slice_mut(&mut depth), &self.stream)? };
        Ok(depth[0])
    }

    /// Collective: the fields of the whole grid, on rank 0.
    ///
    /// # Errors
    /// [`SolverError`].
    pub fn gather(&self) -> Result<Option<Whole>, SolverError> {
        let [h, hu, hv] = self.state.fields();
        let fields = [h, hu, hv, &self.largest];
        let values = fields.map(|field| field.to_vec(0).map(|values| self.block.owned(&values)));
        let mut part = Part {
            first: [self.block.rows.start, self.block.columns.start],
            columns: self.block.nx(),
            fields: values.into_iter().collect::<Result<_, _>>()?,
        };
        let is_root = self.comm.rank() == 0;
        let sent = if is_root { Vec::new() } else { vec![(0, std::mem::take(&mut part))] };
        let received = self.comm.sparse_exchange(&sent)?;
        if !is_root {
            return Ok(None);
        }
        let [rows, columns] = self.grid;
        let mut whole = [(); 4].map(|()| vec![0.0; rows * columns]);
        for part in received.into_iter().map(|(_, part)| part).chain([part]) {
            for (whole, values) in whole.iter_mut().zip(&part.fields) {
                for (row, values) in values.chunks(part.columns).enumerate() {
                    let first = (part.first[0] + row) * columns + part.first[1];
                    whole[first..first + part.columns].copy_from_slice(values);
                }
            }
        }
        let [h, hu, hv, largest] = whole;
        Ok(Some(Whole { h, hu, hv, largest }))
    }

    /// Collective: what one exchange moves, on every rank.
    ///
    /// # Errors
    /// [`SolverError`].
    pub fn moved(&self) -> Result<Moved, SolverError> {
        Ok(Moved::of(&self.comm, &self.state)?)
    }

    /// The largest rate of this rank's cells. Takes note of the smallest depth.
    fn survey_rows(&mut self) -> Result<f64, SolverError> {
        self.launch(&self.launches.extremes)?;
        let on_host = bytemuck::cast_slice_mut(&mut self.extremes_on_host);
        // SAFETY: the buffer is as long, and what writes it is in the same stream.
        unsafe { self.device.read(self.extremes.pointer(), on_host, &self.stream)? };
        let (rates, depths) = self.extremes_on_host.split_at(self.block.ny());
        self.min_depth = depths.iter().copied().fold(self.min_depth, f64::min);
        Ok(rates.iter().copied().fold(0.0, f64::max))
    }

    fn launch(&self, launch: &D::Launch) -> Result<(), DeviceError> {
        // SAFETY: kernels are bound to fields and buffers of this solver, of the shape that they are told, which live
        // until its `drop` has waited for the stream. Kernels, copies and the ends of exchanges follow each other in
        // that one stream, and no exchange is pending between the calls.
        unsafe { self.device.launch(launch, &self.stream) }
    }
}

impl<D: Device> Drop for Solver<D> {
    fn drop(&mut self) {
        // Kernels may still be using the buffers. An error was or will be seen by whoever uses the device.
        let _ = self.device.synchronize(&self.stream);
    }
}

/// A rank's part of the whole grid.
#[derive(Default, Serialize, Deserialize)]
struct Part {
    /// Its first row and column.
    first: [usize; 2],
    columns: usize,
    fields: Vec<Vec<f64>>,
}

impl Whole {
    /// Depth and momenta.
    pub fn state(&self) -> State<'_> {
        State { h: &self.h, hu: &self.hu, hv: &self.hv }
    }

    /// The number of values that differ from those of `other` in any bit.
    pub fn differing(&self, other: &Whole) -> usize {
        self.pairs(other).into_iter().map(|(one, other)| differing(one, other)).sum()
    }

    /// The largest of the [`largest_difference`]s of the fields from those of `other`.
    pub fn largest_difference(&self, other: &Whole) -> f64 {
        self.pairs(other).map(|(one, other)| largest_difference(one, other)).into_iter().fold(0.0, larger)
    }

    fn pairs<'w>(&'w self, other: &'w Whole) -> [(&'w [f64], &'w [f64]); 4] {
        [(&self.h, &other.h), (&self.hu, &other.hu), (&self.hv, &other.hv), (&self.largest, &other.largest)]
    }
}

/// Runs an exchange and says how long it took.
fn timed<D: Device>(exchange: &mut Exchange<Flow<D>>) -> Result<Duration, ExchangeError> {
    let began = Instant::now();
    exchange.start(Schedule::DefaultStream)?.finish(Schedule::DefaultStream)?;
    Ok(began.elapsed())
}

fn pointers<D: Device>(flow: &Flow<D>) -> Result<[KernelArgument; 3], FieldError> {
    let [h, hu, hv] = flow;
    Ok([h.pointer(0)?, hu.pointer(0)?, hv.pointer(0)?].map(KernelArgument::Pointer))
}

/// A buffer of the device with `values` in it.
fn upload<D: Device>(device: &D, stream: &D::Stream, values: &[f64]) -> Result<D::Buffer, DeviceError> {
    let buffer = device.allocate(size_of_val(values), MemoryKind::Device)?;
    // SAFETY: the buffer is new and as long as the values; the kernels that read it follow in the same stream.
    unsafe { device.write(bytemuck::cast_slice(values), buffer.pointer(), stream)? };
    Ok(buffer)
}
