//! The cells of all ranks as one array on one rank, and back.
//!
//! Slab by slab, a redistribution moves the cells between the memory of the field and a field of the slab on the root, in which
//! they lie as in the array.

use std::fmt;
use std::ops::Range;

use super::agree::SourceTarget;
use super::cells::misfit;
use super::options::{BindError, ExchangeError};
use crate::Error;
use crate::comm::Communicator;
use crate::device::Device;
use crate::element::Element;
use crate::field::{AnyField, BlockLayout, ComponentPlace, Field, FieldError};
use crate::pattern::{DEFAULT_SLAB_BYTES, Pattern, PatternError, Redistribution, Slab, Slabs};
use crate::transport::{Reduction, TransportError};

/// The cells of all ranks as one array; from [`Pattern::gather`].
#[derive(Debug, Clone, PartialEq)]
pub struct Whole<T> {
    /// The extents of the array: the number of cells along each axis of the grid, or of all numbered cells; then the extents of
    /// the further axes of the field, such as the number of levels; then, if there are several, the number of components.
    pub shape: Vec<usize>,
    /// The ids of numbered cells, ascending: those of the cells along the first axis. None on a grid.
    pub ids: Vec<i64>,
    /// The elements of the owned cells of all ranks, with the last axis of the array fastest.
    pub values: Vec<T>,
}

/// Why cells could not be gathered or scattered. If a rank gets an error, all do; it is the same but for
/// [`BindError::Device`] and [`Exchange`](WholeError::Exchange).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WholeError {
    /// The ranks disagree, an argument of a rank does not fit, or another rank failed. The text names the rank.
    #[error("{0}")]
    Refused(String),
    /// The exchange of a slab failed on this rank.
    #[error(transparent)]
    Exchange(ExchangeError),
    /// The cells of a slab have no pattern: cells are owned twice.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The cells of a slab could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The communication between ranks failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl Pattern {
    /// Collective: returns the owned cells of a field of all ranks as one array on rank `root`, for pictures, output and checkpoints;
    /// `None` on other ranks. The halo is not read. Any domains, levels, components, layouts and devices will do; levels that are
    /// not [exchanged](crate::FieldBuilder::exchanged_levels) arrive, too.
    ///
    /// The cells are those of the grid in the order of its axes, or numbered cells in the ascending order of their ids. They
    /// move in slabs along the first axis, of [64 MiB](crate::pattern::DEFAULT_SLAB_BYTES) or of one row if that is larger. Each rank
    /// packs at most its cells of one slab. Beyond the array, rank `root` has memory for two slabs, one of them on the device of the
    /// field, and of numbered cells for the ids of all, twice while they arrive.
    ///
    /// Follows the work in the default stream of the device, and blocks until the array is complete.
    ///
    /// ```
    /// use haloport::cpu::CpuDevice;
    /// use haloport::{Field, Pattern, run_ranks};
    ///
    /// run_ranks(2, |comm| {
    ///     let pattern = Pattern::on_grid(&comm, [4, 3]).build()?;
    ///     let mut field = Field::<f64, _>::new(&CpuDevice::with_threads(1)?, &pattern)?;
    ///     field.view_mut(0)?.fill_with(|cell, _| (3 * cell[0] + cell[1]) as f64);
    ///     if let Some(whole) = pattern.gather(&field, 0)? {
    ///         assert_eq!(whole.shape, [4, 3]);
    ///         assert_eq!(whole.values, (0..12).map(f64::from).collect::<Vec<_>>());
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), haloport::comm::RanksError>(())
    /// ```
    ///
    /// # Errors
    /// [`WholeError`]; all ranks get it. Refused are a field that is not one of this pattern, has other levels or components than on
    /// another rank, or is in flight, and a `root` that does not exist or is not the same on all ranks.
    pub fn gather<T: Element, D: Device>(
        &self,
        field: &Field<T, D>,
        root: usize,
    ) -> Result<Option<Whole<T>>, WholeError> {
        self.gather_with(field, root, DEFAULT_SLAB_BYTES)
    }

    /// As [`gather`](Pattern::gather), in slabs of at most `limit` bytes, or of one row. All ranks pass the same limit.
    ///
    /// # Errors
    /// As for [`gather`](Pattern::gather).
    pub fn gather_with<T: Element, D: Device>(
        &self,
        field: &Field<T, D>,
        root: usize,
        limit: usize,
    ) -> Result<Option<Whole<T>>, WholeError> {
        let (comm, field) = (self.comm(), field.as_any());
        let kind = CellKind::agreed(self, field)?;
        let mut slabs = self.slabs(root, kind.cell_bytes(field), limit)?;
        let is_root = comm.rank() == root;
        let mut values = agreed(comm, array(if is_root { kind.elements(slabs.extents()) } else { 0 }))?;
        while let Some(slab) = slabs.next_slab()? {
            let (mut owned, mut whole) = agreed(comm, kind.ends(&slab, field))?;
            let moved = run(&slab.to_root()?, &mut owned, &mut whole)?;
            let mut read = || match values.get_mut(kind.places(&slabs, &slab)) {
                Some(values) => Ok(whole.read(0, bytemuck::cast_slice_mut(values))?),
                None => Ok(()),
            };
            agreed(comm, moved.map_err(Error::from).and_then(|()| read()))?;
        }
        Ok(is_root.then(|| Whole { shape: kind.shape(slabs.extents()), ids: slabs.into_ids(), values }))
    }

    /// Collective: fills the owned cells of a field of all ranks from one array on rank `root`, for initial data and restarts. The
    /// reverse of [`gather`](Pattern::gather): `whole` has the elements in the order of [`Whole::values`]; other ranks pass
    /// anything, such as `&[]`. The halo keeps its values.
    ///
    /// Cells move in slabs, and the call blocks, as for `gather`.
    ///
    /// # Errors
    /// As for [`gather`](Pattern::gather); and an array of another length is refused. If an exchange fails, some cells may be filled.
    pub fn scatter<T: Element, D: Device>(
        &self,
        whole: &[T],
        field: &mut Field<T, D>,
        root: usize,
    ) -> Result<(), WholeError> {
        self.scatter_with(whole, field, root, DEFAULT_SLAB_BYTES)
    }

    /// As [`scatter`](Pattern::scatter), in slabs of at most `limit` bytes, or of one row. All ranks pass the same limit.
    ///
    /// # Errors
    /// As for [`scatter`](Pattern::scatter).
    pub fn scatter_with<T: Element, D: Device>(
        &self,
        whole: &[T],
        field: &mut Field<T, D>,
        root: usize,
        limit: usize,
    ) -> Result<(), WholeError> {
        let (comm, field) = (self.comm(), field.as_any());
        let kind = CellKind::agreed(self, field)?;
        let mut slabs = self.slabs(root, kind.cell_bytes(field), limit)?;
        let whole = if comm.rank() == root { Some(whole) } else { None };
        agreed(comm, whole.map_or(Ok(()), |whole| kind.check_length(slabs.extents(), whole.len())))?;
        while let Some(slab) = slabs.next_slab()? {
            let values = whole.and_then(|whole| whole.get(kind.places(&slabs, &slab)));
            let filled = kind.ends(&slab, field).and_then(|(owned, mut from)| {
                values.map_or(Ok(()), |values| from.copy_from_bytes(0, bytemuck::cast_slice(values)))?;
                Ok((owned, from))
            });
            let (mut owned, mut from) = agreed(comm, filled)?;
            agreed(comm, run(&slab.to_owners()?, &mut from, &mut owned)?)?;
        }
        Ok(())
    }
}

/// The further axes and the components of the cells of a field, the same on all ranks.
#[derive(Debug, PartialEq)]
struct CellKind {
    further: Vec<usize>,
    components: usize,
}

impl CellKind {
    /// Collective: that of the field on the first rank that has domains. Refuses a field that does not fit the pattern, is in flight, or
    /// is of another kind elsewhere.
    fn agreed<D: Device>(pattern: &Pattern, field: &AnyField<D>) -> Result<CellKind, WholeError> {
        let comm = pattern.comm();
        let layouts = (0..field.domain_count()).filter_map(|domain| field.layout(domain).ok());
        let own: Vec<CellKind> = layouts.map(|layout| CellKind::of(pattern, layout)).collect();
        let with_domains = if own.is_empty() { comm.size() } else { comm.rank() };
        let [first] = comm.all_reduce([with_domains as u64], Reduction::Min)?;
        // No rank has domains if there is no first one.
        let root = (first as usize).min(comm.size() - 1);
        let of_first = own.first().map_or((Vec::new(), 1), |own| (own.further.clone(), own.components));
        let (further, components) = comm.broadcast(root, &of_first)?;
        let common = CellKind { further, components };
        let differs = || {
            let other = own.iter().find(|own| **own != common)?;
            Some(format!(
                "the field has {other} here, and {common} on rank {root}; pass fields with the same further axes and components on \
                 all ranks"
            ))
        };
        let in_flight = || field.check_at_rest().err().map(|error| error.to_string());
        let complaint = misfit(pattern, 0, &field.as_ref().bound()).or_else(in_flight).or_else(differs);
        comm.agree(complaint)?.map_err(WholeError::Refused)?;
        Ok(common)
    }

    fn of(pattern: &Pattern, layout: &BlockLayout) -> CellKind {
        let allocated = layout.allocated();
        let further = (pattern.axes()..allocated.axes()).map(|axis| allocated.extent(axis)).collect();
        CellKind { further, components: layout.components() }
    }

    /// The shape of the array of all cells, of which there are `extents` along each axis.
    fn shape(&self, extents: &[usize]) -> Vec<usize> {
        let components = (self.components > 1).then_some(self.components);
        extents.iter().chain(&self.further).copied().chain(components).collect()
    }

    /// The number of elements of the cells of a box with these extents.
    fn elements(&self, extents: &[usize]) -> usize {
        self.shape(extents).into_iter().fold(1, usize::saturating_mul)
    }

    fn cell_bytes<D: Device>(&self, field: &AnyField<D>) -> usize {
        self.elements(&[]).saturating_mul(field.element().bytes())
    }

    /// The places of the elements of a slab in the array of all cells.
    fn places(&self, slabs: &Slabs, slab: &Slab) -> Range<usize> {
        let (rows, of_row) = (slab.rows(), self.elements(&slabs.extents()[1..]));
        rows.start * of_row..rows.end * of_row
    }

    fn check_length(&self, extents: &[usize], found: usize) -> Result<(), String> {
        let expected = self.elements(extents);
        if found == expected {
            return Ok(());
        }
        let shape = self.shape(extents);
        Err(format!("the whole array has {found} elements, expected {expected}, for the shape {shape:?}"))
    }

    /// The cells of a slab at this rank: in the memory of the field, and in a field of the slab on the root.
    fn ends<D: Device>(
        &self,
        slab: &Slab,
        field: &AnyField<D>,
    ) -> Result<(AnyField<D>, AnyField<D>), FieldError> {
        // SAFETY: the caller borrows the field while the handle and its exchange live: exclusively if cells are written. If they are read,
        // no exchange or view that writes them can be made meanwhile.
        let owned = unsafe { field.share_slab(slab)? };
        let whole = AnyField::builder(slab.whole())
            .further_axes(&self.further)
            .components(self.components, ComponentPlace::Fastest)
            .node_shared(false)
            .build_any(field.device(), field.element())?;
        Ok((owned, whole))
    }
}

impl fmt::Display for CellKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.further[..] {
            [] => f.write_str("no further axes")?,
            further => write!(f, "further axes of extents {further:?}")?,
        }
        write!(f, " and {} component{}", self.components, if self.components == 1 { "" } else { "s" })
    }
}

/// An array of zeros.
fn array<T: Element>(elements: usize) -> Result<Vec<T>, String> {
    let mut values = Vec::new();
    let reserved = values.try_reserve_exact(elements);
    reserved.map_err(|error| format!("found no memory for a whole array of {elements} elements: {error}"))?;
    values.resize(elements, T::zeroed());
    Ok(values)
}

/// Collective: moves the cells of a slab, and blocks until they are in place. The inner result is that of this rank.
fn run<D: Device>(
    redistribution: &Redistribution,
    source: &mut AnyField<D>,
    target: &mut AnyField<D>,
) -> Result<Result<(), ExchangeError>, BindError> {
    let mut plan = redistribution.plan(SourceTarget { source: &mut *source, target: &mut *target })?;
    Ok(plan.run(SourceTarget { source, target }).and_then(|()| plan.synchronize()))
}

/// Collective: the value of this rank if no rank has an error, otherwise the text of an error, the same on all ranks but those on which
/// the exchange failed.
fn agreed<T>(comm: &Communicator, result: Result<T, impl Into<Error>>) -> Result<T, WholeError> {
    let result = result.map_err(Into::into);
    let text = |error: &Error| error.to_string();
    let Err(first) = comm.agree(result.as_ref().err().map(text))? else {
        return result.map_err(|error| WholeError::Refused(error.to_string()));
    };
    // If a rank has failed, others cannot communicate with it: its own error tells more.
    let is_cause = |error: &Error| !matches!(error.downcast_ref(), Some(ExchangeError::Transport(_)));
    let own = result.err().filter(is_cause);
    let cause = comm.agree(own.as_ref().map(text))?;
    Err(match own.and_then(|error| error.downcast_ref().cloned()) {
        Some(error) => WholeError::Exchange(error),
        None => WholeError::Refused(cause.err().unwrap_or(first)),
    })
}
