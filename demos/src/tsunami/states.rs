//! States of the model in files: saved by ranks in any number, and restored on any other.
//!
//! Redistribution takes the fields from the blocks of all ranks to slabs of rows on a few, which write them, and back.

use std::ops::Range;
use std::path::Path;

use haloport::device::Device;
use haloport::exchange::SourceTarget;
use haloport::field::{BlockLayout, FieldError};
use haloport::{Communicator, Error, Exchange, Field, Grid, Halo, IndexBox, Passed, Pattern};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::common::history::{Constant, History, HistoryError, Named, Saved, Shape};
use crate::common::numbers::differing;
use crate::tsunami::model::relief::Relief;
use crate::tsunami::model::solver::Solver;
use crate::tsunami::model::uplift::Uplift;

/// The fields of a state, in the order of [`Solver::fields_at_rest`].
const FIELDS: [Named<'_>; 4] = [
    Named { name: "h", long_name: "depth of the water", units: "m" },
    Named { name: "hu", long_name: "depth times eastward velocity", units: "m2 s-1" },
    Named { name: "hv", long_name: "depth times northward velocity", units: "m2 s-1" },
    Named { name: "largest", long_name: "largest wave height so far", units: "m" },
];

const LONGITUDE: Named<'_> = Named { name: "longitude", long_name: "longitude", units: "degrees_east" };
const LATITUDE: Named<'_> = Named { name: "latitude", long_name: "latitude", units: "degrees_north" };
const BED: Named<'_> = Named { name: "bed", long_name: "elevation of land and sea bed", units: "m" };

/// The attributes of a store.
#[derive(Debug, Serialize, Deserialize)]
struct About {
    title: String,
    uplift: Uplift,
}

/// Saves states in a store.
pub struct StateWriter<D: Device> {
    history: History,
    slabs: [Field<f64, D>; 4],
    to_slabs: Exchange<Passed>,
}

/// A saved state.
#[derive(Debug)]
pub struct SavedState {
    saved: Saved,
    /// Seconds since the uplift.
    pub time: f64,
    /// The uplift that started the wave.
    pub uplift: Uplift,
}

impl<D: Device> StateWriter<D> {
    /// Collective: creates a store in `folder`, which `writers` ranks write, or fewer.
    ///
    /// # Errors
    /// Any error of the library, and [`HistoryError`], also if there is a file or folder of that name.
    pub fn new(
        comm: &Communicator,
        solver: &mut Solver<D>,
        relief: &Relief,
        uplift: &Uplift,
        folder: &Path,
        writers: usize,
    ) -> Result<Self, Error> {
        let axes = [("latitude", relief.ny()), ("longitude", relief.nx())];
        let constants = [
            Constant { array: LATITUDE, axes: &axes[..1], values: &relief.latitude },
            Constant { array: LONGITUDE, axes: &axes[1..], values: &relief.longitude },
            Constant { array: BED, axes: &axes, values: &relief.elevation },
        ];
        let about = json!(About { title: "A tsunami, computed by Haloport".into(), uplift: *uplift });
        let history = History::create(comm, folder, &about, &constants, &shape(relief), writers)?;
        let (pattern, mut slabs) = slabs(comm, solver, relief, history.slab())?;
        let there = solver.pattern().redistribute(&pattern)?;
        let to_slabs = there.plan(pairs(solver.fields_at_rest()?, slabs.each_mut()))?;
        Ok(Self { history, slabs, to_slabs })
    }

    /// Collective: saves the state at `time`, seconds since the uplift. Blocks until the files are written.
    ///
    /// # Errors
    /// Any error of the library, and [`HistoryError`].
    pub fn save(&mut self, solver: &mut Solver<D>, time: f64) -> Result<(), Error> {
        self.to_slabs.run_blocking(pairs(solver.fields_at_rest()?, self.slabs.each_mut()))?;
        let rows = self.slabs.iter().map(rows_of).collect::<Result<Vec<_>, FieldError>>()?;
        self.history.add(time, &rows)
    }
}

impl SavedState {
    /// Opens the last state of a store. Not collective.
    ///
    /// # Errors
    /// [`HistoryError`], also for a run on other relief.
    pub fn open(folder: &Path, relief: &Relief) -> Result<SavedState, HistoryError> {
        let saved = Saved::open(folder, &shape(relief))?;
        for (array, expected) in
            [(LATITUDE, &relief.latitude), (LONGITUDE, &relief.longitude), (BED, &relief.elevation)]
        {
            if differing(&saved.constant(array.name)?, expected) > 0 {
                return Err(HistoryError::new(format!(
                    "{}: expected a run on the same relief, found another {}",
                    folder.display(),
                    array.long_name
                )));
            }
        }
        let About { uplift, .. } = saved.attributes()?;
        Ok(SavedState { time: saved.time, uplift, saved })
    }

    /// Collective: sets the state of `solver`, with the largest wave heights so far. `readers` ranks read the files, or fewer.
    ///
    /// # Errors
    /// Any error of the library, and [`HistoryError`].
    pub fn restore<D: Device>(
        &self,
        comm: &Communicator,
        solver: &mut Solver<D>,
        relief: &Relief,
        readers: usize,
    ) -> Result<(), Error> {
        let slab = self.saved.slab(comm, readers);
        let rows = self.saved.last(comm, &slab)?;
        let (pattern, mut slabs) = slabs(comm, solver, relief, slab)?;
        for (field, rows) in slabs.iter_mut().zip(&rows) {
            set_rows(field, rows)?;
        }
        let here = pattern.redistribute(solver.pattern())?;
        let mut to_blocks = here.plan(pairs(slabs.each_mut(), solver.fields_at_rest()?))?;
        Ok(to_blocks.run_blocking(pairs(slabs.each_mut(), solver.fields_at_rest()?))?)
    }
}

fn shape(relief: &Relief) -> Shape<'_> {
    Shape { fields: &FIELDS, axes: ["latitude", "longitude"], extents: [relief.ny(), relief.nx()] }
}

/// Collective: fields for the whole rows `slab` of the grid on this rank, which may be none.
fn slabs<D: Device>(
    comm: &Communicator,
    solver: &Solver<D>,
    relief: &Relief,
    slab: Range<usize>,
) -> Result<(Pattern, [Field<f64, D>; 4]), Error> {
    let grid = Grid::new([relief.ny(), relief.nx()])?;
    let rows = IndexBox::new([slab.start as i64, 0], [slab.end as i64, relief.nx() as i64]);
    let mine = if slab.is_empty() { &[][..] } else { &[rows] };
    let pattern = Pattern::structured(comm, &grid, mine, &Halo::uniform(0))?;
    let field = || Field::new(solver.device(), &pattern);
    let fields = [field()?, field()?, field()?, field()?];
    Ok((pattern, fields))
}

/// A field of one decomposition with that of another.
type Pair<'f, D> = SourceTarget<&'f mut Field<f64, D>, &'f mut Field<f64, D>>;

/// The fields of one decomposition with those of another.
fn pairs<'f, D: Device>(
    sources: [&'f mut Field<f64, D>; 4],
    targets: [&'f mut Field<f64, D>; 4],
) -> Vec<Pair<'f, D>> {
    sources.into_iter().zip(targets).map(|(source, target)| SourceTarget { source, target }).collect()
}

/// The cells of a slab, row by row.
fn rows_of<D: Device>(field: &Field<f64, D>) -> Result<Vec<f64>, FieldError> {
    if field.domain_count() == 0 {
        return Ok(Vec::new());
    }
    let values = field.to_vec(0)?;
    Ok(places(field.layout(0)?).flat_map(|row| &values[row]).copied().collect())
}

/// Sets the cells of a slab, row by row.
fn set_rows<D: Device>(field: &mut Field<f64, D>, rows: &[f64]) -> Result<(), FieldError> {
    if field.domain_count() == 0 {
        return Ok(());
    }
    let layout = field.layout(0)?;
    let (low, high) = layout.span();
    let mut values = vec![0.0; (high - low) as usize];
    for (place, row) in places(layout).zip(rows.chunks(layout.owned().extent(1))) {
        values[place].copy_from_slice(row);
    }
    field.copy_from(0, &values)
}

/// The elements of each owned row in a copy of the block.
fn places(layout: &BlockLayout) -> impl Iterator<Item = Range<usize>> {
    let (owned, (low, _)) = (layout.owned(), layout.span());
    let first = move |row: i64| layout.offset(&[row, owned.lower()[1]], 0).map(|at| (at - low) as usize);
    (owned.lower()[0]..owned.upper()[0]).filter_map(first).map(move |at| at..at + owned.extent(1))
}
