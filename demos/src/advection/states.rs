//! Tracer in files: saved by ranks in any number, whatever the partition of the mesh, and restored on any other.
//!
//! Redistribution takes the field from the parts of all ranks to slabs of cells in the order of their numbers on a few, which
//! write them, and back.

use std::ops::Range;
use std::path::Path;

use haloport::device::Device;
use haloport::exchange::SourceTarget;
use haloport::{Communicator, Error, Exchange, Field, HaloCells, IndexSet, Passed, Pattern};
use haloport_mesh::Mesh;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::advection::model::solver::Solver;
use crate::common::history::{Constant, History, HistoryError, Named, Saved, Shape};

const TRACER: [Named<'_>; 1] =
    [Named { name: "tracer", long_name: "mean of the tracer over a cell", units: "1" }];
const LONGITUDE: Named<'_> =
    Named { name: "longitude", long_name: "longitude of the cell", units: "degrees_east" };
const LATITUDE: Named<'_> =
    Named { name: "latitude", long_name: "latitude of the cell", units: "degrees_north" };

/// A run, as far as the tracer at a time depends on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The name of the mesh.
    pub mesh: String,
    /// The name of the hill.
    pub tracer: String,
    /// The tilt of the wind's axis, degrees.
    pub alpha: f64,
    /// The days of the whole run, of which the time step is a part.
    pub days: f64,
    /// Whether gradients are limited.
    pub limited: bool,
}

/// The attributes of a store.
#[derive(Serialize, Deserialize)]
struct About {
    title: String,
    run: Run,
}

/// Saves the tracer in a store.
pub struct TracerWriter<D: Device> {
    history: History,
    slab: Field<f64, D>,
    to_slab: Exchange<Passed>,
}

/// A saved tracer.
#[derive(Debug)]
pub struct SavedTracer {
    saved: Saved,
    /// Seconds since the start.
    pub time: f64,
}

impl<D: Device> TracerWriter<D> {
    /// Collective: creates a store in `folder`, which `writers` ranks write, or fewer.
    ///
    /// # Errors
    /// Any error of the library, and [`HistoryError`], also if there is a file or folder of that name.
    pub fn new(
        comm: &Communicator,
        solver: &mut Solver<D>,
        mesh: &Mesh,
        run: &Run,
        folder: &Path,
        writers: usize,
    ) -> Result<Self, Error> {
        let centres = (0..mesh.cells()).map(|cell| mesh.cell_centre(cell));
        let degrees = |[x, y, z]: [f64; 3]| (y.atan2(x).to_degrees(), z.asin().to_degrees());
        let (longitude, latitude): (Vec<_>, Vec<_>) = centres.map(degrees).unzip();
        let axes = [("cell", mesh.cells())];
        let constants = [
            Constant { array: LONGITUDE, axes: &axes, values: &longitude },
            Constant { array: LATITUDE, axes: &axes, values: &latitude },
        ];
        let about = json!(About { title: "A tracer, carried by Haloport".into(), run: run.clone() });
        let shape = shape(mesh.cells(), solver.levels());
        let history = History::create(comm, folder, &about, &constants, &shape, writers)?;
        let (pattern, mut slab) = slab(comm, solver, history.slab())?;
        let to_slab = solver.pattern().redistribute(&pattern)?;
        let to_slab = to_slab.plan(SourceTarget { source: solver.tracer_at_rest()?, target: &mut slab })?;
        Ok(Self { history, slab, to_slab })
    }

    /// Collective: saves the tracer at `time`, seconds since the start. Blocks until the files are written.
    ///
    /// # Errors
    /// Any error of the library, and [`HistoryError`].
    pub fn save(&mut self, solver: &mut Solver<D>, time: f64) -> Result<(), Error> {
        let pair = SourceTarget { source: solver.tracer_at_rest()?, target: &mut self.slab };
        self.to_slab.run_blocking(pair)?;
        // Cells follow each other in memory, each with its levels, and there are none but those of the slab.
        let cells = if self.slab.domain_count() == 0 { Vec::new() } else { self.slab.to_vec(0)? };
        self.history.add(time, &[cells])
    }
}

impl SavedTracer {
    /// Opens the last tracer of a store. Not collective.
    ///
    /// # Errors
    /// [`HistoryError`], also for another run.
    pub fn open(folder: &Path, cells: usize, levels: usize, run: &Run) -> Result<SavedTracer, HistoryError> {
        let saved = Saved::open(folder, &shape(cells, levels))?;
        let About { run: found, .. } = saved.attributes()?;
        if found != *run {
            let text = format!("{}: expected the same run, {run:?}; found {found:?}", folder.display());
            return Err(HistoryError::new(text));
        }
        Ok(SavedTracer { time: saved.time, saved })
    }

    /// Collective: sets the tracer of `solver`. `readers` ranks read the files, or fewer.
    ///
    /// # Errors
    /// Any error of the library, and [`HistoryError`].
    pub fn restore<D: Device>(
        &self,
        comm: &Communicator,
        solver: &mut Solver<D>,
        readers: usize,
    ) -> Result<(), Error> {
        let cells = self.saved.slab(comm, readers);
        let values = self.saved.last(comm, &cells)?;
        let (pattern, mut slab) = slab(comm, solver, cells)?;
        if let ([values], true) = (&values[..], slab.domain_count() > 0) {
            slab.copy_from(0, values)?;
        }
        let to_parts = pattern.redistribute(solver.pattern())?;
        let mut to_parts =
            to_parts.plan(SourceTarget { source: &mut slab, target: solver.tracer_at_rest()? })?;
        let pair = SourceTarget { source: &mut slab, target: solver.tracer_at_rest()? };
        Ok(to_parts.run_blocking(pair)?)
    }
}

fn shape(cells: usize, levels: usize) -> Shape<'static> {
    Shape { fields: &TRACER, axes: ["cell", "level"], extents: [cells, levels] }
}

/// Collective: a field for these cells of the mesh on this rank, which may be none.
fn slab<D: Device>(
    comm: &Communicator,
    solver: &Solver<D>,
    cells: Range<usize>,
) -> Result<(Pattern, Field<f64, D>), Error> {
    let ids: Vec<i64> = cells.map(|cell| cell as i64).collect();
    let mine = if ids.is_empty() { Vec::new() } else { vec![IndexSet::new(&ids, &[])] };
    let pattern = Pattern::unstructured(comm, &mine, &HaloCells::All)?;
    let field = Field::builder(&pattern).levels(solver.levels()).build(solver.device())?;
    Ok((pattern, field))
}
