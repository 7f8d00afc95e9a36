//! The cells that travel, with their addresses in fields and in messages.
//!
//! - Here: checks that fields are the same on all ranks and hold the cells of a pattern; and a [`Neighbour`], with the cells
//!   that go to it and come from it;
//! - `side`: one side of a copy, in a field or in a message; and cutting pieces into chunks;
//! - `packed`: the pieces that go to a neighbour in one message.

pub(super) mod packed;
pub(super) mod side;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::MAX_AXES;
use crate::element::ElementType;
use crate::field::{BlockLayout, BoundField, End, VectorAxes};
use crate::pattern::{Cells, Pattern, Piece};
use crate::transport::Transport;
use side::PieceCells;

/// The properties of a field that must be the same on all ranks and that a rank without blocks knows, too.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FieldSignature {
    /// The number of the field in the exchange.
    pub(crate) number: usize,
    pub(crate) element: ElementType,
    pub(crate) vector: VectorAxes,
    /// As in [`BoundField`].
    pub(crate) pattern: usize,
}

/// The number of entries of a [`FieldShape`].
const SHAPE_ENTRIES: usize = 2 * MAX_AXES;

/// The other properties of a field that must be the same on all ranks: the number of components, the number of axes beyond
/// those of the pattern, and along each of these the number of exchanged levels and the first of them.
pub(crate) type FieldShape = [u64; SHAPE_ENTRIES];

/// Describes in words the first entry in which the shapes of two fields of a pattern differ.
pub(crate) fn difference(pattern: &Pattern, here: &FieldShape, there: &FieldShape) -> Option<String> {
    let entry = (0..SHAPE_ENTRIES).find(|&entry| here[entry] != there[entry])?;
    let (here, there) = (here[entry] as i64, there[entry] as i64);
    // Between a grid and numbered cells, the same levels lie along axes with other numbers.
    let axes = Some(pattern.axes()).filter(|axes| *axes == pattern.at_source().axes());
    let levels = |number: usize| match axes {
        Some(axes) => format!("exchanged levels along axis {}", axes + number),
        None => format!("exchanged levels along their {} axis", ["first", "second", "third"][number.min(2)]),
    };
    Some(match (entry, axes) {
        (0, _) => format!("{here} components here and {there}"),
        (1, Some(axes)) => format!("{} axes here and {}", here + axes as i64, there + axes as i64),
        (1, None) => format!("{here} axes of levels here and {there}"),
        (entry, _) if entry % 2 == 0 => format!("{here} {} here and {there}", levels(entry / 2 - 1)),
        (entry, _) => format!("{} that begin at {here} here and at {there}", levels(entry / 2 - 1)),
    })
}

/// Returns the shape of a field. The axes of the pattern are left out: it has already checked them.
pub(crate) fn shape(pattern: &Pattern, layout: &BlockLayout) -> FieldShape {
    let mut shape = FieldShape::default();
    shape[0] = layout.components() as u64;
    shape[1] = layout.owned().axes().saturating_sub(pattern.axes()) as u64;
    for (number, axis) in (pattern.axes()..layout.owned().axes()).enumerate() {
        shape[2 * number + 2] = layout.owned().extent(axis) as u64;
        shape[2 * number + 3] = layout.owned().bounds(axis).0 as u64;
    }
    shape
}

/// Checks that a field has a block for each domain that holds the domain's own cells and its halo. Describes the first
/// misfit in words.
pub(crate) fn misfit(pattern: &Pattern, number: usize, field: &BoundField) -> Option<String> {
    let Some(pattern) = pattern.in_set(field.pattern) else {
        let (found, patterns) = (field.pattern, pattern.set().len().max(1));
        return Some(format!(
            "field {number} is one of pattern {found} of a set, expected one of its {patterns} patterns, from 0"
        ));
    };
    let Some(source) = &field.source else {
        if pattern.is_redistribution() {
            return Some(format!(
                "field {number} has no source; expected a `SourceTarget`, as a redistribution reads one field and fills another"
            ));
        }
        return misfit_at(pattern, number, field, End::Target);
    };
    if let Some(misfit) = &source.misfit {
        return Some(format!("field {number} {misfit}"));
    }
    // Nothing is turned on the way to or from numbered cells, whose fields have no axes to point along.
    let between_grids = pattern.grid().is_some() && pattern.at_source().grid().is_some();
    if between_grids && field.vector != source.vector {
        let (to, from) = (&field.vector, &source.vector);
        return Some(format!("field {number} has{to} and its source{from}, expected the same"));
    }
    // Blocks of one field are alike.
    if let (Some((_, from)), Some((_, to))) = (source.blocks.first(), field.blocks.first())
        && let (here, there) = (shape(pattern, to), shape(pattern.at_source(), from))
        && let Some(difference) = difference(pattern, &here, &there)
    {
        return Some(format!("field {number} has {difference} in its source, field {}", number - 1));
    }
    misfit_at(pattern.at_source(), number - 1, field, End::Source)
        .or_else(|| misfit_at(pattern, number, field, End::Target))
        .or_else(|| too_many_rows(pattern, number, field))
}

/// Describes in words the first block of which cells are copied one by one and in which they lie too far apart for that.
fn too_many_rows(pattern: &Pattern, number: usize, field: &BoundField) -> Option<String> {
    let at = |end, pieces: &BTreeMap<usize, Vec<Piece>>, number| {
        pieces.values().flatten().map(|piece| PieceCells::at(end, piece)).find_map(|piece| {
            let Cells::ListInBox { axes, .. } = piece.cells else { return None };
            let ((_, layout), domain) = (field.at(end).0.get(piece.domain)?, piece.domain);
            layout.row_step(*axes).is_none().then(|| {
                format!(
                    "field {number} has cells of domain {domain} that are too far apart in memory for a redistribution between a grid \
                     and numbered cells: 2^32 times what all strides are multiples of, or more"
                )
            })
        })
    };
    at(End::Source, pattern.sends(), number - 1).or_else(|| at(End::Target, pattern.receives(), number))
}

/// As [`misfit`], at one end, with the pattern of the field there. Only targets need memory for the halo.
fn misfit_at(pattern: &Pattern, number: usize, field: &BoundField, end: End) -> Option<String> {
    let domains = pattern.domain_count();
    let (blocks, _) = field.at(end);
    if blocks.len() != domains {
        let found = blocks.len();
        return Some(format!(
            "field {number} has {found} blocks, expected one for each of the {domains} domains"
        ));
    }
    if let Some(misfit) = pattern.grid().and_then(|grid| field.vector.misfit(grid)) {
        return Some(format!("field {number} has {misfit}"));
    }
    (0..domains).find_map(|domain| misfit_of_block(pattern, number, field, end, domain))
}

/// As [`misfit`], of the block of one domain.
fn misfit_of_block(
    pattern: &Pattern,
    number: usize,
    field: &BoundField,
    end: End,
    domain: usize,
) -> Option<String> {
    let (blocks, _) = field.at(end);
    let (pointer, layout) = &blocks[domain];
    let owned = layout.owned();
    if let Some(expected) = pattern.boxes().get(domain).filter(|expected| !expected.is_empty())
        && (owned.axes() < expected.axes()
            || (0..expected.axes()).any(|axis| owned.bounds(axis) != expected.bounds(axis)))
    {
        return Some(format!("field {number} has the cells {owned} as domain {domain}, expected {expected}"));
    }
    if let Some(set) = pattern.index_sets().get(domain)
        && owned.bounds(0) != (0, set.len() as i64)
    {
        let (lower, upper) = owned.bounds(0);
        let cells = set.len();
        return Some(format!(
            "field {number} has the cells {lower}..{upper} as domain {domain}, expected its 0..{cells}, halo included"
        ));
    }
    if let Some(blocks) = layout.blocks().filter(|_| pattern.grid().is_some()) {
        return Some(format!(
            "field {number} has its cells in blocks of {} in domain {domain}, expected none on a grid",
            blocks.cells
        ));
    }
    if let Some((_, first)) = blocks.first()
        && let (here, there) = (shape(pattern, layout), shape(pattern, first))
        && let Some(difference) = difference(pattern, &here, &there)
    {
        return Some(format!("field {number}, domain {domain}: it has {difference} in domain 0"));
    }
    if !layout.allocated().is_empty() && pointer.as_ptr().addr() % field.alignment != 0 {
        let alignment = field.alignment;
        return Some(format!(
            "field {number} is not aligned in memory, expected the alignment of its elements, {alignment} bytes"
        ));
    }
    if end == End::Source && pattern.reversal().is_none() {
        return None;
    }
    let allocated = layout.allocated();
    let halo = pattern.halo().filter(|(its_domain, _)| *its_domain == domain);
    let missing = halo
        .filter_map(|(_, cells)| cells.as_box())
        .find(|cells| !allocated.encloses(&layout.with_levels(cells)));
    missing.map(|cells| {
        format!(
            "field {number} has memory for the cells {allocated} of domain {domain}, expected also the halo cells {cells}"
        )
    })
}

/// A rank with which this rank exchanges cells by a pattern.
#[derive(Clone, Copy)]
pub(crate) struct Neighbour<'p> {
    pub(crate) pattern: &'p Pattern,
    pub(crate) peer: usize,
}

impl<'p> Neighbour<'p> {
    /// The pieces that go to it.
    pub(crate) fn sent(self) -> &'p [Piece] {
        self.pattern.sends().get(&self.peer).map_or(&[], Vec::as_slice)
    }

    /// The pieces that come from it.
    pub(crate) fn received(self) -> &'p [Piece] {
        self.pattern.receives().get(&self.peer).map_or(&[], Vec::as_slice)
    }

    /// The cells that go to it.
    pub(crate) fn sources(self) -> impl Iterator<Item = PieceCells<'p>> + Clone {
        self.sent().iter().map(|piece| PieceCells::at(End::Source, piece))
    }

    /// The cells that come from it.
    pub(crate) fn targets(self) -> impl Iterator<Item = PieceCells<'p>> + Clone {
        self.received().iter().map(|piece| PieceCells::at(End::Target, piece))
    }

    /// Whether cells of this field go to it or come from it; of a set of patterns, some fields may have none.
    pub(crate) fn shares_cells_of(self, field: &BoundField, end: End) -> bool {
        match end {
            End::Source => self.sent().iter().any(|piece| field.block(end, piece.source_domain).is_some()),
            End::Target => {
                self.received().iter().any(|piece| field.block(end, piece.target_domain).is_some())
            }
        }
    }

    pub(crate) fn transport(self) -> &'p dyn Transport {
        &**self.pattern.comm().transport()
    }

    /// Whether each can map the memory that the other shares: see [`Transport::is_near`].
    pub(crate) fn is_near(self) -> bool {
        self.transport().is_near(self.peer)
    }
}
