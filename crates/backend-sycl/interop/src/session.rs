//! An exchange of fields in arrays of the test program, on one of its queues.

use haloport_core::{
    BindOptions, BlockLayout, Communicator, DataPath, Element, ElementType, Exchange, Field, Grid, Halo,
    IndexBox, Pattern, Schedule,
};
use haloport_sycl::{SyclDevice, SyclStream};
use serde::Deserialize;

use crate::Failure;
use crate::arrays::Array;

/// What to bind: a grid, and for the one domain of this rank an array for each field.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    /// The extents of the grid, periodic along all axes.
    grid: Vec<usize>,
    /// The width of the halo.
    halo: usize,
    /// The cells that the rank owns: the lower corner and the upper one.
    owned: (Vec<i64>, Vec<i64>),
    /// The address of the `sycl::queue` to work on.
    queue: usize,
    /// An array for each field, of all cells that are owned and the halo around them; all of one element type.
    arrays: Vec<Array>,
    /// How cells get to other ranks.
    path: DataPath,
}

/// A bound exchange and its queue.
pub(crate) struct Session {
    exchange: Box<dyn Run>,
    stream: SyclStream,
}

impl Session {
    /// # Safety
    /// Objects are alive, and arrays true and alive as long as the session.
    pub(crate) unsafe fn new(comm: &Communicator, request: &Request) -> Result<Session, Failure> {
        let grid = Grid::new(&request.grid)?.periodic(vec![true; request.grid.len()])?;
        let owned = IndexBox::new(&request.owned.0, &request.owned.1);
        let pattern = Pattern::structured(comm, &grid, &[owned], &Halo::uniform(request.halo))?;
        // SAFETY: the caller's promise.
        let (device, stream) = unsafe { SyclDevice::from_sycl_queue(request.queue) }?;
        // SAFETY: the caller's promise.
        let exchange = unsafe {
            match request.arrays.first().map(|array| array.interface().describe()) {
                Some(Ok((array, _))) if array.element() == ElementType::F32 => {
                    bound::<f32>(&pattern, &device, request, owned)?
                }
                _ => bound::<f64>(&pattern, &device, request, owned)?,
            }
        };
        Ok(Session { exchange, stream })
    }

    /// An exchange with `between` in its middle. No host waits for the queue but where messages have to be packed first.
    pub(crate) fn exchange(&mut self, between: impl FnOnce()) -> Result<(), Failure> {
        let mut between = Some(between);
        self.exchange.run(&self.stream, &mut || {
            if let Some(between) = between.take() {
                between();
            }
        })
    }
}

/// An exchange of fields of any type.
trait Run {
    fn run(&mut self, stream: &SyclStream, between: &mut dyn FnMut()) -> Result<(), Failure>;
}

impl<T: Element> Run for Exchange<Vec<Field<T, SyclDevice>>> {
    fn run(&mut self, stream: &SyclStream, between: &mut dyn FnMut()) -> Result<(), Failure> {
        let pending = self.start(Schedule::On(stream))?;
        between();
        Ok(pending.finish(Schedule::On(stream))?)
    }
}

/// # Safety
/// As for [`Session::new`].
unsafe fn bound<T: Element>(
    pattern: &Pattern,
    device: &SyclDevice,
    request: &Request,
    owned: IndexBox,
) -> Result<Box<dyn Run>, Failure> {
    let width = request.halo as i64;
    let lower: Vec<i64> = request.owned.0.iter().map(|lower| lower - width).collect();
    let upper: Vec<i64> = request.owned.1.iter().map(|upper| upper + width).collect();
    let allocated = IndexBox::new(lower, upper);
    let mut fields = Vec::new();
    for array in &request.arrays {
        let (array, _) = array.interface().describe()?;
        let layout = BlockLayout::of_array(owned, allocated, &array, None)?;
        // SAFETY: the caller's promise.
        fields.push(unsafe { device.field_in_arrays::<T>(vec![(array, layout)], Box::new(())) }?);
    }
    Ok(Box::new(pattern.bind_with(fields, BindOptions::default().path(request.path))?))
}
