//! What an oracle knows of a case.

use haloport_core::{BlockLayout, ElementType};

/// The name of a value of the global array: the index of a cell, or its id and its further indices; 0 along missing
/// axes. A field has at most 4 axes.
pub(crate) type Name = [i64; 4];

/// The name of the cell with this index.
pub(crate) fn name_of(index: &[i64]) -> Name {
    std::array::from_fn(|axis| index.get(axis).copied().unwrap_or(0))
}

/// Knows what this rank's memory holds.
pub(crate) trait Oracle {
    /// The name of the value that `cell` of `domain` holds before an exchange, or after it; `None` if nothing was put into
    /// the cell.
    fn name(&self, domain: usize, layout: &BlockLayout, cell: &[i64], after: bool) -> Option<Name>;
    /// The component of the named cell that a component of `cell` comes from, and whether its sign is changed.
    fn component(&self, _field: usize, _cell: &[i64], component: usize) -> (usize, bool) {
        (component, false)
    }
    /// A number that tells the global array of a field in one round from all others.
    fn seed(&self, field: usize, round: u64) -> u64;
}

impl<O: Oracle> Oracle for &O {
    fn name(&self, domain: usize, layout: &BlockLayout, cell: &[i64], after: bool) -> Option<Name> {
        (**self).name(domain, layout, cell, after)
    }

    fn component(&self, field: usize, cell: &[i64], component: usize) -> (usize, bool) {
        (**self).component(field, cell, component)
    }

    fn seed(&self, field: usize, round: u64) -> u64 {
        (**self).seed(field, round)
    }
}

/// Knows what the target of a [`SourceTarget`](haloport_core::SourceTarget) holds: only the cells that an exchange fills.
pub(super) struct Filled<'m>(pub(super) &'m dyn Oracle);

impl Oracle for Filled<'_> {
    fn name(&self, domain: usize, layout: &BlockLayout, cell: &[i64], after: bool) -> Option<Name> {
        let name = |after| self.0.name(domain, layout, cell, after);
        name(after).filter(|after| Some(*after) != name(false))
    }

    fn component(&self, field: usize, cell: &[i64], component: usize) -> (usize, bool) {
        self.0.component(field, cell, component)
    }

    fn seed(&self, field: usize, round: u64) -> u64 {
        self.0.seed(field, round)
    }
}

/// A field of a case, with the oracle that knows its content.
#[derive(Clone, Copy)]
pub(crate) struct Described<'m> {
    pub(super) oracle: &'m dyn Oracle,
    /// Its number in the case.
    pub(super) number: usize,
    pub(super) element: ElementType,
}
