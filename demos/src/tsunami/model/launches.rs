//! The kernels of one rank, bound to its arrays.

use haloport::IndexBox;
use haloport::device::{Device, DeviceError, KernelArgument, KernelSource, LaunchConfig, Pointer};
use haloport::pattern::Regions;

use crate::tsunami::model::block::Block;
use crate::tsunami::model::kernels::{
    CORRECT, EXTREMES, PREDICT, RAISE_LARGEST, STAGE_TIME_STEP, WALLS, wall_bits,
};
use crate::tsunami::model::scheme::Physics;

/// The addresses of a block's arrays in the device's memory.
pub(super) struct Arrays {
    /// Depth and momenta at the beginning of a step.
    pub(super) state: [Pointer; 3],
    /// Depth and momenta after the first half of it.
    pub(super) predicted: [Pointer; 3],
    pub(super) bed: Pointer,
    pub(super) metric: Pointer,
    /// The largest wave height.
    pub(super) largest: Pointer,
    /// Two values for each row; see [`EXTREMES`].
    pub(super) extremes: Pointer,
}

/// The kernels of a step.
pub(super) struct Launches<D: Device> {
    pub(super) extremes: D::Launch,
    pub(super) predict: Half<D>,
    pub(super) correct: Half<D>,
    pub(super) raise_largest: D::Launch,
}

/// The kernels of one half of a step.
pub(super) struct Half<D: Device> {
    /// Before the exchange.
    pub(super) walls: D::Launch,
    /// While halos travel; `None` if all cells have to wait for them.
    pub(super) interior: Option<D::Launch>,
    /// Afterwards.
    pub(super) boundary: Vec<D::Launch>,
}

impl<D: Device> Launches<D> {
    /// Compiles the kernels and binds them to `block`, once for each of `regions`. May block.
    pub(super) fn new(
        device: &D,
        block: &Block,
        physics: &Physics,
        regions: &Regions,
        arrays: &Arrays,
    ) -> Result<Self, DeviceError> {
        let [nx, ny, pitch] = [block.nx(), block.ny(), block.pitch].map(|n| KernelArgument::I64(n as i64));
        let shape = [nx, ny, pitch];
        let [drag, dry, no_time] = [physics.drag, physics.dry, 0.0].map(KernelArgument::F64);
        let closed = KernelArgument::I64(wall_bits(block.walls));
        let [q, q1] = [arrays.state, arrays.predicted].map(|flow| flow.map(KernelArgument::Pointer));
        let [bed, metric, largest, extremes] =
            [arrays.bed, arrays.metric, arrays.largest, arrays.extremes].map(KernelArgument::Pointer);
        let bind = |kernel: &D::Kernel, config: LaunchConfig, arguments: &[&[KernelArgument]]| {
            device.bind(kernel, config, &arguments.concat())
        };
        let walls = device.compile(&WALLS)?;
        let half = |source: &KernelSource, from: [KernelArgument; 3], to: [KernelArgument; 3]| {
            let kernel = device.compile(source)?;
            let stage = |cells: &IndexBox| {
                let plane = LaunchConfig::plane(cells.extent(1), cells.extent(0));
                let region = region(block, cells).map(KernelArgument::I64);
                bind(&kernel, plane, &[&from, &to, &[bed, metric], &shape, &region, &[drag, dry, no_time]])
            };
            let lines = LaunchConfig::linear(block.nx() + block.ny());
            Ok::<_, DeviceError>(Half {
                walls: bind(&walls, lines, &[&from, &shape, &[closed]])?,
                interior: regions.interior.as_ref().map(stage).transpose()?,
                boundary: regions.boundary.iter().map(stage).collect::<Result<_, _>>()?,
            })
        };
        let (rows, plane) = (LaunchConfig::linear(block.ny()), LaunchConfig::plane(block.nx(), block.ny()));
        let survey = device.compile(&EXTREMES)?;
        Ok(Launches {
            extremes: bind(&survey, rows, &[&q, &[bed, metric, extremes], &shape, &[dry]])?,
            predict: half(&PREDICT, q, q1)?,
            correct: half(&CORRECT, q1, q)?,
            raise_largest: bind(&device.compile(&RAISE_LARGEST)?, plane, &[&[q[0], bed, largest], &shape])?,
        })
    }
}

impl<D: Device> Half<D> {
    /// Sets the time step of later launches, seconds.
    pub(super) fn set_time_step(&mut self, device: &D, dt: f64) -> Result<(), DeviceError> {
        let mut stages = self.interior.iter_mut().chain(&mut self.boundary);
        stages.try_for_each(|launch| device.rebind(launch, STAGE_TIME_STEP, KernelArgument::F64(dt)))
    }
}

/// The first column and row of `cells` of the grid, and one past the last, counted from the block's first.
fn region(block: &Block, cells: &IndexBox) -> [i64; 4] {
    let (column, row) = (block.columns.start as i64, block.rows.start as i64);
    let (lower, upper) = (cells.lower(), cells.upper());
    [lower[1] - column, lower[0] - row, upper[1] - column, upper[0] - row]
}
