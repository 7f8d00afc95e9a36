//! The part of a field that lies in memory that the processes of a node share.
//!
//! Neighbours on the node copy directly from a field in memory that they can map. But such memory usually has pages of
//! 4 KiB. If an exchange or the user's loops walk through a field with large strides, looking up these pages takes
//! longer than the cells. So of a large field, neighbours can map only the pages that they read; the rest has large
//! pages:
//!
//! - A field below [`LARGE`] is shared as a whole, since it has few pages.
//! - A larger field shares the pages that neighbours read, in an exchange or when halos go to their owners, if they are few
//!   ranges and a small part of the field. The planes at the ends of the slowest axis are an example. The halo around these
//!   planes is shared, too: neighbours read it if halos are filled axis by axis. Cells that a neighbour reads in runs shorter than a cache line are not
//!   shared, since they are packed anyway ([`Load`]).
//! - If no cells of a field of a grid qualify, it is not shared: packing scattered cells costs less than small pages.
//! - If neighbours read cells all over an unstructured field, it is shared as a whole: direct copies take less than
//!   half the time of packing, and programs do not walk through such a field with large strides. So is the source of a
//!   redistribution, if the program says that it is one.
//!
//! Of memory of the program whose pages are moved, the same pages are, but all if cells are left that do not qualify.

use std::ops::Range;

use super::BlockLayout;
use super::byte_ranges::{merged, ranges_of};
use super::{Handover, Load};
use crate::device::Pointer;
use crate::element::ElementType;
use crate::pattern::{Pattern, Piece};

/// The size in bytes from which on fields have large pages.
const LARGE: usize = 4 << 20;

/// At most this fraction of such a field is shared: one byte in four.
const SHARED_PART: usize = 4;

/// The largest pages that processes share, in bytes.
const LARGEST_PAGE: usize = 64 << 10;

/// The ranges of bytes, at least, that neighbours by these patterns on the node should be able to map, of a field of `bytes`
/// bytes; `None` if the field should be in memory of this process alone. Each block is the offset of its first element in
/// bytes, and its layout.
pub(super) fn shared_ranges(
    readers: &[Pattern],
    blocks: &[(i64, BlockLayout)],
    element: ElementType,
    bytes: usize,
) -> Option<Vec<Range<usize>>> {
    let whole = 0..bytes;
    if bytes < LARGE {
        return Some(vec![whole]);
    }
    let mut shared = Vec::new();
    for pattern in readers {
        let any_left;
        (shared, any_left) = few_ranges(pattern, read_pieces(pattern), (0, blocks), element, (bytes, shared));
        if any_left && (pattern.grid().is_none() || pattern.is_redistribution()) {
            return Some(vec![whole]);
        }
    }
    (!shared.is_empty()).then_some(shared)
}

/// The same for memory of the program from which cells are read, as addresses and lengths in bytes within its blocks, which are those
/// of domains from `first` on. Exchanges in either direction get the same ranges. They go past the cells to the ends of their pages.
pub(crate) fn program_ranges(
    pattern: &Pattern,
    (first, blocks): (usize, &[(Pointer, BlockLayout)]),
    element: ElementType,
) -> Vec<(Pointer, usize)> {
    let element_bytes = element.bytes();
    let whole: Vec<(Pointer, usize)> = blocks
        .iter()
        .map(|(pointer, layout)| (pointer, layout.span()))
        .filter(|(_, (low, high))| low < high)
        .map(|(pointer, (low, high))| {
            (pointer.offset(low * element_bytes as isize), (high - low) as usize * element_bytes)
        })
        .collect();
    let starts = whole.iter().map(|(pointer, _)| pointer.as_ptr().addr());
    let ends = whole.iter().map(|(pointer, bytes)| pointer.as_ptr().addr() + bytes);
    let (Some(begin), Some(end)) = (starts.min(), ends.max()) else { return whole };
    let offset = |pointer: &Pointer| pointer.as_ptr().addr() as i64 - begin as i64;
    let offsets: Vec<_> = blocks.iter().map(|(pointer, layout)| (offset(pointer), layout.clone())).collect();
    let domains = first..first + blocks.len();
    let here = |pieces: Vec<Piece>| {
        pieces.into_iter().filter(|piece| domains.contains(&piece.source_domain)).collect::<Vec<_>>()
    };
    if end - begin < LARGE {
        return whole;
    }
    let read = read_pieces(pattern).map(|(peer, pieces)| (peer, here(pieces)));
    let (ranges, any_left) = few_ranges(pattern, read, (first, &offsets), element, (end - begin, Vec::new()));
    if any_left {
        return whole;
    }
    let within = |(pointer, bytes): &(Pointer, usize)| {
        let (pointer, from) = (*pointer, offset(pointer) as usize);
        let block = from..from + bytes;
        ranges.iter().filter_map(move |range| {
            let start = range.start.saturating_sub(LARGEST_PAGE).max(block.start);
            let end = range.end.saturating_add(LARGEST_PAGE).min(block.end);
            (start < end).then(|| (pointer.offset((start - block.start) as isize), end - start))
        })
    };
    whole.iter().flat_map(within).collect()
}

/// The pieces that each neighbour reads: owned cells and, if they go to their owners, those of the halo.
fn read_pieces(pattern: &Pattern) -> impl Iterator<Item = (usize, Vec<Piece>)> {
    let sends = pattern.sends().iter().map(|(peer, pieces)| (*peer, pieces.clone()));
    let receives = pattern.receives().iter().filter(|_| !pattern.is_redistribution());
    sends.chain(receives.map(|(peer, pieces)| (*peer, pieces.iter().map(Piece::reversed).collect())))
}

/// The ranges of bytes for neighbours that read these pieces of blocks of domains from `first` on, joined with those that are `shared`,
/// and whether cells are left that lie in too many ranges, or in too large a part of the `bytes`.
fn few_ranges(
    pattern: &Pattern,
    pieces: impl Iterator<Item = (usize, Vec<Piece>)>,
    (first, blocks): (usize, &[(i64, BlockLayout)]),
    element: ElementType,
    (bytes, mut shared): (usize, Vec<Range<usize>>),
) -> (Vec<Range<usize>>, bool) {
    let transport = pattern.comm().transport();
    let mut any_left = false;
    for (_, pieces) in pieces.filter(|(peer, _)| transport.is_near(*peer)) {
        let layouts = blocks.iter().map(|(_, layout)| layout);
        if Load::of(&pieces, (first, layouts), element).is_better_packed(Handover::default()) {
            continue;
        }
        let with = |pieces: &[Piece]| {
            ranges_of(pieces, (first, blocks), element.bytes())
                .and_then(|ranges| merged(shared.iter().cloned().chain(ranges).collect()))
                .filter(|ranges| ranges.iter().map(Range::len).sum::<usize>() <= bytes / SHARED_PART)
        };
        let with_edges: Vec<Piece> = pieces.iter().map(|piece| pattern.with_edges(piece)).collect();
        match with(&with_edges).or_else(|| with(&pieces)) {
            Some(ranges) => shared = ranges,
            None => any_left = true,
        }
    }
    (shared, any_left)
}
