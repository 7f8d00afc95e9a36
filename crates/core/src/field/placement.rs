//! In which memory a field is best placed: memory that the processes of a node share, memory with large pages, or both.
//!
//! Neighbours on the node copy straight from a field in memory that they can map. But such memory mostly has pages of
//! 4 KiB, and looking those up takes longer than the cells where an exchange, or the user's own loops, walk through a field
//! with large strides. So, of a large field, neighbours get no more than what they read:
//!
//! - A field below [`LARGE`] is shared as a whole: its pages are few.
//! - A larger one shares the pages that neighbours read, if they are few ranges and a small part of the field, as the
//!   planes at the ends of the slowest axis are, with the halo around these planes, which is read along with them where
//!   halos are filled axis by axis. The rest has large pages. What a neighbour reads in runs shorter than a
//!   line of the cache is not asked for: it is packed anyway ([`Load`]).
//! - Where that leaves nothing that could be shared, it is not shared: what is scattered over a field of a grid costs less
//!   to pack than small pages do.
//! - But where neighbours read cells all over an unstructured field, it is shared as a whole: copying them straight takes
//!   less than half as long as packing them, and nobody goes through such a field with large strides.

use std::ops::Range;

use super::BlockLayout;
use super::Load;
use super::ranges::{merged, ranges_of};
use crate::element::ElementType;

use crate::pattern::{Pattern, Piece};

/// Fields of at least so many bytes get large pages.
const LARGE: usize = 4 << 20;

/// Of such a field, at most one byte in so many is shared.
const SHARED_PART: usize = 4;

/// Where the memory of a field is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// In memory of this process alone.
    Private,
    /// In memory that neighbours on the node can map: these ranges of bytes, at least.
    Shared(Vec<Range<usize>>),
}

/// Where a field of `bytes` bytes is best placed. Each block is where its first element is, in bytes, and its layout.
pub(super) fn placement(
    pattern: &Pattern,
    blocks: &[(i64, BlockLayout)],
    element: ElementType,
    bytes: usize,
) -> Placement {
    let whole = 0..bytes;
    if bytes < LARGE {
        return Placement::Shared(vec![whole]);
    }
    let transport = pattern.comm().transport();
    let (mut shared, mut left) = (Vec::new(), false);
    for (_, pieces) in pattern.sends().iter().filter(|(peer, _)| transport.is_near(**peer)) {
        if Load::of(pieces, blocks.iter().map(|(_, layout)| layout), element).is_better_packed() {
            continue;
        }
        let with = |pieces: &[Piece]| {
            ranges_of(pieces, blocks, element.bytes())
                .and_then(|ranges| merged(shared.iter().cloned().chain(ranges).collect()))
                .filter(|ranges| ranges.iter().map(Range::len).sum::<usize>() <= bytes / SHARED_PART)
        };
        let with_edges: Vec<Piece> = pieces.iter().map(|piece| pattern.with_edges(piece)).collect();
        match with(&with_edges).or_else(|| with(pieces)) {
            Some(ranges) => shared = ranges,
            None => left = true,
        }
    }
    if left && pattern.grid().is_none() {
        Placement::Shared(vec![whole])
    } else if shared.is_empty() {
        Placement::Private
    } else {
        Placement::Shared(shared)
    }
}
