//! Unstructured domains: sets of numbered cells in a local order.

use std::ops::RangeInclusive;
use std::sync::Arc;

/// An unstructured domain: the global ids of the cells that it owns and of those in its halo, in any local order. The
/// local index of a cell is its position in that order, and its index along axis 0 of every field.
///
/// The cells may also be edges or vertices of a mesh, each kind with its own pattern. A domain may own nothing, and an
/// id may occur several times in its halo. An invalid domain is an error on all ranks when a pattern is made from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSet {
    ids: Arc<[i64]>,
    owned: Arc<[bool]>,
    owners: Option<Arc<[usize]>>,
}

/// The cells that an exchange fills.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HaloCells {
    /// All cells that the domain does not own.
    #[default]
    All,
    /// The cells that the domain does not own and whose id is in the list, such as one level of the halo.
    Ids(Vec<i64>),
}

impl IndexSet {
    /// The owned cells first, then the cells of the halo.
    pub fn new(owned: &[i64], halo: &[i64]) -> IndexSet {
        let marks = (0..owned.len() + halo.len()).map(|index| index < owned.len());
        IndexSet { ids: owned.iter().chain(halo).copied().collect(), owned: marks.collect(), owners: None }
    }

    /// Cells in any order; `owned` says for each cell whether the domain owns it.
    pub fn in_order(ids: impl Into<Arc<[i64]>>, owned: impl Into<Arc<[bool]>>) -> IndexSet {
        IndexSet { ids: ids.into(), owned: owned.into(), owners: None }
    }

    /// Names the rank that owns each cell of the halo, in local order, if the caller knows it; naming a rank that does
    /// not own the cell is an error. If all domains of all ranks name their owners, the pattern is made without looking
    /// for them, and without the check that no other rank owns the same id.
    #[must_use]
    pub fn with_owners(mut self, owners: impl Into<Arc<[usize]>>) -> IndexSet {
        self.owners = Some(owners.into());
        self
    }

    /// The number of cells, owned and in the halo.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether the domain has no cells.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The global ids, in local order.
    pub fn ids(&self) -> &[i64] {
        &self.ids
    }

    /// For each cell, in local order, whether the domain owns it.
    pub fn owned(&self) -> &[bool] {
        &self.owned
    }

    /// The rank that owns each cell of the halo, in local order; `None` if the caller has not named them.
    pub fn owners(&self) -> Option<&[usize]> {
        self.owners.as_deref()
    }

    /// The local index and the id of each owned cell (`true`) or cell of the halo (`false`).
    pub(crate) fn cells(&self, owned: bool) -> impl Iterator<Item = (u32, i64)> + Clone {
        let marked = self.ids.iter().zip(&*self.owned).enumerate();
        // A domain has at most `u32::MAX` cells: a pattern refuses a larger one first.
        marked.filter(move |(_, (_, mark))| **mark == owned).map(|(index, (&id, _))| (index as u32, id))
    }

    /// The same cells in the same order, of which the domain owns those that it owns here and whose id is one of `ids`.
    pub(crate) fn owned_among(&self, ids: RangeInclusive<i64>) -> IndexSet {
        let cells = self.ids.iter().zip(&*self.owned);
        let owned = cells.map(|(id, owned)| *owned && ids.contains(id)).collect();
        IndexSet { ids: Arc::clone(&self.ids), owned, owners: None }
    }

    /// The text of the first error in the domain.
    pub(crate) fn complaint(&self, ranks: usize) -> Option<String> {
        let cells = self.ids.len();
        if self.owned.len() != cells {
            return Some(format!(
                "has {cells} ids, but {} entries that say whether it owns them",
                self.owned.len()
            ));
        }
        if u32::try_from(cells).is_err() {
            return Some(format!("has {cells} cells, expected fewer than 2^32"));
        }
        if let Some(id) = self.ids.iter().find(|id| **id < 0) {
            return Some(format!("has the id {id}, expected ids of 0 and above"));
        }
        let owners = self.owners.as_deref()?;
        let halo = self.owned.iter().filter(|owned| !**owned).count();
        if owners.len() != halo {
            return Some(format!(
                "names {} owners, expected one for each of the {halo} cells of its halo",
                owners.len()
            ));
        }
        let stranger = owners.iter().find(|owner| **owner >= ranks)?;
        Some(format!("names rank {stranger} as an owner, expected ranks 0 to {}", ranks - 1))
    }
}
