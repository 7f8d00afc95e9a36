//! Unstructured domains: sets of numbered cells in a local order.

use std::sync::Arc;

/// An unstructured domain: the global ids of the cells that it owns and of those in its halo, in any local order. A
/// cell's local index is its place in that order, and its place along axis 0 of every field.
///
/// The cells may as well be edges or vertices of a mesh, each with a pattern of their own. A domain may own nothing, and an id
/// may stand in its halo several times. What is wrong with a domain is said when a pattern is made of it, to all
/// ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSet {
    ids: Arc<[i64]>,
    owned: Arc<[bool]>,
    owners: Option<Arc<[usize]>>,
}

/// Which cells an exchange fills.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HaloCells {
    /// All cells that the domain does not own.
    #[default]
    All,
    /// Those cells that the domain does not own whose id is in the list: a halo level, say.
    Ids(Vec<i64>),
}

impl IndexSet {
    /// The owned cells first, then those of the halo.
    pub fn new(owned: &[i64], halo: &[i64]) -> IndexSet {
        let marks = (0..owned.len() + halo.len()).map(|index| index < owned.len());
        IndexSet { ids: owned.iter().chain(halo).copied().collect(), owned: marks.collect(), owners: None }
    }

    /// Cells in any order; `owned` says for each of them whether the domain owns it.
    pub fn in_order(ids: impl Into<Arc<[i64]>>, owned: impl Into<Arc<[bool]>>) -> IndexSet {
        IndexSet { ids: ids.into(), owned: owned.into(), owners: None }
    }

    /// Names the rank that owns each cell of the halo, in local order, where that is known; a rank that does not own it
    /// is refused. If all domains of all ranks do so, their pattern is made without looking for the owners; then nobody
    /// checks that an id has no other owner on another rank.
    #[must_use]
    pub fn with_owners(mut self, owners: impl Into<Arc<[usize]>>) -> IndexSet {
        self.owners = Some(owners.into());
        self
    }

    /// The number of cells, owned and in the halo.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no cell at all.
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

    /// The rank that owns each cell of the halo, in local order; `None` if that was not said.
    pub fn owners(&self) -> Option<&[usize]> {
        self.owners.as_deref()
    }

    /// The local index and the id of each cell, owned (`true`) or of the halo (`false`).
    pub(crate) fn cells(&self, owned: bool) -> impl Iterator<Item = (u32, i64)> + Clone {
        let marked = self.ids.iter().zip(&*self.owned).enumerate();
        // A domain has at most `u32::MAX` cells: a pattern refuses a larger one first.
        marked.filter(move |(_, (_, mark))| **mark == owned).map(|(index, (&id, _))| (index as u32, id))
    }

    /// What is wrong with it, in words.
    pub(crate) fn complaint(&self, ranks: usize) -> Option<String> {
        let cells = self.ids.len();
        if self.owned.len() != cells {
            return Some(format!("has {cells} ids and says of {} whether it owns them", self.owned.len()));
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
