//! How cells get to a neighbour, and which way is taken.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::domain::IndexBox;
use crate::element::ElementType;
use crate::field::BlockLayout;
use crate::pattern::Piece;

/// How data may get to ranks that share memory with this one. Whatever cannot be had gives way to the next: direct
/// copies to shared memory, and that to messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataPath {
    /// Each field on the way that is likely to be quickest.
    #[default]
    Quickest,
    /// Straight from the fields of neighbours: threads of the same process, and processes of the same node where the
    /// field is in memory that they can map ([`node_shared`](crate::field::FieldBuilder::node_shared)).
    Direct,
    /// Packed into memory that two processes share, and unpacked from it.
    Shared,
    /// In messages of the transport, as between nodes.
    Messages,
}

/// The names of the paths, as they are written and read.
const NAMES: [(DataPath, &str); 4] = [
    (DataPath::Quickest, "quickest"),
    (DataPath::Direct, "direct"),
    (DataPath::Shared, "shared"),
    (DataPath::Messages, "messages"),
];

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|(path, _)| path == self).map_or("", |(_, name)| name))
    }
}

impl FromStr for DataPath {
    type Err = String;

    fn from_str(text: &str) -> Result<DataPath, String> {
        NAMES.iter().find(|(_, name)| *name == text).map(|(path, _)| *path).ok_or_else(|| {
            let names = NAMES.map(|(_, name)| name).join(", ");
            format!("expected one of {names}; found `{text}`")
        })
    }
}

/// How the cells of one field get to one neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// In the message.
    Message,
    /// In the message, each piece in a part of its own: from the field or to it, where it lies there without gaps.
    Apart,
    /// Packed into shared memory, and unpacked from it.
    Shared,
    /// Copied straight from the field.
    Direct,
}

/// Runs of fewer bytes share lines of the cache with the owner's halo, which it fills at the same time: copied straight,
/// each line goes to and fro, packed ones go once. Measured on 2 cores, split along the fastest axis: 1.2 to 4.8 times as
/// long. Listed cells lie apart from the halo, and are quicker straight, however short (0.4 times as long).
pub(super) const LINE_BYTES: usize = 64;

impl DataPath {
    /// The way of a field which can be copied straight or be packed into shared memory, as far as that is possible.
    pub(super) fn choose(self, direct: bool, shared: bool, short_runs: bool) -> Way {
        let packed = match self {
            DataPath::Quickest => short_runs,
            DataPath::Direct => false,
            DataPath::Shared => true,
            DataPath::Messages => return Way::Message,
        };
        match (direct, shared) {
            (true, true) => {
                if packed {
                    Way::Shared
                } else {
                    Way::Direct
                }
            }
            (true, false) => Way::Direct,
            (false, true) => Way::Shared,
            (false, false) => Way::Message,
        }
    }
}

/// Whether most of the bytes of some boxes lie in short runs where they are sent from.
pub(crate) fn has_short_runs<'b>(
    pieces: &[Piece],
    blocks: impl IntoIterator<Item = &'b BlockLayout>,
    element: ElementType,
) -> bool {
    let blocks: Vec<_> = blocks.into_iter().collect();
    let (mut short, mut all) = (0, 0);
    for piece in pieces {
        let Some(layout) = blocks.get(piece.source_domain) else { continue };
        let Some(cells) = piece.source.as_box() else { continue };
        let (cells, run) = (cells.cells() as usize, run_of(cells, layout));
        let bytes = cells * layout.components() * element.bytes();
        all += bytes;
        if run * element.bytes() < LINE_BYTES {
            short += bytes;
        }
    }
    2 * short > all
}

/// How many elements of a box lie side by side.
fn run_of(cells: &IndexBox, layout: &BlockLayout) -> usize {
    // From the fastest axis on, as long as each continues the one before.
    let mut run = if layout.component_stride() == 1 { layout.components() } else { 1 };
    let mut axes: Vec<usize> = (0..cells.axes()).collect();
    axes.sort_by_key(|&axis| layout.strides()[axis].unsigned_abs());
    for axis in axes {
        if layout.strides()[axis].unsigned_abs() != run as u64 {
            break;
        }
        run *= cells.extent(axis);
        if cells.extent(axis) != layout.allocated().extent(axis) {
            break;
        }
    }
    run
}
