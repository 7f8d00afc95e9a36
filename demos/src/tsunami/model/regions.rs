//! The cells of a block that are computed while margins travel, and those afterwards.

use haloport::IndexBox;
use haloport::pattern::Regions;

use crate::tsunami::model::scheme::CHUNK;

/// The regions of the pattern, whose interior is cut down to whole [`CHUNK`]s of columns, counted from the first
/// column of `owned`. A stage takes as long for two columns as for a chunk; with other borders, a block would have
/// more chunks.
pub fn in_chunks(owned: &IndexBox, regions: Regions) -> Regions {
    const COLUMNS: usize = 1;

    let Some(interior) = regions.interior else { return regions };
    let bounds = |cells: &IndexBox| (cells.lower()[COLUMNS], cells.upper()[COLUMNS]);
    let ((first, past), (lower, upper)) = (bounds(owned), bounds(&interior));
    let chunk = CHUNK as i64;
    let whole_chunks = |columns: i64| columns / chunk * chunk;
    let lower = first + whole_chunks(lower - first + chunk - 1);
    let upper = if upper == past { past } else { first + whole_chunks(upper - first) };
    let interior = interior.with_axis(COLUMNS, lower, upper);
    Regions { interior: (!interior.is_empty()).then_some(interior), boundary: owned.minus(&interior) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(cells: &IndexBox) -> usize {
        cells.extent(1).div_ceil(CHUNK)
    }

    #[test]
    fn a_row_has_as_many_chunks_as_if_it_were_computed_at_once() {
        for columns in 2..200 {
            for (west, east) in [(0, 0), (2, 0), (0, 2), (2, 2)] {
                let owned = IndexBox::new([10, 7], [40, 7 + columns]);
                let free = IndexBox::new([12, 7 + west], [40, 7 + columns - east]);
                let interior = (!free.is_empty()).then_some(free);
                let found = in_chunks(&owned, Regions { interior, boundary: owned.minus(&free) });
                let all: Vec<IndexBox> = found.interior.into_iter().chain(found.boundary).collect();
                assert_eq!(all.iter().map(IndexBox::cells).sum::<u128>(), owned.cells());
                for (number, part) in all.iter().enumerate() {
                    assert!(owned.encloses(part));
                    assert!(all[..number].iter().all(|other| other.intersection(part).is_none()));
                }
                assert!(found.interior.is_none_or(|interior| free.encloses(&interior)));
                let of_row = |row: i64| {
                    all.iter().filter(move |part| (part.lower()[0]..part.upper()[0]).contains(&row))
                };
                for row in 10..40 {
                    assert_eq!(of_row(row).map(chunks).sum::<usize>(), chunks(&owned), "{columns}, {row}");
                }
                let most = columns - west - east - 2 * CHUNK as i64;
                assert!(found.interior.map_or(0, |interior| interior.extent(1)) as i64 >= most);
            }
        }
    }
}
