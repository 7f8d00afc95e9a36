//! Copies between strided boxes and between indexed rows: the one primitive of packing, unpacking, copies within a rank
//! and copies from a neighbour.

mod box_copy;
mod combine;
mod indexed_copy;

pub use crate::element::SignChange;
pub use box_copy::{Anchors, BoxCopy, CopyAxis, MAX_COPY_AXES};
pub use combine::{Combine, CombineItem};
pub use indexed_copy::{CopyRows, IndexedCopy};

/// The next reader of the targets of a list of copies: a hint for the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NextReader {
    /// Later work of the same device and thread.
    #[default]
    Here,
    /// Another processor: a transport, another process. This device does not read it again. The list is probably run
    /// again and again, so a device may try in its first runs which way of writing is fastest.
    Elsewhere,
}

/// One entry of a list of copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyItem {
    /// A strided box.
    Box(BoxCopy),
    /// Rows selected by index.
    Indexed(IndexedCopy),
}

impl CopyItem {
    /// The blocks of memory that contain its ends.
    pub fn anchors(&self) -> Anchors {
        match self {
            CopyItem::Box(copy) => copy.anchors(),
            CopyItem::Indexed(copy) => copy.row().anchors(),
        }
    }

    /// All bytes that it moves.
    pub fn bytes(&self) -> usize {
        match self {
            CopyItem::Box(copy) => copy.bytes(),
            CopyItem::Indexed(copy) => copy.bytes(),
        }
    }
}
