//! Lists of different lengths in two arrays (compressed rows).

use std::ops::Range;

/// Lists of indices, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lists {
    /// The start of each list in `items`, then the end of the last one.
    starts: Vec<usize>,
    items: Vec<usize>,
}

impl Lists {
    /// Makes no list.
    pub(crate) fn new() -> Lists {
        Lists { starts: vec![0], items: Vec::new() }
    }

    /// Cuts `items` into lists of `lengths`.
    pub(crate) fn from_lengths(lengths: &[usize], items: Vec<usize>) -> Lists {
        let mut starts = vec![0];
        starts.extend(lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        }));
        debug_assert_eq!(starts.last(), Some(&items.len()));
        Lists { starts, items }
    }

    /// Makes the lists `0..len`, such that list `key` has the values paired with `key`, in their order.
    pub(crate) fn grouped(len: usize, pairs: impl Iterator<Item = (usize, usize)> + Clone) -> Lists {
        let mut lengths = vec![0; len];
        pairs.clone().for_each(|(key, _)| lengths[key] += 1);
        let mut lists = Lists::from_lengths(&lengths, vec![0; lengths.iter().sum()]);
        let mut next = lists.starts.clone();
        for (key, value) in pairs {
            lists.items[next[key]] = value;
            next[key] += 1;
        }
        lists
    }

    /// Adds a list.
    pub(crate) fn push(&mut self, list: impl IntoIterator<Item = usize>) {
        self.items.extend(list);
        self.starts.push(self.items.len());
    }

    /// The number of lists.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of items of all lists.
    pub(crate) fn total(&self) -> usize {
        self.items.len()
    }

    /// List `index`.
    pub(crate) fn of(&self, index: usize) -> &[usize] {
        &self.items[self.range(index)]
    }

    /// The range of list `index` among the items of all lists.
    pub(crate) fn range(&self, index: usize) -> Range<usize> {
        self.starts[index]..self.starts[index + 1]
    }

    /// All lists in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[usize]> + Clone {
        self.starts.windows(2).map(|ends| &self.items[ends[0]..ends[1]])
    }
}
