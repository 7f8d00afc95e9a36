//! Bound lists of copies.

use std::collections::HashMap;

use haloport_core::ElementType;
use haloport_core::device::{BoxCopy, Combine, CombineItem, CopyItem, DeviceError, NextReader, Pointer};

use crate::copies::boxes::run_box;
use crate::copies::choice::WritingChoice;
use crate::copies::combine::{ForStore, for_elements};
use crate::copies::lines::Store;
use crate::copies::rows::RowCopy;
use crate::copies::stores::{LIST_BYTES, PastCaches, Plain, Writing, gapless_bytes};
use crate::copies::sweeps::{Form, Sweep};

/// Below this many bytes a copy stays on the calling thread.
///
/// Measured by `cargo bench -p haloport-cpu` (see `docs/measurements/2026-11-21-cpu-backend.md`): waking and joining
/// the pool costs about 15 µs. Two threads are faster from 128 KiB on with rows of 8 bytes, from 0.5 to 1 MiB with rows
/// of 24 bytes, and from 4 MiB with rows of 1 KiB.
pub const COPY_INLINE_BYTES: usize = 1 << 20;

/// A list of copies.
#[derive(Debug)]
pub struct CpuCopies {
    through: List,
    /// The same copies past the caches, if that may be faster.
    past: Option<(List, WritingChoice)>,
}

/// Copies written in one way; large lists are cut into pieces of similar size for several threads.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) items: Vec<Item>,
    pub(crate) parallel: bool,
    writing: Writing,
}

/// One entry of the list.
#[derive(Debug)]
pub(crate) enum Item {
    Box(BoxCopy, Writing),
    Sweep(Sweep),
    Rows(RowCopy),
    /// A copy that combines, and its loops.
    Combine(Box<Item>, RunItem),
}

/// [`Item::run`] with one store.
type RunItem = unsafe fn(&Item, &[Pointer]);

/// Makes it with the store that combines.
struct Combiner;

impl ForStore for Combiner {
    type Made = RunItem;

    fn made<S: Store>() -> RunItem {
        Item::run::<S>
    }
}

impl CpuCopies {
    pub(crate) fn new(items: Vec<CopyItem>, reader: NextReader, threads: usize) -> CpuCopies {
        let items: Vec<CopyItem> = items.into_iter().filter(|item| item.bytes() > 0).collect();
        let bytes: usize = items.iter().map(CopyItem::bytes).sum();
        let past = (reader == NextReader::Elsewhere && bytes >= LIST_BYTES)
            .then(|| List::new(items.clone(), Writing::PastCaches, bytes, threads))
            .filter(|list| list.items.iter().any(|item| item.writing() == Writing::PastCaches));
        let through = List::new(items, Writing::Plain, bytes, threads);
        CpuCopies { through, past: past.map(|list| (list, WritingChoice::default())) }
    }

    /// Copies that combine what they read with what is at their targets.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for elements that cannot be combined so.
    pub(crate) fn combining(items: Vec<CombineItem>, threads: usize) -> Result<CpuCopies, DeviceError> {
        let bytes = items.iter().map(|item| item.copy.bytes()).sum();
        let (parallel, piece) = pieces(bytes, threads);
        let mut kinds: Vec<((Combine, ElementType), Vec<Item>)> = Vec::new();
        for item in items {
            item.check()?;
            let CombineItem { copy, combine, element } = item;
            let kind = (combine, element);
            let at = kinds.iter().position(|(other, _)| *other == kind).unwrap_or(kinds.len());
            if at == kinds.len() {
                kinds.push((kind, Vec::new()));
            }
            // A run of numbers is not cut, since a cut may be within one.
            let is_run = matches!(&copy, CopyItem::Box(copy) if copy.axes().is_empty());
            cut(copy, if is_run { usize::MAX } else { piece }, Writing::Plain, true, &mut kinds[at].1);
        }
        let mut all = Vec::new();
        for ((combine, element), items) in kinds {
            let combiner = for_elements::<Combiner>(combine, element).ok_or_else(|| {
                DeviceError::invalid("a copy that combines", "a known type of elements", element)
            })?;
            all.extend(pair_up(items).into_iter().map(|item| Item::Combine(Box::new(item), combiner)));
        }
        Ok(CpuCopies { through: List { items: all, parallel, writing: Writing::Plain }, past: None })
    }

    /// Calls `run` once, with the list to run now.
    pub(crate) fn run_by(&self, run: impl FnOnce(&List)) {
        match &self.past {
            Some((past, choice)) => choice.run(|writing| match writing {
                Writing::Plain => run(&self.through),
                Writing::PastCaches => run(past),
            }),
            None => run(&self.through),
        }
    }
}

impl List {
    /// A list of `total` bytes. Copies that `writing` does not suit are written through the caches.
    fn new(items: Vec<CopyItem>, writing: Writing, total: usize, threads: usize) -> List {
        let (parallel, piece) = pieces(total, threads);
        let mut all = Vec::with_capacity(items.len());
        items.into_iter().for_each(|item| cut(item, piece, writing, false, &mut all));
        List { items: pair_up(all), parallel, writing }
    }

    /// Runs some copies of the list on the calling thread. Block `k`, to which copies are anchored, begins at `bases[k]`.
    ///
    /// # Safety
    /// The sources are readable and the targets writable over all of each copy, and do not overlap. Meanwhile no other
    /// thread writes the sources or accesses the targets.
    pub(crate) unsafe fn run(&self, items: &[Item], bases: &[Pointer]) {
        for item in items {
            // SAFETY: the caller's promise.
            unsafe {
                match item.writing() {
                    Writing::Plain => item.run::<Plain>(bases),
                    Writing::PastCaches => item.run::<PastCaches>(bases),
                }
            }
        }
        if self.writing == Writing::PastCaches {
            PastCaches::finish();
        }
    }
}

impl Item {
    fn of_box(copy: BoxCopy, writing: Writing) -> Item {
        let gapless = gapless_bytes(&copy).is_some();
        Item::Box(copy, writing.of(&copy, gapless))
    }

    fn writing(&self) -> Writing {
        match self {
            Item::Box(_, writing) => *writing,
            Item::Sweep(sweep) => sweep.writing,
            Item::Rows(copy) => copy.writing,
            Item::Combine(..) => Writing::Plain,
        }
    }

    /// Runs the copy on the calling thread.
    ///
    /// # Safety
    /// As for [`List::run`], and the caller finishes the store.
    unsafe fn run<S: Store>(&self, bases: &[Pointer]) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Item::Box(copy, _) => run_box::<S>(copy, copy.ends(bases)),
                Item::Sweep(sweep) => sweep.run::<S>(bases),
                Item::Rows(copy) => copy.run::<S>(bases),
                Item::Combine(item, combiner) => combiner(item, bases),
            }
        }
    }
}

/// Adds a copy to `all`, in pieces of at most about `piece` bytes; none if it copies nothing. `combines` is for copies of
/// rows (see [`RowCopy::new`]).
fn cut(item: CopyItem, piece: usize, writing: Writing, combines: bool, all: &mut Vec<Item>) {
    let pieces = item.bytes().div_ceil(piece);
    match item {
        _ if pieces == 0 => {}
        CopyItem::Box(copy) if pieces == 1 => all.push(Item::of_box(copy, writing)),
        CopyItem::Box(copy) => {
            all.extend(copy.split(pieces).into_iter().map(|part| Item::of_box(part, writing)));
        }
        CopyItem::Indexed(copy) if pieces == 1 => all.push(Item::Rows(RowCopy::new(copy, writing, combines))),
        CopyItem::Indexed(copy) => {
            let parts = copy.split(pieces).into_iter();
            all.extend(parts.map(|part| Item::Rows(RowCopy::new(part, writing, combines))));
        }
    }
}

/// Whether several threads copy `total` bytes, and the size of the pieces into which copies are then cut.
fn pieces(total: usize, threads: usize) -> (bool, usize) {
    match threads > 1 && total >= COPY_INLINE_BYTES {
        true => (true, (total / (4 * threads)).max(COPY_INLINE_BYTES / 16)),
        false => (false, usize::MAX),
    }
}

/// Joins short copies of the same form in pairs.
fn pair_up(items: Vec<Item>) -> Vec<Item> {
    let mut waiting: HashMap<Form, usize> = HashMap::new();
    let mut paired: Vec<Item> = Vec::with_capacity(items.len());
    for item in items {
        let Item::Box(copy, writing) = item else {
            paired.push(item);
            continue;
        };
        let form = Sweep::form(&copy, writing);
        match form.as_ref().and_then(|form| waiting.remove(form)) {
            Some(index) => {
                if let Item::Box(first, writing) = paired[index] {
                    paired[index] = Item::Sweep(Sweep::new(first, &copy, writing));
                }
            }
            None => {
                waiting.extend(form.map(|form| (form, paired.len())));
                paired.push(Item::Box(copy, writing));
            }
        }
    }
    paired
}
