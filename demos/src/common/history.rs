//! Fields over time in a [store](crate::zarr), written and read by a few ranks, each with whole chunks of rows.
//!
//! Each field has the axes time, rows, and what a row has: the cells of a row of a grid, the levels of a cell of a mesh.
//! The files do not depend on the number of ranks, so a run on any number of ranks can go on where one on another left off.

use std::ops::Range;
use std::path::Path;

use haloport::{Communicator, Error};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::zarr::{Array, Store, ZarrError};

/// About the bytes of a chunk.
const CHUNK: usize = 1 << 20;

/// The times of the fields.
const TIME: &str = "time";

/// The fields of a history: their names, and what all of them share.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// The names of the fields.
    pub fields: &'a [Named<'a>],
    /// The names of the axes: of the rows, and of the elements of a row.
    pub axes: [&'a str; 2],
    /// Rows, and elements of a row.
    pub extents: [usize; 2],
}

/// An array of a store.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is: `long_name` of the CF conventions.
    pub long_name: &'a str,
    /// Its unit: `units` of the CF conventions.
    pub units: &'a str,
}

/// An array that does not change.
#[derive(Clone, Copy, Debug)]
pub struct Constant<'a> {
    /// Its name.
    pub array: Named<'a>,
    /// The names of its axes, and their extents.
    pub axes: &'a [(&'a str, usize)],
    /// Its values, the last axis fastest.
    pub values: &'a [f64],
}

/// A store to which fields are added.
#[derive(Debug)]
pub struct History {
    comm: Communicator,
    store: Store,
    fields: Vec<(String, Array)>,
    times: Array,
    slab: Range<usize>,
}

/// A store whose last fields are read.
#[derive(Debug)]
pub struct Saved {
    store: Store,
    fields: Vec<(String, Array)>,
    /// The number of times before the last one.
    step: usize,
    /// The last time.
    pub time: f64,
}

/// A history cannot be written or read; the same on all ranks if the call is collective.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HistoryError(String);

impl History {
    /// Collective: creates the store, without fields. `writers` ranks write it, or fewer if there are not as many ranks or
    /// chunks. `attributes` is a JSON object.
    ///
    /// # Errors
    /// [`HistoryError`], also if there is a file or folder of that name; errors of the transport.
    pub fn create(
        comm: &Communicator,
        folder: &Path,
        attributes: &Value,
        constants: &[Constant<'_>],
        shape: &Shape<'_>,
        writers: usize,
    ) -> Result<History, Error> {
        let [rows, elements] = shape.extents;
        let chunk = (CHUNK / size_of::<f64>() / elements.max(1)).clamp(1, rows.max(1));
        let store = Store::new(folder);
        let time = Named { name: TIME, long_name: "time since the start", units: "s" };
        let times = array(&time, &[TIME], &[0], &[1]);
        let field = |field: &Named<'_>| {
            let axes = [TIME, shape.axes[0], shape.axes[1]];
            (field.name.to_owned(), array(field, &axes, &[0, rows, elements], &[1, chunk, elements.max(1)]))
        };
        let fields: Vec<_> = shape.fields.iter().map(field).collect();
        let create = || {
            store.create(attributes)?;
            for Constant { array: named, axes, values } in constants {
                let (names, extents): (Vec<&str>, Vec<usize>) = axes.iter().copied().unzip();
                let array = array(named, &names, &extents, &extents);
                store.write(named.name, &array, &vec![0; axes.len()], values)?;
                store.set_array(named.name, &array)?;
            }
            fields.iter().try_for_each(|(name, array)| store.set_array(name, array))?;
            store.set_array(TIME, &times)
        };
        agreed(comm, if comm.rank() == 0 { create() } else { Ok(()) })?;
        Ok(History { comm: comm.clone(), store, fields, times, slab: slab(comm, rows, chunk, writers) })
    }

    /// The rows that this rank writes; none on most ranks.
    pub fn slab(&self) -> Range<usize> {
        self.slab.clone()
    }

    /// Collective: adds the fields at `time`, of each this rank's rows. Those who read the store see them afterwards.
    ///
    /// # Errors
    /// [`HistoryError`], errors of the transport.
    pub fn add(&mut self, time: f64, fields: &[Vec<f64>]) -> Result<(), Error> {
        let is_first = self.comm.rank() == 0;
        let step = self.times.shape[0];
        let write = || {
            for ((name, array), values) in self.fields.iter().zip(fields) {
                let first = self.slab.start / array.chunk[1];
                for (chunk, values) in values.chunks(array.chunk_elements()).enumerate() {
                    self.store.write(name, array, &[step, first + chunk, 0], values)?;
                }
            }
            if is_first { self.store.write(TIME, &self.times, &[step], &[time]) } else { Ok(()) }
        };
        agreed(&self.comm, write())?;
        self.fields.iter_mut().for_each(|(_, array)| array.shape[0] = step + 1);
        self.times.shape[0] = step + 1;
        let show = || {
            self.fields.iter().try_for_each(|(name, array)| self.store.set_array(name, array))?;
            self.store.set_array(TIME, &self.times)
        };
        agreed(&self.comm, if is_first { show() } else { Ok(()) })
    }
}

impl Saved {
    /// Opens the store of a [`History`] with such fields. Not collective.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn open(folder: &Path, shape: &Shape<'_>) -> Result<Saved, HistoryError> {
        let store = Store::new(folder);
        let times = store.array(TIME)?;
        let place = folder.display();
        let Some(step) = times.shape.first().and_then(|times| times.checked_sub(1)) else {
            return Err(HistoryError(format!("{place}: expected fields, found none yet")));
        };
        if times.chunk != [1] {
            let found = times.chunk;
            return Err(HistoryError(format!("{place}: expected times in chunks of [1], found {found:?}")));
        }
        let [rows, elements] = shape.extents;
        let field = |field: &Named<'_>| {
            let array = store.array(field.name)?;
            let (found, chunk) = (&array.shape, &array.chunk);
            let fits = found.get(1..) == Some(&[rows, elements]) && found[0] > step;
            if !fits || chunk[0] != 1 || chunk[2] != elements.max(1) {
                return Err(HistoryError(format!(
                    "{place}: expected {rows} by {elements} elements of `{}` at {} times, in chunks of whole rows; found the \
                     shape {found:?} in chunks of {chunk:?}",
                    field.name,
                    step + 1
                )));
            }
            Ok((field.name.to_owned(), array))
        };
        let fields = shape.fields.iter().map(field).collect::<Result<_, _>>()?;
        let time = store.read(TIME, &times, &[step])?[0];
        if !(time >= 0.0 && time.is_finite()) {
            return Err(HistoryError(format!("{place}: expected a last time of 0 s or later, found {time}")));
        }
        Ok(Saved { store, fields, step, time })
    }

    /// The attributes of the store.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn attributes<A: DeserializeOwned>(&self) -> Result<A, HistoryError> {
        Ok(self.store.attributes()?)
    }

    /// The values of a [`Constant`].
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn constant(&self, name: &str) -> Result<Vec<f64>, HistoryError> {
        let array = self.store.array(name)?;
        Ok(self.store.read(name, &array, &vec![0; array.axes.len()])?)
    }

    /// The rows that this rank reads, if `readers` ranks do so, or fewer if there are not as many ranks or chunks.
    pub fn slab(&self, comm: &Communicator, readers: usize) -> Range<usize> {
        self.fields.first().map_or(0..0, |(_, array)| slab(comm, array.shape[1], array.chunk[1], readers))
    }

    /// Collective: the last fields, of each the rows of [`slab`](Saved::slab).
    ///
    /// # Errors
    /// [`HistoryError`], errors of the transport.
    pub fn last(&self, comm: &Communicator, slab: &Range<usize>) -> Result<Vec<Vec<f64>>, Error> {
        let read = |(name, array): &(String, Array)| {
            let [_, chunk, elements] = [0, 1, 2].map(|axis| array.chunk[axis]);
            let mut values = Vec::with_capacity(slab.len() * elements);
            for first in slab.clone().step_by(chunk) {
                values.extend(self.store.read(name, array, &[self.step, first / chunk, 0])?);
            }
            values.truncate(slab.len() * elements);
            Ok(values)
        };
        let fields: Result<Vec<_>, ZarrError> = self.fields.iter().map(read).collect();
        let (fields, result) = match fields {
            Ok(fields) => (fields, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        agreed(comm, result)?;
        Ok(fields)
    }
}

impl HistoryError {
    pub(crate) fn new(text: String) -> HistoryError {
        HistoryError(text)
    }
}

impl From<ZarrError> for HistoryError {
    fn from(error: ZarrError) -> HistoryError {
        HistoryError(error.to_string())
    }
}

/// The rows of a rank if `files` ranks have all of them: whole chunks, none on the other ranks. The ranks that have some are
/// spread over all ranks, and so over the nodes.
fn slab(comm: &Communicator, rows: usize, chunk: usize, files: usize) -> Range<usize> {
    let chunks = rows.div_ceil(chunk);
    let ranks = comm.size();
    let files = files.max(1).min(ranks).min(chunks);
    let Some(mine) = (0..files).find(|file| file * ranks / files == comm.rank()) else { return 0..0 };
    let first = |file: usize| (file * chunks / files * chunk).min(rows);
    first(mine)..first(mine + 1)
}

/// Collective: the first error of any rank, on all.
fn agreed(comm: &Communicator, result: Result<(), ZarrError>) -> Result<(), Error> {
    let complaint = result.err().map(|error| error.to_string());
    Ok(comm.agree(complaint)?.map_err(HistoryError)?)
}

fn array(named: &Named<'_>, axes: &[&str], shape: &[usize], chunk: &[usize]) -> Array {
    let mut attributes = Map::new();
    attributes.insert("long_name".into(), named.long_name.into());
    attributes.insert("units".into(), named.units.into());
    Array {
        axes: axes.iter().map(|&axis| axis.to_owned()).collect(),
        shape: shape.to_vec(),
        chunk: chunk.to_vec(),
        attributes,
    }
}
