//! Options for binding a pattern to fields.

use std::fmt;

use super::error::ExchangeError;
use super::path::{CopiedBy, DataPath, HaloOrder};
use crate::callback;
use crate::device::Combine;

/// Default of [`BindOptions::staging_chunk`]: 1 MiB. It takes about 40 µs through a network of 200 Gb/s or across a bus
/// of 25 GB/s, ten times the overhead of a chunk at its two ends (a launch, an event, a message). Splitting smaller
/// messages gains little.
pub const DEFAULT_STAGING_CHUNK: usize = 1 << 20;

/// Default of [`BindOptions::staging_copy`]: 256 KiB. A copy engine begins some microseconds after a kernel and tells its
/// end some microseconds later, together about 10 µs; 256 KiB take as long across a bus of 25 GB/s. Nothing was measured.
pub const DEFAULT_STAGING_COPY: usize = 256 << 10;

/// A function that is called when an exchange is complete or has failed.
pub type Completion = callback::Completion<ExchangeError>;

/// Options of [`Pattern::bind_with`](crate::Pattern::bind_with).
#[derive(Default)]
pub struct BindOptions {
    pub(crate) on_complete: Option<Completion>,
    pub(crate) path: DataPath,
    /// Whether another path is taken where `path` is not possible.
    pub(crate) or_next: bool,
    pub(crate) copied_by: CopiedBy,
    pub(crate) order: HaloOrder,
    /// `None`: [`DEFAULT_STAGING_CHUNK`].
    pub(crate) staging_chunk: Option<usize>,
    /// `None`: [`DEFAULT_STAGING_COPY`].
    pub(crate) staging_copy: Option<usize>,
    /// `None`: 1.
    pub(crate) in_flight: Option<usize>,
    pub(crate) element_names: Vec<String>,
    /// `None`: cells go from their owners to halos.
    pub(crate) accumulate: Option<Combine>,
    pub(crate) zero_halo: bool,
}

impl fmt::Debug for BindOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BindOptions")
            .field("on_complete", &self.on_complete.is_some())
            .field("path", &self.path)
            .field("or_next", &self.or_next)
            .field("copied_by", &self.copied_by)
            .field("order", &self.order)
            .field("staging_chunk", &self.staging_chunk)
            .field("staging_copy", &self.staging_copy)
            .field("in_flight", &self.in_flight)
            .field("element_names", &self.element_names)
            .field("accumulate", &self.accumulate)
            .field("zero_halo", &self.zero_halo)
            .finish()
    }
}

impl BindOptions {
    /// Calls `call` each time an exchange is complete, so that `finish` would not wait, or has failed in flight. `call`
    /// runs inside whichever library call makes the last progress, or a later one; or on the progress thread, and then `finish` may
    /// return before it. It may start other exchanges; it must neither wait
    /// for other ranks nor touch its own exchange. Errors that `start` and `finish` return are not reported again. If
    /// `call` panics, the exchange is poisoned: `finish`, or the next call of the exchange, returns
    /// [`CallbackPanicked`](crate::exchange::ExchangeError::CallbackPanicked).
    #[must_use]
    pub fn on_complete(mut self, call: impl FnMut(Result<(), &ExchangeError>) + Send + 'static) -> Self {
        self.on_complete = Some(Box::new(call));
        self
    }

    /// Sets how data gets to other ranks (default: [`DataPath::Quickest`]). If a field cannot take this path to one of its
    /// neighbours, binding fails with the reason. Must be the same on every rank.
    #[must_use]
    pub fn path(mut self, path: DataPath) -> Self {
        (self.path, self.or_next) = (path, false);
        self
    }

    /// As [`path`](BindOptions::path), but where this path is not possible, the next one of [`DataPath`] is taken.
    /// [`Exchange::routes`](crate::exchange::Exchange::routes) tells where, and why.
    #[must_use]
    pub fn prefer(mut self, path: DataPath) -> Self {
        (self.path, self.or_next) = (path, true);
        self
    }

    /// Sets which end copies fields straight ([`DataPath::Direct`]; default: [`CopiedBy::Quickest`]). The receiver of each
    /// halo decides, so that ranks may pass different values.
    #[must_use]
    pub fn copied_by(mut self, copied_by: CopiedBy) -> Self {
        self.copied_by = copied_by;
        self
    }

    /// Sets the order in which halos are filled (default: [`HaloOrder::Quickest`]). Must be the same on every rank.
    #[must_use]
    pub fn order(mut self, order: HaloOrder) -> Self {
        self.order = order;
        self
    }

    /// Sets the maximum size of a staged message in bytes; larger ones are split into chunks of at most this size
    /// (default: [`DEFAULT_STAGING_CHUNK`]; `usize::MAX`: never split). Must be the same on every rank.
    ///
    /// An asynchronous device whose memory the transport cannot read *stages* messages: it packs them into pinned
    /// memory of the host. While one chunk is on the wire, the sender packs the next and the receiver unpacks the one
    /// before. Each chunk costs a launch and a message at either end. Smaller messages, other devices and other paths
    /// are not affected. A cell is never split, however small the chunk.
    #[must_use]
    pub fn staging_chunk(mut self, bytes: usize) -> Self {
        self.staging_chunk = Some(bytes);
        self
    }

    /// Sets the size in bytes from which on staged messages are moved by a copy (default: [`DEFAULT_STAGING_COPY`];
    /// `usize::MAX`: never). Ranks may pass different sizes: the messages are the same.
    ///
    /// A device with [separate memory](crate::device::DeviceInfo::separate_memory) packs smaller messages straight into
    /// pinned memory, and unpacks them straight from it: its processors store and load across the bus. If all messages
    /// that it packs at once have this size together, it packs them in its own memory, and one copy, which a copy engine
    /// does, moves them; while a chunk is moved, the next is packed. Received messages are likewise moved by one copy,
    /// and then unpacked; received chunks are always unpacked straight from pinned memory. This costs as much memory of
    /// the device as the messages that are moved have bytes, in each direction. Other devices and other paths are not
    /// affected.
    #[must_use]
    pub fn staging_copy(mut self, bytes: usize) -> Self {
        self.staging_copy = Some(bytes);
        self
    }

    /// Sets how many exchanges of a [plan](crate::Pattern::plan) can be in flight at once (default: 1, at most 64). Each has
    /// buffers of its own. Must be the same on every rank; without [`on_complete`](BindOptions::on_complete) if above 1. An
    /// exchange that owns its fields takes no other number than 1. Exchanges of one field that are finished in different streams are
    /// ordered by the program, as other work in these streams is, if the number is above 1.
    #[must_use]
    pub fn in_flight(mut self, most: usize) -> Self {
        self.in_flight = Some(most);
        self
    }

    /// Names what the elements of the fields are beyond their [`ElementType`](crate::ElementType), in the order of the
    /// fields: the unit of dates that are kept as integers, the members of records. Must be the same on every rank, which
    /// is checked: bytes that mean something else to a neighbour would be copied without a sign. Fields without a name
    /// have an empty one; those behind the last name have none.
    #[must_use]
    pub fn element_names(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.element_names = names.into_iter().collect();
        self
    }

    /// Turns the exchange round: each halo cell goes to its owner, where it is combined with the owner's value and those of
    /// other halos: values that finite elements have computed for vertices of neighbours, sensitivities of adjoint models.
    /// All neighbours exchange at once, whatever the [`order`](BindOptions::order). Halo cells that no rank owns, beyond the
    /// ends of a grid, stay out of it. Must be the same on every rank.
    ///
    /// Values are combined in a fixed order: by the rank from which they come, then by the piece of the pattern, of boxes the
    /// larger ones first, then by the place in it. The bits of the result are the same in every run, but depend on the
    /// decomposition. Where axes turn, vectors are turned back. With
    /// [`Combine::Replace`], each owned cell has at most one halo cell, else binding fails.
    ///
    /// From `start` to the end of `finish`, the program leaves the halo as it is, on folded grids the duplicates among owned cells
    /// too. In memory that it has passed to `start`, it may change other owned cells until it calls `finish`, which combines
    /// them.
    ///
    /// ```
    /// use haloport::cpu::CpuDevice;
    /// use haloport::exchange::Combine;
    /// use haloport::{BindOptions, Pattern, run_ranks};
    ///
    /// // A ring of four cells: each rank has its own two, and a halo of one cell on either side.
    /// run_ranks(2, |comm| {
    ///     let pattern = Pattern::on_grid(&comm, [4]).periodic([true]).halo(1).build()?;
    ///     let mut load = pattern.field::<i64, _>(&CpuDevice::with_threads(1)?)?;
    ///     load.view_mut(0)?.fill_with(|_, _| 1);
    ///     let mut sum = pattern.bind_with(load, BindOptions::default().accumulate(Combine::Sum))?;
    ///     sum.run()?;
    ///     let first = 2 * comm.rank() as i64;
    ///     assert_eq!(sum.fields().view(0)?[[first]], 2); // its own, and the halo of one neighbour
    ///     Ok(())
    /// })?;
    /// # Ok::<(), haloport::comm::RanksError>(())
    /// ```
    #[must_use]
    pub fn accumulate(mut self, combine: Combine) -> Self {
        self.accumulate = Some(combine);
        self
    }

    /// Sets the halo cells that were [accumulated](BindOptions::accumulate) to zero at the end of each exchange (default: they
    /// keep their values), on folded grids the duplicates among owned cells too. With [`Combine::Sum`], the exchange is then
    /// the transpose of the one that fills halos. Must be the same on every rank.
    #[must_use]
    pub fn zero_halo(mut self, zero: bool) -> Self {
        self.zero_halo = zero;
        self
    }
}
