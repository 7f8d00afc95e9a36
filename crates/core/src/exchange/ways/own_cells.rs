//! The cells that a rank sends to itself: its domains copy from each other and from themselves.

use crate::device::{CopyItem, DeviceError};
use crate::exchange::cells::side::{Side, fill};
use crate::field::{BoundField, End};
use crate::pattern::Pattern;

/// Returns the copies of the cells that a rank sends to itself.
pub(crate) fn own_cell_copies(
    fields: &[(usize, BoundField)],
    pattern: &Pattern,
) -> Result<Vec<CopyItem>, DeviceError> {
    let pieces = pattern.receives().get(&pattern.comm().rank()).map_or(&[][..], Vec::as_slice);
    let mut items = Vec::new();
    for (_, field) in fields {
        for piece in pieces {
            let source = Side::of_field(field, End::Source, piece.source_domain, &piece.source)
                .turned(&piece.orientation);
            let target = Side::of_field(field, End::Target, piece.target_domain, &piece.target);
            fill(&mut items, &source, &target, field, &piece.orientation)?;
        }
    }
    Ok(items)
}
