//! The model on one rank: fields on a device, kernels, exchanges and time steps.

use std::time::{Duration, Instant};

use haloport::device::{Buffer, Device, DeviceError, MemoryKind, Pointer, Priority};
use haloport::domain::Connectivity;
use haloport::field::FieldError;
use haloport::pattern::Regions;
use haloport::{Communicator, Error, Exchange, Field, Halo, Pattern, Reduction};

use crate::common::field_hash::FieldHash;
use crate::common::kernel_arguments::upload;
use crate::common::traffic::{Moved, timed_overlap};
use crate::tsunami::model::block::{Block, Fields, MARGIN, State};
use crate::tsunami::model::decomposition::decompose;
use crate::tsunami::model::launches::{Arrays, Launches};
use crate::tsunami::model::regions::in_chunks;
use crate::tsunami::model::relief::Relief;
use crate::tsunami::model::scheme::{Physics, max_rate};
pub use crate::tsunami::model::whole::Whole;

/// The shortest time step, seconds: a wave over the deepest sea travels less than a millimetre in it.
pub const SHORTEST_STEP: f64 = 1e-6;

/// Depth and momenta, as they travel.
type Flow<D> = [Field<f64, D>; 3];

/// The model on one rank.
///
/// The state and the first half of each step are two sets of fields, each with an exchange of its own. The bed and the
/// metric lie beside them on the device, and every kernel is bound to its arrays once. A step launches kernels,
/// exchanges halos meanwhile, and reads back two values for each row of the block. All work is in one stream, this
/// rank's own.
pub struct Solver<D: Device> {
    comm: Communicator,
    device: D,
    stream: D::Stream,
    physics: Physics,
    /// Centres of the columns and of the rows of the whole grid, degrees.
    longitude: Vec<f64>,
    latitude: Vec<f64>,
    parts: [usize; 2],
    block: Block,
    state: Exchange<Flow<D>>,
    predicted: Exchange<Flow<D>>,
    largest: Field<f64, D>,
    /// The largest rate of each row, then the smallest depth of each.
    extremes: D::Buffer,
    extremes_on_host: Vec<f64>,
    /// Other arrays that kernels read.
    _constant: [D::Buffer; 2],
    launches: Launches<D>,
    min_depth: f64,
    spent: Spent,
}

/// The time of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// In exchanges of halos, without computations between start and finish.
    pub exchange: Duration,
    /// In the reduction that finds the time step, including waiting for slower ranks.
    pub reduction: Duration,
}

/// A time step with which the model cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TimeStepError {
    /// A cell needs a time step with which a run would take too long.
    #[error(
        "the time step must be at least {SHORTEST_STEP:e} s, found {found:.1e} s: waves cross the cell at \
         {longitude:.4} degrees east, {latitude:.4} degrees north too quickly (row {row}, column {column} of the grid)"
    )]
    TooShort {
        /// The time step, seconds.
        found: f64,
        /// Of the grid, from the south, counted from 0.
        row: usize,
        /// Of the grid, from the west, counted from 0.
        column: usize,
        /// Centre of the cell, degrees east.
        longitude: f64,
        /// Centre of the cell, degrees north.
        latitude: f64,
    },
    /// Nothing limits the time step.
    #[error("the time step must be above 0 s and finite, found {found}: is there any water?")]
    Unlimited {
        /// The time step, seconds.
        found: f64,
    },
}

impl<D: Device> Solver<D> {
    /// Collective: makes the model on the grid of `relief`, one block for each rank, without water. With `overlap`,
    /// cells that need no halo are computed while halos travel; the results are the same.
    ///
    /// # Errors
    /// Any error of the library, and [`TimeStepError`].
    pub fn new(
        comm: &Communicator,
        device: &D,
        relief: &Relief,
        physics: &Physics,
        overlap: bool,
    ) -> Result<Self, Error> {
        let (grid, split) = decompose(relief.nx(), relief.ny(), comm.size())?;
        let parts = split.parts_per_axis();
        let mine = split.part(comm.rank());
        let halo = Halo::uniform(MARGIN).with_connectivity(Connectivity::Faces);
        let pattern = Pattern::structured(comm, &grid, mine.as_slice(), &halo)?;

        let flow = || -> Result<Flow<D>, FieldError> {
            Ok([Field::new(device, &pattern)?, Field::new(device, &pattern)?, Field::new(device, &pattern)?])
        };
        let (state, predicted, largest) = (flow()?, flow()?, Field::<f64, D>::new(device, &pattern)?);
        let layout = state[0].layout(0)?;
        let owned = layout.owned();
        let range = |axis: usize| owned.lower()[axis] as usize..owned.upper()[axis] as usize;
        let regions = match pattern.regions(0).filter(|_| overlap) {
            Some(regions) => in_chunks(&owned, regions),
            None => Regions { interior: None, boundary: vec![owned] },
        };
        let block = Block::new(relief, range(1), range(0), layout.strides()[0] as usize)?;

        let stream = device.create_stream(Priority::Normal)?;
        let constant =
            [upload(device, &stream, &block.bed)?, upload(device, &stream, &block.metric.view().to_vec())?];
        let extremes = device.allocate(2 * block.ny() * size_of::<f64>(), MemoryKind::Device)?;
        let arrays = Arrays {
            state: pointers(&state)?,
            predicted: pointers(&predicted)?,
            bed: constant[0].pointer(),
            metric: constant[1].pointer(),
            largest: largest.pointer(0)?,
            extremes: extremes.pointer(),
        };
        let launches = Launches::new(device, &block, physics, &regions, &arrays)?;
        Ok(Self {
            comm: comm.clone(),
            device: device.clone(),
            stream,
            physics: *physics,
            longitude: relief.longitude.clone(),
            latitude: relief.latitude.clone(),
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

    /// The numbers of blocks from south to north and from west to east.
    pub fn parts(&self) -> [usize; 2] {
        self.parts
    }

    /// The time of this rank so far.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// The pattern of the blocks.
    pub fn pattern(&self) -> &Pattern {
        self.state.pattern()
    }

    /// The device of the fields.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Depth, momenta and largest wave height, after all work on them has been waited for. They may be read, and set, until
    /// the next step, if the caller waits for that, too.
    ///
    /// # Errors
    /// Any error of the device.
    pub fn fields_at_rest(&mut self) -> Result<[&mut Field<f64, D>; 4], DeviceError> {
        self.device.synchronize(&self.stream)?;
        let [h, hu, hv] = self.state.fields_mut();
        Ok([h, hu, hv, &mut self.largest])
    }

    /// Sets the state from arrays of the layout of [`block`](Solver::block), and raises the largest wave height to it.
    ///
    /// # Errors
    /// Any error of the library, and [`TimeStepError`].
    pub fn set_state(&mut self, fields: &Fields) -> Result<(), Error> {
        let values = [&fields.h, &fields.hu, &fields.hv];
        // Fields are written in order with the default stream.
        self.device.synchronize(&self.stream)?;
        for (field, values) in self.state.fields_mut().iter_mut().zip(values) {
            field.copy_from(0, values)?;
        }
        self.device.synchronize(&self.device.default_stream())?;
        Ok(self.launch("largest wave", &self.launches.raise_largest)?)
    }

    /// Collective: makes one time step of the longest stable length, at most `longest` seconds. Returns its length,
    /// the same on every rank.
    ///
    /// # Errors
    /// Any error of the library, and [`TimeStepError`].
    pub fn step(&mut self, longest: f64) -> Result<f64, Error> {
        let mine = self.survey_rows()?;
        let began = Instant::now();
        let rate = self.comm.all_reduce(mine, Reduction::Max)?;
        self.spent.reduction += began.elapsed();
        let stable = self.physics.time_step(rate);
        if stable < SHORTEST_STEP {
            return Err(self.short_step(stable, mine == rate)?.into());
        }
        let dt = stable.min(longest);
        if !(dt > 0.0 && dt.is_finite()) {
            return Err(TimeStepError::Unlimited { found: dt }.into());
        }
        let Self { comm, device, stream, launches, state, predicted, spent, .. } = self;
        let kernels = |name: &'static str, launches: &[D::Launch]| {
            // SAFETY: as in `launch`; the interior reads only owned cells and those behind walls of the fields in
            // flight, and writes other fields.
            let run = |launch: &D::Launch| unsafe { device.launch(launch, stream) };
            let all = || launches.iter().try_for_each(run);
            comm.trace().kernel(name, device, stream, all)
        };
        for (exchange, half) in [(state, &mut launches.predict), (predicted, &mut launches.correct)] {
            half.set_time_step(device, dt)?;
            kernels("walls", std::slice::from_ref(&half.walls))?;
            spent.exchange += timed_overlap(
                exchange,
                &*stream,
                || Ok(kernels("interior", half.interior.as_slice())?),
                || Ok(kernels("boundary", &half.boundary)?),
            )?;
        }
        self.launch("largest wave", &self.launches.raise_largest)?;
        Ok(dt)
    }

    /// Collective: the smallest depth of any cell at the beginning of all steps so far and now, metres.
    ///
    /// # Errors
    /// Any error of the library, and [`TimeStepError`].
    pub fn min_depth(&mut self) -> Result<f64, Error> {
        self.survey_rows()?;
        Ok(self.comm.all_reduce(self.min_depth, Reduction::Min)?)
    }

    /// The depth of an owned cell, counted from the block's first row and column, metres.
    ///
    /// # Errors
    /// Any error of the library, and [`TimeStepError`].
    pub fn depth(&self, row: usize, column: usize) -> Result<f64, Error> {
        let cell = self.block.index(row, column) * size_of::<f64>();
        let from = self.state.fields()[0].pointer(0)?.offset(cell as isize);
        let mut depth = [0.0];
        // SAFETY: the cell lies in the field, which no exchange uses; the kernels that write it are in the same stream.
        unsafe { self.device.read(from, bytemuck::cast_slice_mut(&mut depth), &self.stream)? };
        Ok(depth[0])
    }

    /// Collective: the fields of the whole grid, on rank 0.
    ///
    /// # Errors
    /// Any error of the library, and [`TimeStepError`].
    pub fn gather(&self) -> Result<Option<Whole>, Error> {
        let [h, hu, hv] = self.state.fields();
        // Fields are read in order with the default stream.
        self.device.synchronize(&self.stream)?;
        let gather = |field| Ok::<_, Error>(self.state.pattern().gather(field, 0)?.map(|whole| whole.values));
        let (h, hu, hv, largest) = (gather(h)?, gather(hu)?, gather(hv)?, gather(&self.largest)?);
        Ok(h.zip(hu).zip(hv.zip(largest)).map(|((h, hu), (hv, largest))| Whole { h, hu, hv, largest }))
    }

    /// Collective: the [hash](FieldHash) of depth, momenta and largest wave height of the whole grid, the same on every rank.
    /// Cells are numbered row by row from the south.
    ///
    /// # Errors
    /// Any error of the library.
    pub fn hash(&self) -> Result<u64, Error> {
        let mut hash = FieldHash::default();
        for (field, values) in self.owned_cells()?.iter().enumerate() {
            for (row, values) in self.block.rows.clone().zip(values.chunks(self.block.nx())) {
                hash.add(field, row * self.longitude.len() + self.block.columns.start, values);
            }
        }
        Ok(hash.of_all_ranks(&self.comm)?)
    }

    /// Collective: the bytes that one exchange moves, on every rank.
    ///
    /// # Errors
    /// Any error of the library, and [`TimeStepError`].
    pub fn moved(&self) -> Result<Moved, Error> {
        Ok(Moved::of(&self.comm, &self.state)?)
    }

    /// Depth, momenta and largest wave height of this rank's cells, row by row.
    fn owned_cells(&self) -> Result<Vec<Vec<f64>>, Error> {
        let [h, hu, hv] = self.state.fields();
        // Fields are read in order with the default stream.
        self.device.synchronize(&self.stream)?;
        let owned = |field: &Field<f64, D>| Ok(self.block.owned(&field.to_vec(0)?));
        [h, hu, hv, &self.largest].into_iter().map(owned).collect()
    }

    /// The largest rate of this rank's cells. Updates the smallest depth.
    fn survey_rows(&mut self) -> Result<f64, Error> {
        self.launch("extremes", &self.launches.extremes)?;
        let on_host = bytemuck::cast_slice_mut(&mut self.extremes_on_host);
        // SAFETY: the buffer has this length, and the kernels that write it are in the same stream.
        let read = || unsafe { self.device.read(self.extremes.pointer(), on_host, &self.stream) };
        self.comm.trace().waiting("read extremes", read)?;
        let (rates, depths) = self.extremes_on_host.split_at(self.block.ny());
        self.min_depth = depths.iter().copied().fold(self.min_depth, f64::min);
        Ok(rates.iter().copied().fold(0.0, f64::max))
    }

    /// Collective: the error that names the cell with the largest rate; the ranks that are `fastest` look for it.
    fn short_step(&self, found: f64, fastest: bool) -> Result<TimeStepError, Error> {
        // The number of the cell plus one; 0 from the other ranks.
        let number = if fastest { self.fastest_cell()? as u64 + 1 } else { 0 };
        let number = self.comm.all_reduce(number, Reduction::Max)?;
        let (cell, columns) = ((number as usize).saturating_sub(1), self.longitude.len());
        let (row, column) = (cell / columns, cell % columns);
        let (longitude, latitude) = (self.longitude[column], self.latitude[row]);
        Ok(TimeStepError::TooShort { found, row, column, longitude, latitude })
    }

    /// The number, in the whole grid, of this rank's cell with the largest rate.
    fn fastest_cell(&self) -> Result<usize, Error> {
        self.device.synchronize(&self.stream)?;
        let [h, hu, hv] = self.state.fields();
        let (h, hu, hv) = (h.to_vec(0)?, hu.to_vec(0)?, hv.to_vec(0)?);
        let state = State { h: &h, hu: &hu, hv: &hv };
        let Block { rows, columns, .. } = &self.block;
        let rate = |row, column| max_rate(self.block.view(), &self.physics, row, column..column + 1, state);
        let cells = (0..rows.len()).flat_map(|row| (0..columns.len()).map(move |column| (row, column)));
        let rates = cells.map(|(row, column)| (rate(row, column), row, column));
        let (_, row, column) = rates.max_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or_default();
        Ok((rows.start + row) * self.longitude.len() + columns.start + column)
    }

    /// Launches a kernel under this name in the time line.
    fn launch(&self, name: &'static str, launch: &D::Launch) -> Result<(), DeviceError> {
        // SAFETY: kernels are bound to fields and buffers of this solver, with the shapes in their arguments; these
        // live until `drop` has waited for the stream. Kernels, copies, and starts and ends of exchanges follow each
        // other in that one stream; accesses through the default stream are ordered with it by waiting. No exchange is
        // pending.
        let run = || unsafe { self.device.launch(launch, &self.stream) };
        self.comm.trace().kernel(name, &self.device, &self.stream, run)
    }
}

impl<D: Device> Drop for Solver<D> {
    fn drop(&mut self) {
        // Kernels may still use the buffers. Any other use of the device reports the error.
        let _ = self.device.synchronize(&self.stream);
    }
}

fn pointers<D: Device>(flow: &Flow<D>) -> Result<[Pointer; 3], FieldError> {
    let [h, hu, hv] = flow;
    Ok([h.pointer(0)?, hu.pointer(0)?, hv.pointer(0)?])
}
