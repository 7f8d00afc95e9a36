//! Blocks of memory that the ends of copies are anchored to.

use std::ptr;

use haloport_core::device::{Anchors, Pointer};

/// The distances in bytes from the start of a block to the memory that is used.
const INSETS: [isize; 5] = [0, 16, 8, 1, -48];

/// The ends of the copies of one list: at fixed addresses, or each in a block of its own.
pub(super) struct Ends {
    anchored: bool,
    /// The addresses of the blocks.
    pub(super) bases: Vec<Pointer>,
}

impl Ends {
    pub(super) fn new(anchored: bool) -> Ends {
        Ends { anchored, bases: Vec::new() }
    }

    /// The ends of a copy from `source` to `target`, and their blocks.
    pub(super) fn of(&mut self, source: Pointer, target: Pointer) -> (Pointer, Pointer, Anchors) {
        if !self.anchored {
            return (source, target, Anchors::default());
        }
        let [(source, from), (target, to)] = [source, target].map(|end| {
            let block = self.bases.len();
            let inset = INSETS[block % INSETS.len()];
            self.bases.push(end.offset(-inset));
            (in_block(inset), Some(block as u32))
        });
        (source, target, Anchors { source: from, target: to })
    }
}

/// An end of a copy, `bytes` bytes from the start of its block.
pub(super) fn in_block(bytes: isize) -> Pointer {
    Pointer::new(ptr::without_provenance_mut(bytes.cast_unsigned()))
}
