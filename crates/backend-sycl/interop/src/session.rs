//! An exchange of fields in arrays of the test program, on one of its queues.

use haloport_core::{
    BindOptions, BlockLayout, Communicator, DataPath, Element, ElementType, Error, Exchange, Field, Grid,
    Halo, IndexBox, Pattern,
};
use haloport_sycl::{SyclDevice, SyclStream};
use serde::Deserialize;

use crate::arrays::Array;

/// A request to bind fields: a grid, and for the one domain of this rank an array for each field.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    /// The extents of the grid, periodic along all axes.
    grid: Vec<usize>,
    /// The width of the halo.
    halo: usize,
    /// The lower and the upper corner of the cells that the rank owns.
    owned: (Vec<i64>, Vec<i64>),
    /// The address of the `sycl::queue` to work on.
    queue: usize,
    /// An array for each field, of the owned cells and the halo around them; all of one element type.
    arrays: Vec<Array>,
    /// The path of cells to other ranks.
    path: DataPath,
}

/// A bound exchange and its queue.
pub(crate) struct Session {
    exchange: Box<dyn Run>,
    stream: SyclStream,
}

impl Session {
    /// # Safety
    /// The objects in `request` are alive, and the arrays are described correctly and outlive the session.
    pub(crate) unsafe fn new(comm: &Communicator, request: &Request) -> Result<Session, Error> {
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

    /// Runs an exchange, and `between` in its middle. The host waits for the queue only if messages must be packed
    /// first.
    pub(crate) fn exchange(&mut self, between: impl FnOnce()) -> Result<(), Error> {
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
    fn run(&mut self, stream: &SyclStream, between: &mut dyn FnMut()) -> Result<(), Error>;
}

impl<T: Element> Run for Exchange<Vec<Field<T, SyclDevice>>> {
    fn run(&mut self, stream: &SyclStream, between: &mut dyn FnMut()) -> Result<(), Error> {
        let pending = self.start_on(stream)?;
        between();
        Ok(pending.finish_on(stream)?)
    }
}

/// # Safety
/// As for [`Session::new`].
unsafe fn bound<T: Element>(
    pattern: &Pattern,
    device: &SyclDevice,
    request: &Request,
    owned: IndexBox,
) -> Result<Box<dyn Run>, Error> {
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
    Ok(Box::new(pattern.bind_with(fields, BindOptions::default().prefer(request.path))?))
}
