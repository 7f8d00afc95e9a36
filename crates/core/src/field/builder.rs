//! The builder of fields, for layouts other than the default.

use std::marker::PhantomData;
use std::ops::Range;

use super::layout_options::{ComponentPlace, LayoutOptions};
use super::{AnyField, BlockLayout, Field, FieldError};
use crate::device::{Device, MemoryKind};
use crate::element::{Element, ElementType};
use crate::pattern::{Pattern, Redistribution};

/// The options of a new field; from [`Field::builder`].
#[derive(Debug, Clone)]
pub struct FieldBuilder<T, D> {
    layout: LayoutOptions,
    vector: Vec<usize>,
    kind: MemoryKind,
    pattern: Pattern,
    /// Whether other processes of this node may map the field.
    node_shared: bool,
    /// The redistributions that read the field.
    sources_of: Vec<Redistribution>,
    field: PhantomData<fn() -> (T, D)>,
}

impl<T: Element, D: Device> FieldBuilder<T, D> {
    pub(super) fn new(pattern: &Pattern) -> FieldBuilder<T, D> {
        FieldBuilder {
            layout: LayoutOptions::new(pattern),
            vector: Vec::new(),
            kind: MemoryKind::default(),
            pattern: pattern.clone(),
            node_shared: true,
            sources_of: Vec::new(),
            field: PhantomData,
        }
    }

    /// The number of levels of each cell: adds an axis after those of the pattern. All levels of a cell are exchanged
    /// with it; an axis of the grid, by contrast, can be cut into domains and has a halo.
    #[must_use]
    pub fn levels(mut self, levels: usize) -> Self {
        self.layout.further_axes.push(levels);
        self
    }

    /// The extents of further axes, after the axes of the grid, or after the axis of the cells (axis 0) of an
    /// unstructured domain: `[3, 80]` for 80 levels at each of 3 neighbours. With the axes of the pattern, a field has at
    /// most four axes, and components.
    #[must_use]
    pub fn further_axes(mut self, extents: impl AsRef<[usize]>) -> Self {
        self.layout.further_axes.extend_from_slice(extents.as_ref());
        self
    }

    /// The levels that are exchanged, a range of the last further axis; by default all.
    #[must_use]
    pub fn exchanged_levels(mut self, levels: Range<usize>) -> Self {
        self.layout.levels = Some(levels);
        self
    }

    /// Lays the cells of an unstructured domain out in blocks of `cells` cells (`nproma`); the last block may be larger
    /// than the cells that are left for it. In the default order, the blocks are the slowest axis and the cells of a
    /// block the fastest, as in arrays `(nproma, levels, blocks)` of Fortran programs. Views have the same indices as
    /// without blocks.
    #[must_use]
    pub fn blocked(mut self, cells: usize) -> Self {
        self.layout.blocked = Some(cells);
        self
    }

    /// The number of values of each cell, and their position in memory.
    #[must_use]
    pub fn components(mut self, components: usize, place: ComponentPlace) -> Self {
        self.layout.components = components;
        self.layout.place = place;
        self
    }

    /// The axes along which the first components point, if they form vectors: see [`Field::with_vector`].
    #[must_use]
    pub fn vector(mut self, axes: impl AsRef<[usize]>) -> Self {
        self.vector = axes.as_ref().to_vec();
        self
    }

    /// The axes from the slowest to the fastest in memory; by default `[0, 1, 2]`, with the last axis fastest. Further
    /// axes have the numbers after those of the grid: `[2, 0, 1]` makes the levels of a grid of two axes slowest. Axis 0
    /// of an unstructured domain is the axis of the cells: `[1, 0]` makes the axis of the levels the slowest. If the
    /// cells are [`blocked`](FieldBuilder::blocked), axis 0 appears twice, first for the blocks, then for the cells of
    /// a block: `[0, 1, 0]` by default, with levels.
    #[must_use]
    pub fn axis_order(mut self, order: impl AsRef<[usize]>) -> Self {
        self.layout.order = Some(order.as_ref().to_vec());
        self
    }

    /// The number of unused cells of memory after the cells of each axis: padded strides. For blocked cells, the first
    /// entry is the number after the cells of each block.
    #[must_use]
    pub fn padding(mut self, cells: impl AsRef<[usize]>) -> Self {
        self.layout.padding = Some(cells.as_ref().to_vec());
        self
    }

    /// The number of cells of margin on each side of the axes of the grid beyond the halo, for structured patterns.
    #[must_use]
    pub fn wider_margin(mut self, cells: usize) -> Self {
        self.layout.wider = cells;
        self
    }

    /// The kind of memory.
    #[must_use]
    pub fn memory(mut self, kind: MemoryKind) -> Self {
        self.kind = kind;
        self
    }

    /// Whether neighbours in other processes of this node may copy directly from the field, if there is memory that
    /// they can map; by default `true`. Such memory usually has pages of 4 KiB, which slow down loops with large
    /// strides. Therefore:
    /// - A field below 4 MiB is in such memory as a whole.
    /// - Of a larger field, only the cells that the neighbours of this pattern read are, if they are at most 16 ranges
    ///   and a quarter of the field, as for a grid that is split along the slowest axis; the rest has large pages.
    /// - Otherwise, a field of a grid is not shared, and its cells are packed; an unstructured field is shared as a
    ///   whole.
    ///
    /// On a GPU, such a field is shared as a whole, and may take whole pages of 2 MiB.
    ///
    /// The cells of a grid that neighbours read in runs below 64 bytes are always packed; others only between cores that are far
    /// from each other. An exchange of another pattern packs the cells that are not shared;
    /// [`source_of`](FieldBuilder::source_of) shares those that a redistribution reads.
    #[must_use]
    pub fn node_shared(mut self, shared: bool) -> Self {
        self.node_shared = shared;
        self
    }

    /// Lets the ranks of this node that receive cells by `redistribution`, whose source is the pattern of the field, copy
    /// directly from the field. A field of 4 MiB or more is then shared as a whole, unless they read few ranges of it: a
    /// transpose between processes takes one pass over the cells, but loops of the program with large strides take longer. Without
    /// effect if the field is not [`node_shared`](FieldBuilder::node_shared).
    ///
    /// ```
    /// # use haloport::cpu::CpuDevice;
    /// # use haloport::{Field, Grid, Halo, Pattern, Split, run_ranks};
    /// # run_ranks(2, |comm| {
    /// # let grid = Grid::new([6, 4])?;
    /// # let cut = |parts: [usize; 2]| -> Result<Pattern, haloport::Error> {
    /// #     let mine = Split::even(&grid, parts)?.part(comm.rank()).ok_or("no such part")?;
    /// #     Ok(Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(0))?)
    /// # };
    /// # let (rows, columns) = (cut([2, 1])?, cut([1, 2])?);
    /// # let device = CpuDevice::with_threads(1)?;
    /// let to_columns = rows.redistribute(&columns)?;
    /// let source = Field::<f64, _>::builder(&rows).source_of(&to_columns).build(&device)?;
    /// # drop(source);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), haloport::comm::RanksError>(())
    /// ```
    #[must_use]
    pub fn source_of(mut self, redistribution: &Redistribution) -> Self {
        self.sources_of.push(redistribution.clone());
        self
    }

    /// Allocates the field, filled with zeros.
    ///
    /// # Errors
    /// [`FieldError::Layout`] for an axis order that is not a permutation, lists of the wrong length, 0 components,
    /// axes, blocks or margins that this kind of pattern does not have, blocks of 0 cells, levels that do not exist, vectors of elements
    /// without a sign or with more axes than components, and a redistribution from another pattern; [`FieldError::Device`], with
    /// [`DeviceError::OutOfMemory`](crate::device::DeviceError), if memory is exhausted.
    pub fn build(self, device: &D) -> Result<Field<T, D>, FieldError> {
        let any = self.build_any(device, T::TYPE)?;
        Ok(Field { any, element: PhantomData })
    }

    /// As [`build`](FieldBuilder::build), of elements of a type that is known at run time, in place of `T`.
    ///
    /// # Errors
    /// As there.
    pub fn build_any(self, device: &D, element: ElementType) -> Result<AnyField<D>, FieldError> {
        let layouts = self.layout.layouts()?;
        let any = AnyField::with_options(device, element, layouts, self.kind, &self.readers()?)?;
        any.with_vector(&self.vector)
    }

    /// The patterns whose neighbours on this node may map the field.
    fn readers(&self) -> Result<Vec<Pattern>, FieldError> {
        let pattern = &self.pattern;
        let is_same = |it: &Pattern| it.number() == pattern.number() && it.comm().is_same(pattern.comm());
        if let Some(other) = self.sources_of.iter().map(Redistribution::source).find(|it| !is_same(it)) {
            let number = other.number();
            let found = match other.comm().is_same(pattern.comm()) {
                true => format!("pattern {number}"),
                false => format!("pattern {number} of another communicator"),
            };
            let expected = format!("pattern {}, that of the field", pattern.number());
            return Err(FieldError::layout("the source of a redistribution", expected, found));
        }
        let sources_of = self.sources_of.iter().map(Redistribution::pattern);
        let readers = [pattern].into_iter().chain(sources_of);
        Ok(readers.filter(|_| self.node_shared).cloned().collect())
    }

    /// The layout of each domain, for arrays of the program and for [`FieldLayout`](crate::FieldLayout). Layouts are in
    /// elements, so they are the same for every type. Allocates no field.
    ///
    /// # Errors
    /// [`FieldError::Layout`], as for [`build`](FieldBuilder::build).
    pub fn layouts(&self) -> Result<Vec<BlockLayout>, FieldError> {
        self.layout.layouts()
    }
}

impl<D: Device> AnyField<D> {
    /// A builder of a field, for [`FieldBuilder::build_any`].
    pub fn builder(pattern: &Pattern) -> FieldBuilder<u8, D> {
        FieldBuilder::new(pattern)
    }
}

impl<T: Element, D: Device> Field<T, D> {
    /// A field of zeros for the domains of `pattern`, with one component, the last axis fastest, and a margin as wide
    /// as the halo.
    ///
    /// # Errors
    /// [`FieldError::Device`], with [`DeviceError::OutOfMemory`](crate::device::DeviceError), if memory is exhausted.
    pub fn new(device: &D, pattern: &Pattern) -> Result<Field<T, D>, FieldError> {
        Field::<T, D>::builder(pattern).build(device)
    }

    /// A builder of a field, for components, another axis order, padding or wider margins.
    pub fn builder(pattern: &Pattern) -> FieldBuilder<T, D> {
        FieldBuilder::new(pattern)
    }
}
