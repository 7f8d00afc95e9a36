//! The table that the kernels `copy_words` and `copy_lines` read: a list of copies.

use std::collections::HashMap;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use crate::device::dialect::entry::CopyEntry;
use crate::device::dialect::grid::{Grid, Words};
use crate::device::{Anchors, Combine, CombineItem, CopyItem, Pointer};
use crate::element::ElementType;

/// The number of threads in a group of `copy_words`; its source has the same number.
pub const COPY_GROUP_THREADS: usize = 128;

/// The number of blocks of memory that the copies of one table can be anchored to; its source has the same number.
pub const COPY_BLOCKS: usize = 64;

/// The size in bytes of a tile of `copy_words` and `combine_words`: four words of 16 bytes for each thread, which `copy_words`
/// copies at once.
pub const COPY_TILE_BYTES: usize = COPY_GROUP_THREADS * 16 * 4;

/// The addresses of the blocks of a table in one run, which its kernels take as a parameter.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct CopyBases {
    /// The base of fixed addresses: 0. In the C source, this is element 0 of `at`.
    fixed: u64,
    at: [u64; COPY_BLOCKS],
    alignment: u64,
    /// The address of the word that stops `copy_words`; 0 for none.
    stop: u64,
}

/// Consecutive words of an entry.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct CopyTile {
    first: u32,
    count: u32,
    entry: u32,
}

/// A list of copies as one piece of device memory: entries, tiles, and the index lists.
///
/// Three kernels run it. In `copy_lines`, for devices whose threads are cores, each thread takes consecutive tiles and
/// copies them line by line. In `copy_words`, for all others, a group of [`COPY_GROUP_THREADS`] threads takes one tile; so it
/// does in `combine_words`, which combines numbers with those at their targets.
/// Their arguments are the address of the entries, the address of the tiles, the number of tiles, for `copy_lines` the
/// number of threads, and the addresses of the blocks.
#[derive(Debug)]
pub struct CopyTable {
    entries: Vec<CopyEntry>,
    tiles: Vec<CopyTile>,
    /// All index lists, one after the other.
    indices: Vec<u32>,
    /// For each entry, the positions in `indices` where its lists of the source and of the target begin.
    lists: Vec<[Option<usize>; 2]>,
    /// The numbers of the blocks that copies are anchored to.
    blocks: Vec<u32>,
}

/// A copy, its words, and how they are combined; `None` if they are copied.
type Listed<'i> = (&'i CopyItem, Words, Option<(Combine, ElementType)>);

impl CopyBases {
    /// The addresses of `blocks`: block `k` begins at `bases[k]`.
    pub fn new(blocks: &[u32], bases: &[Pointer]) -> CopyBases {
        let mut made = CopyBases { fixed: 0, at: [0; COPY_BLOCKS], alignment: 16, stop: 0 };
        let mut bits = made.alignment;
        for (at, base) in made.at.iter_mut().zip(blocks.iter().map(|block| bases.get(*block as usize))) {
            *at = base.map_or(0, |base| base.as_ptr().addr() as u64);
            bits |= *at;
        }
        made.alignment = 1 << bits.trailing_zeros();
        made
    }

    /// The same, for a run that copies nothing if the word at `stop` is not 0.
    pub fn with_stop_word(self, stop: Pointer) -> CopyBases {
        CopyBases { stop: stop.as_ptr().addr() as u64, ..self }
    }
}

impl CopyTable {
    /// Lays out `items` for `copy_words`: in one table, or in several if they are anchored to more than [`COPY_BLOCKS`]
    /// blocks. No table is empty.
    pub fn for_words(items: &[CopyItem]) -> Vec<CopyTable> {
        CopyTable::all(items.iter().map(|item| (item, Words::WidestOfCutRuns, None)), COPY_TILE_BYTES)
    }

    /// Lays out `items` for `copy_lines`, cut into tiles of about `tile_bytes` bytes; as [`for_words`](Self::for_words).
    pub fn for_lines(items: &[CopyItem], tile_bytes: usize) -> Vec<CopyTable> {
        CopyTable::all(items.iter().map(|item| (item, Words::Widest, None)), tile_bytes)
    }

    /// Lays out `items`, each of which [is whole](CombineItem::check), for `combine_words`; as [`for_words`](Self::for_words).
    pub fn for_combining(items: &[CombineItem]) -> Vec<CopyTable> {
        let items = items.iter().map(|CombineItem { copy, combine, element }| {
            let words = Words::OfBytes(element.part_bytes());
            (copy, words, Some((*combine, *element)))
        });
        CopyTable::all(items, COPY_TILE_BYTES)
    }

    fn all<'i>(items: impl Iterator<Item = Listed<'i>>, tile_bytes: usize) -> Vec<CopyTable> {
        let mut groups: Vec<(Vec<u32>, Vec<Listed<'i>>)> = Vec::new();
        for item in items.filter(|(copy, ..)| copy.bytes() > 0) {
            let Anchors { source, target } = item.0.anchors();
            let takes = |blocks: &[u32]| {
                let added = [source, target].into_iter().flatten().filter(|block| !blocks.contains(block));
                blocks.len() + added.count() <= COPY_BLOCKS
            };
            if !groups.last().is_some_and(|(blocks, _)| takes(blocks)) {
                groups.push(Default::default());
            }
            if let Some((blocks, items)) = groups.last_mut() {
                for block in [source, target].into_iter().flatten() {
                    if !blocks.contains(&block) {
                        blocks.push(block);
                    }
                }
                items.push(item);
            }
        }
        groups.into_iter().map(|(blocks, items)| CopyTable::new(items, blocks, tile_bytes)).collect()
    }

    fn new(items: Vec<Listed<'_>>, blocks: Vec<u32>, tile_bytes: usize) -> CopyTable {
        let (entries, tiles, indices, lists) = Default::default();
        let mut table = CopyTable { entries, tiles, indices, lists, blocks };
        let mut known = HashMap::new();
        for (item, words, combined) in items {
            let lists = match item {
                CopyItem::Box(_) => [None; 2],
                CopyItem::Indexed(copy) => [copy.source(), copy.target()]
                    .map(|rows| table.add_list(&mut known, rows.indices.as_ref())),
            };
            for grid in Grid::of(item, words) {
                let entry = CopyEntry::new(&grid).in_blocks(table.blocks_of(item.anchors()));
                let entry = combined.map_or(entry, |combined| entry.combining(combined));
                table.add(entry, lists.map(|list| list.map(|begin| begin + grid.first_row)), tile_bytes);
            }
        }
        // The two faces across the fastest axis lie on the same cache lines: tiles that are close are copied one after
        // the other.
        let CopyTable { entries, tiles, .. } = &mut table;
        tiles.sort_by_cached_key(|tile| entries[tile.entry as usize].address_of(tile.first));
        table
    }

    /// The places of blocks in the table, from 1; 0 for fixed addresses.
    fn blocks_of(&self, anchors: Anchors) -> [u32; 2] {
        [anchors.source, anchors.target].map(|number| {
            let place = self.blocks.iter().position(|block| Some(*block) == number);
            place.map_or(0, |place| place as u32 + 1)
        })
    }

    /// Adds an entry with its tiles.
    fn add(&mut self, entry: CopyEntry, lists: [Option<usize>; 2], tile_bytes: usize) {
        let number = self.entries.len() as u32;
        let most = (tile_bytes / entry.word_bytes()).clamp(1, u32::MAX as usize) as u32;
        let tiles = entry.words().div_ceil(most);
        self.tiles.extend((0..tiles).map(|tile| {
            let at = |tile: u32| (u64::from(entry.words()) * u64::from(tile) / u64::from(tiles)) as u32;
            CopyTile { first: at(tile), count: at(tile + 1) - at(tile), entry: number }
        }));
        self.entries.push(entry);
        self.lists.push(lists);
    }

    /// The numbers of the blocks that copies are anchored to, for [`CopyBases::new`].
    pub fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    /// The number of bytes that it copies.
    pub fn copied_bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.words() as usize * entry.word_bytes()).sum()
    }

    /// The size in bytes of the words of each entry.
    pub fn word_sizes(&self) -> impl Iterator<Item = usize> {
        self.entries.iter().map(CopyEntry::word_bytes)
    }

    /// The number of tiles.
    pub fn tiles(&self) -> usize {
        self.tiles.len()
    }

    /// The size of the table in device memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.indices_begin() + size_of_val(&self.indices[..])
    }

    /// The offset of the tiles, in bytes from the entries.
    pub fn tiles_begin(&self) -> usize {
        size_of_val(&self.entries[..])
    }

    /// The bytes of the table for device memory at `address`, which is aligned to 16 bytes.
    pub fn bytes_at(&self, address: Pointer) -> Vec<u8> {
        let indices = address.as_ptr().addr() + self.indices_begin();
        let at = |list: Option<usize>| list.map_or(0, |begin| (indices + begin * size_of::<u32>()) as u64);
        let mut bytes = Vec::with_capacity(self.bytes());
        for (entry, lists) in self.entries.iter().zip(&self.lists) {
            bytes.extend_from_slice(bytemuck::bytes_of(&entry.with_lists(lists.map(at))));
        }
        bytes.extend_from_slice(bytemuck::cast_slice(&self.tiles));
        bytes.extend_from_slice(bytemuck::cast_slice(&self.indices));
        bytes
    }

    fn indices_begin(&self) -> usize {
        self.tiles_begin() + size_of_val(&self.tiles[..])
    }

    /// Adds `list` and returns where it begins; a list of several entries is stored once.
    fn add_list(
        &mut self,
        known: &mut HashMap<*const u32, usize>,
        list: Option<&Arc<[u32]>>,
    ) -> Option<usize> {
        let list = list?;
        Some(*known.entry(list.as_ptr()).or_insert_with(|| {
            let begin = self.indices.len();
            self.indices.extend_from_slice(list);
            begin
        }))
    }
}
