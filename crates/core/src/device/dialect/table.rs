//! The table that the kernels of `copies.c` read: a list of copies.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use crate::device::{Anchors, BoxCopy, CopyAxis, CopyItem, CopyRows, MAX_COPY_AXES, Pointer, SignChange};

/// The number of threads in a group of `copy_words`; its source has the same number.
pub const COPY_GROUP_THREADS: usize = 128;

/// The number of blocks of memory that the copies of one table can be anchored to; its source has the same number.
pub const COPY_BLOCKS: usize = 64;

/// The axes of an entry: those of a box, the words of a run, the rows, and the pieces of words for blocks that are not
/// aligned to them.
const AXES: usize = MAX_COPY_AXES + 3;

/// A copy as a grid of words of at most 16 bytes: the widest that divide all addresses, strides and runs. Blocks are
/// taken to be aligned to 16 bytes; if they are not, the kernels copy words in pieces.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct CopyEntry {
    source: u64,
    target: u64,
    source_rows: u64,
    target_rows: u64,
    words: u64,
    extents: [u64; AXES],
    source_strides: [i64; AXES],
    target_strides: [i64; AXES],
    word: u32,
    axes: u32,
    rows_axis: u32,
    sign: u32,
    unaligned: u32,
    source_block: u32,
    target_block: u32,
    unused: u32,
}

/// The begins of the blocks of a table in one run, which its kernels take as a parameter.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct CopyBases {
    at: [u64; COPY_BLOCKS],
    alignment: u64,
}

/// Consecutive words of an entry.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct CopyTile {
    first: u64,
    count: u32,
    entry: u32,
}

/// A list of copies as one piece of device memory: entries, tiles, and the index lists.
///
/// Two kernels run it. In `copy_lines`, for devices whose threads are cores, each thread takes consecutive tiles and
/// copies them line by line. In `copy_words`, for all others, a group of [`COPY_GROUP_THREADS`] threads takes one tile.
/// Their arguments are the address of the entries, the address of the tiles, the number of tiles, for `copy_lines` the
/// number of threads, and the begins of the blocks.
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

impl CopyBases {
    /// The begins of `blocks`, of which block `k` begins at `bases[k]`.
    pub fn new(blocks: &[u32], bases: &[Pointer]) -> CopyBases {
        let mut made = CopyBases { at: [0; COPY_BLOCKS], alignment: 16 };
        let mut bits = made.alignment;
        for (at, base) in made.at.iter_mut().zip(blocks.iter().map(|block| bases.get(*block as usize))) {
            *at = base.map_or(0, |base| base.as_ptr().addr() as u64);
            bits |= *at;
        }
        made.alignment = 1 << bits.trailing_zeros();
        made
    }
}

impl CopyEntry {
    /// `item`, with consecutive rows: the table adds lists of indices.
    pub(super) fn new(item: &CopyItem) -> CopyEntry {
        match item {
            CopyItem::Box(copy) => of_rows(copy, None),
            CopyItem::Indexed(copy) => of_rows(copy.row(), Some((copy.rows(), copy.source(), copy.target()))),
        }
    }

    /// The block and the address of word `number` on the side with the words further apart: in a field, not in a
    /// message.
    fn address_of(&self, number: u64) -> (u32, u64) {
        let reach = |strides: &[i64; AXES]| {
            let axes = self.extents.iter().zip(strides);
            axes.map(|(extent, stride)| u128::from(*extent) * u128::from(stride.unsigned_abs())).max()
        };
        let (block, first, strides) = if reach(&self.source_strides) > reach(&self.target_strides) {
            (self.source_block, self.source, &self.source_strides)
        } else {
            (self.target_block, self.target, &self.target_strides)
        };
        let (mut rest, mut address) = (number, first);
        for (extent, stride) in self.extents.iter().zip(strides).rev() {
            address = address.wrapping_add_signed(((rest % extent) as i64).wrapping_mul(*stride));
            rest /= extent;
        }
        (block, address)
    }

    /// The number of words.
    pub fn words(&self) -> u64 {
        self.words
    }

    /// The size of a word in bytes.
    pub fn word_bytes(&self) -> usize {
        self.word as usize
    }
}

impl CopyTable {
    /// Lays out `items`, cut into tiles of about `tile_bytes` bytes: in one table, or in several if they are anchored to
    /// more than [`COPY_BLOCKS`] blocks. No table is empty.
    pub fn all(items: &[CopyItem], tile_bytes: usize) -> Vec<CopyTable> {
        let mut groups: Vec<(Vec<u32>, Vec<&CopyItem>)> = Vec::new();
        for item in items.iter().filter(|item| item.bytes() > 0) {
            let Anchors { source, target } = item.anchors();
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
        groups.into_iter().map(|(blocks, items)| CopyTable::new(&items, blocks, tile_bytes)).collect()
    }

    fn new(items: &[&CopyItem], blocks: Vec<u32>, tile_bytes: usize) -> CopyTable {
        let (entries, tiles, indices, lists) = Default::default();
        let mut table = CopyTable { entries, tiles, indices, lists, blocks };
        let mut known = HashMap::new();
        for item in items {
            let block = |number: Option<u32>| {
                let place = table.blocks.iter().position(|block| Some(*block) == number);
                place.map_or(0, |place| place as u32 + 1)
            };
            let Anchors { source, target } = item.anchors();
            let (source_block, target_block) = (block(source), block(target));
            let entry = CopyEntry { source_block, target_block, ..CopyEntry::new(item) };
            let number = table.entries.len() as u32;
            let most = (tile_bytes as u64 / u64::from(entry.word)).clamp(1, u64::from(u32::MAX));
            let tiles = entry.words.div_ceil(most);
            table.tiles.extend((0..tiles).map(|tile| {
                // 128 bits, since numbers of words have 64.
                let at = |tile: u64| (u128::from(entry.words) * u128::from(tile) / u128::from(tiles)) as u64;
                CopyTile { first: at(tile), count: (at(tile + 1) - at(tile)) as u32, entry: number }
            }));
            let lists = match item {
                CopyItem::Box(_) => [None; 2],
                CopyItem::Indexed(copy) => [copy.source(), copy.target()]
                    .map(|rows| table.add_list(&mut known, rows.indices.as_ref())),
            };
            table.entries.push(entry);
            table.lists.push(lists);
        }
        // The two faces across the fastest axis lie on the same cache lines: tiles that are close are copied one after
        // the other.
        let CopyTable { entries, tiles, .. } = &mut table;
        tiles.sort_by_cached_key(|tile| entries[tile.entry as usize].address_of(tile.first));
        table
    }

    /// The numbers of the blocks that copies are anchored to, for [`CopyBases::new`].
    pub fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    /// The number of bytes that it copies.
    pub fn copied_bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.words as usize * entry.word as usize).sum()
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
        for (entry, [source, target]) in self.entries.iter().zip(&self.lists) {
            let placed = CopyEntry { source_rows: at(*source), target_rows: at(*target), ..*entry };
            bytes.extend_from_slice(bytemuck::bytes_of(&placed));
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

/// The rows of an indexed copy: their number, and the rows of source and target.
type RowsOfCopy<'a> = (usize, &'a CopyRows, &'a CopyRows);

fn of_rows(row: &BoxCopy, rows: Option<RowsOfCopy<'_>>) -> CopyEntry {
    let along = rows.map(|(extent, source, target)| CopyAxis {
        extent,
        source_stride: source.stride,
        target_stride: target.stride,
    });
    let word = word_bytes(row, along);
    let run = CopyAxis {
        extent: row.run_bytes() / word,
        source_stride: word as isize,
        target_stride: word as isize,
    };
    // The axis that comes closest to walking the target in sequence is innermost; rows are sorted among the others.
    let mut axes: Vec<(CopyAxis, bool)> = row.axes().iter().map(|axis| (*axis, false)).collect();
    axes.extend((run.extent > 1).then_some((run, false)));
    axes.extend(along.map(|axis| (axis, true)));
    axes.sort_by_key(|(axis, _)| {
        Reverse((axis.target_stride.unsigned_abs(), axis.source_stride.unsigned_abs()))
    });

    let unused = AXES - axes.len();
    let mut entry = CopyEntry {
        source: row.source().as_ptr().addr() as u64,
        target: row.target().as_ptr().addr() as u64,
        words: axes.iter().map(|(axis, _)| axis.extent as u64).product(),
        extents: [1; AXES],
        word: word as u32,
        axes: axes.len().max(1) as u32,
        rows_axis: AXES as u32,
        ..CopyEntry::zeroed()
    };
    for (position, (axis, is_rows)) in (unused..).zip(axes) {
        entry.extents[position] = axis.extent as u64;
        entry.source_strides[position] = axis.source_stride as i64;
        entry.target_strides[position] = axis.target_stride as i64;
        if is_rows {
            entry.rows_axis = position as u32;
        }
    }
    if let Some(change) = row.sign_change() {
        entry.sign = sign_code(change);
        entry.unaligned = u32::from(common_multiple(row, along) < change.bytes());
    }
    entry
}

/// The size of a word: a number if signs change, otherwise the widest that divides addresses, strides and runs.
fn word_bytes(row: &BoxCopy, rows: Option<CopyAxis>) -> usize {
    row.sign_change().map_or_else(|| common_multiple(row, rows), SignChange::bytes)
}

/// The largest power of two, at most 16, that divides addresses, strides and runs.
fn common_multiple(row: &BoxCopy, rows: Option<CopyAxis>) -> usize {
    let mut bits = row.source().as_ptr().addr() | row.target().as_ptr().addr() | row.run_bytes();
    for axis in row.axes().iter().chain(&rows) {
        bits |= axis.source_stride.unsigned_abs() | axis.target_stride.unsigned_abs();
    }
    1 << bits.trailing_zeros().min(4)
}

/// The code of a sign change in `copies.c`.
fn sign_code(change: SignChange) -> u32 {
    match change {
        SignChange::Float16 | SignChange::Float32 | SignChange::Float64 => 1,
        SignChange::Int8 | SignChange::Int16 | SignChange::Int32 | SignChange::Int64 | SignChange::Int128 => {
            2
        }
    }
}
