//! The model on one rank: fields on a device, kernels, exchanges and time steps.

use std::time::Duration;

use bytemuck::NoUninit;
use haloport::device::{
    Buffer, Device, DeviceError, KernelArgument, KernelSource, LaunchConfig, MemoryKind, Priority,
};
use haloport::{Communicator, Error, Exchange, Field, HaloCells, IndexSet, Pattern};
use haloport_mesh::{LocalMesh, Mesh, Neighbourhood, Partition};

use super::kernels::{CORRECT, GRADIENT, PREDICT};
use super::scheme::{COURANT, LIMITED_COURANT};
use super::stencil::{check, largest_outflow};
use super::tables::{FlowTable, GradientTable, HALO_LEVELS, Tables};
use super::wind::Wind;
use crate::common::field_hash::FieldHash;
use crate::common::kernel_arguments::upload;
use crate::common::traffic::{Moved, timed_overlap};

/// The problem, the same on all ranks.
#[derive(Clone, Copy, Debug)]
pub struct Model<'m> {
    /// The mesh: a closed sphere of triangles.
    pub mesh: &'m Mesh,
    /// The wind.
    pub wind: Wind,
    /// Levels above each cell.
    pub levels: usize,
    /// Whether gradients are limited, so that no value becomes negative.
    pub limited: bool,
    /// Whether cells that need no halo are computed while halos travel. The results are the same.
    pub overlap: bool,
}

/// The model on one rank.
///
/// The tracer and the first half of each step are two fields, each with an exchange of its own. Each half of a step
/// computes cells that need no halo during an exchange, and the rest afterwards, all in one stream, this rank's own.
pub struct Solver<D: Device> {
    comm: Communicator,
    device: D,
    stream: D::Stream,
    levels: usize,
    halo_cells: usize,
    tracer: Exchange<Field<f64, D>>,
    predicted: Exchange<Field<f64, D>>,
    predict: Half<D>,
    correct: Half<D>,
    /// The gradient, and other arrays that kernels read.
    _buffers: Vec<D::Buffer>,
    spent: Duration,
}

/// The kernels of one half of a step: cells that need no halo, and the rest.
struct Half<D: Device> {
    /// While halos travel.
    inner: [D::Launch; 2],
    /// Afterwards.
    outer: [D::Launch; 2],
}

/// The partition does not have one part for each rank.
#[derive(Debug, thiserror::Error)]
#[error("the partition has {parts} parts; expected one for each of the {ranks} ranks")]
pub struct PartsError {
    /// The number of parts.
    pub parts: usize,
    /// The number of ranks.
    pub ranks: usize,
}

impl Model<'_> {
    /// The longest stable time step, days.
    pub fn longest_step(&self) -> f64 {
        let courant = if self.limited { LIMITED_COURANT } else { COURANT };
        courant / largest_outflow(self.mesh, &self.wind)
    }
}

impl<D: Device> Solver<D> {
    /// Collective: makes the model with one part of `partition` on each rank and steps of `time_step` days, without
    /// tracer.
    ///
    /// # Errors
    /// Any error of the library.
    pub fn new(
        comm: &Communicator,
        device: &D,
        model: &Model<'_>,
        partition: &Partition,
        time_step: f64,
    ) -> Result<Self, Error> {
        check(model.mesh)?;
        let (parts, ranks) = (partition.parts(), comm.size());
        if parts != ranks {
            return Err(PartsError { parts, ranks }.into());
        }
        let local = LocalMesh::new(model.mesh, partition, comm.rank(), HALO_LEVELS, Neighbourhood::Edges);
        let cells = local.cells();
        let (owned, halo) = cells.ids().split_at(cells.owned());
        let owners: Vec<usize> = cells.halo().map(|cell| cells.owner(cell)).collect();
        let set = IndexSet::new(owned, halo).with_owners(owners);
        let pattern = Pattern::unstructured(comm, &[set], &HaloCells::All)?;
        let field = || Field::<f64, D>::builder(&pattern).levels(model.levels).build(device);
        let (tracer, predicted) = (field()?, field()?);

        let interior_of = model.overlap.then_some(&pattern);
        let tables = Tables::new(model.mesh, &local, &model.wind, time_step, interior_of);
        let mut binder = KernelBinder {
            device,
            stream: device.create_stream(Priority::Normal)?,
            levels: model.levels,
            limited: model.limited,
            buffers: Vec::new(),
        };
        let places = [tracer.pointer(0)?, predicted.pointer(0)?].map(KernelArgument::Pointer);
        let gradient = [binder.zeros(cells.len())?, binder.zeros(cells.len())?];
        let inner = binder.upload(&tables.inner_gradients, &tables.inner_flows)?;
        let outer = binder.upload(&tables.outer_gradients, &tables.outer_flows)?;
        let half = |stage: &KernelSource, [input, output]: [KernelArgument; 2]| {
            let both = |table: &Uploaded| binder.bind(table, stage, input, gradient, output);
            Ok::<_, DeviceError>(Half { inner: both(&inner)?, outer: both(&outer)? })
        };
        let predict = half(&PREDICT, places)?;
        let correct = half(&CORRECT, [places[1], places[0]])?;
        let KernelBinder { stream, buffers, .. } = binder;
        Ok(Self {
            comm: comm.clone(),
            device: device.clone(),
            stream,
            levels: model.levels,
            halo_cells: halo.len(),
            tracer: pattern.bind(tracer)?,
            predicted: pattern.bind(predicted)?,
            predict,
            correct,
            _buffers: buffers,
            spent: Duration::ZERO,
        })
    }

    /// The pattern of the mesh's parts.
    pub fn pattern(&self) -> &Pattern {
        self.tracer.pattern()
    }

    /// The device of the fields.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Levels above each cell.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// The tracer, after all work on it has been waited for. It may be read, and set, until the next step, if the caller waits
    /// for that, too.
    ///
    /// # Errors
    /// Any error of the device.
    pub fn tracer_at_rest(&mut self) -> Result<&mut Field<f64, D>, DeviceError> {
        self.device.synchronize(&self.stream)?;
        Ok(self.tracer.fields_mut())
    }

    /// Sets the tracer: `value` is passed the number of each owned cell and a level.
    ///
    /// # Errors
    /// Any error of the library.
    pub fn set_tracer(&mut self, value: impl Fn(usize, usize) -> f64) -> Result<(), Error> {
        let set = &self.tracer.pattern().index_sets()[0];
        let of_cell = |(&id, &owned): (&i64, &bool)| {
            let value = &value;
            (0..self.levels).map(move |level| if owned { value(id as usize, level) } else { 0.0 })
        };
        let values: Vec<f64> = set.ids().iter().zip(set.owned()).flat_map(of_cell).collect();
        // The field is written in order with the default stream.
        self.device.synchronize(&self.stream)?;
        self.tracer.fields_mut().copy_from(0, &values)?;
        Ok(self.device.synchronize(&self.device.default_stream())?)
    }

    /// Collective: makes one time step.
    ///
    /// # Errors
    /// Any error of the library.
    pub fn step(&mut self) -> Result<(), Error> {
        for (exchange, half) in [(&mut self.tracer, &self.predict), (&mut self.predicted, &self.correct)] {
            // SAFETY: kernels are bound to fields and buffers of this solver, which live until `drop` has waited for
            // the stream. All work is in that one stream; accesses through the default stream are ordered with it by
            // waiting. The inner kernels read only owned cells of the field in flight.
            let run = |launch: &D::Launch| unsafe { self.device.launch(launch, &self.stream) };
            let kernels = |name: &'static str, launches: &[D::Launch]| {
                let all = || launches.iter().try_for_each(run);
                self.comm.trace().kernel(name, &self.device, &self.stream, all)
            };
            self.spent += timed_overlap(
                exchange,
                &self.stream,
                || Ok(kernels("interior", &half.inner)?),
                || Ok(kernels("boundary", &half.outer)?),
            )?;
        }
        Ok(())
    }

    /// The time that this rank spent in exchanges, without computations between start and finish.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// The number of halo cells of this rank.
    pub fn halo_cells(&self) -> usize {
        self.halo_cells
    }

    /// Collective: the bytes that one exchange moves, on every rank.
    ///
    /// # Errors
    /// Any error of the library.
    pub fn moved(&self) -> Result<Moved, Error> {
        Ok(Moved::of(&self.comm, &self.tracer)?)
    }

    /// Collective: the tracer of all cells by their numbers, levels fastest, on rank 0.
    ///
    /// # Errors
    /// Any error of the library.
    pub fn gather(&self) -> Result<Option<Vec<f64>>, Error> {
        // The field is read in order with the default stream.
        self.device.synchronize(&self.stream)?;
        Ok(self.tracer.pattern().gather(self.tracer.fields(), 0)?.map(|whole| whole.values))
    }

    /// Collective: the [hash](FieldHash) of the tracer of the whole mesh, the same on every rank. Elements are numbered cell by
    /// cell, levels fastest.
    ///
    /// # Errors
    /// Any error of the library.
    pub fn hash(&self) -> Result<u64, Error> {
        let mut hash = FieldHash::default();
        let cells = self.tracer.pattern().index_sets()[0].ids();
        for (&cell, values) in cells.iter().zip(self.owned_cells()?.chunks(self.levels)) {
            hash.add(0, cell as usize * self.levels, values);
        }
        Ok(hash.of_all_ranks(&self.comm)?)
    }

    /// The tracer of this rank's cells, which come before its halo, levels fastest.
    fn owned_cells(&self) -> Result<Vec<f64>, Error> {
        // The field is read in order with the default stream.
        self.device.synchronize(&self.stream)?;
        let mut values = self.tracer.fields().to_vec(0)?;
        values.truncate(values.len() - self.halo_cells * self.levels);
        Ok(values)
    }
}

impl<D: Device> Drop for Solver<D> {
    fn drop(&mut self) {
        // Kernels may still use the buffers. Any other use of the device reports the error.
        let _ = self.device.synchronize(&self.stream);
    }
}

/// Binds kernels, and keeps their buffers alive.
struct KernelBinder<'d, D: Device> {
    device: &'d D,
    stream: D::Stream,
    levels: usize,
    limited: bool,
    buffers: Vec<D::Buffer>,
}

/// A table of gradients and one of flows in the device's memory, and the number of cells of each.
struct Uploaded {
    gradients: (usize, [KernelArgument; 3]),
    flows: (usize, [KernelArgument; 4]),
}

impl<D: Device> KernelBinder<'_, D> {
    fn upload(&mut self, gradients: &GradientTable, flows: &FlowTable) -> Result<Uploaded, DeviceError> {
        Ok(Uploaded {
            gradients: (
                gradients.cells.len(),
                [
                    self.list(&gradients.cells)?,
                    self.list(&gradients.neighbours)?,
                    self.list(&gradients.terms)?,
                ],
            ),
            flows: (
                flows.cells.len(),
                [
                    self.list(&flows.cells)?,
                    self.list(&flows.upwind)?,
                    self.list(&flows.terms)?,
                    self.list(&flows.scale)?,
                ],
            ),
        })
    }

    /// The kernels of a table: the gradients and then the stage.
    fn bind(
        &self,
        table: &Uploaded,
        stage: &KernelSource,
        input: KernelArgument,
        gradient: [KernelArgument; 2],
        output: KernelArgument,
    ) -> Result<[D::Launch; 2], DeviceError> {
        let count = |cells: &usize| KernelArgument::I64(*cells as i64);
        let levels = KernelArgument::I64(self.levels as i64);
        let limited = KernelArgument::I64(i64::from(self.limited));
        let bind = |source: &KernelSource, cells: usize, arguments: &[&[KernelArgument]]| {
            let config = LaunchConfig::plane(self.levels, cells);
            self.device.bind(&self.device.compile(source)?, config, &arguments.concat())
        };
        let (cells, lists) = &table.gradients;
        let gradients =
            bind(&GRADIENT, *cells, &[&[input], &gradient, lists, &[count(cells), levels, limited]])?;
        let (cells, lists) = &table.flows;
        let stage = bind(stage, *cells, &[&[input], &gradient, &[output], lists, &[count(cells), levels]])?;
        Ok([gradients, stage])
    }

    /// A buffer for a value on each level of `cells` cells.
    fn zeros(&mut self, cells: usize) -> Result<KernelArgument, DeviceError> {
        let bytes = cells * self.levels * size_of::<f64>();
        Ok(self.keep(self.device.allocate(bytes, MemoryKind::Device)?))
    }

    /// A buffer with `values`.
    fn list<T: NoUninit>(&mut self, values: &[T]) -> Result<KernelArgument, DeviceError> {
        Ok(self.keep(upload(self.device, &self.stream, values)?))
    }

    fn keep(&mut self, buffer: D::Buffer) -> KernelArgument {
        let pointer = buffer.pointer();
        self.buffers.push(buffer);
        KernelArgument::Pointer(pointer)
    }
}
