//! The cells that neighbours read, as a few ranges of bytes of the memory of a field.

use std::ops::Range;

use super::BlockLayout;
use crate::pattern::{Cells, Piece};

/// Ranges that are less than this number of bytes apart are joined: sharing a few more pages costs less than another
/// mapping.
const GAP: i64 = 64 << 10;

/// The maximum number of ranges. Cells in more ranges count as scattered over the field.
pub(crate) const MOST_RANGES: usize = 16;

/// The bytes of the cells of `pieces`, as at most [`MOST_RANGES`] ascending ranges. The blocks are those of domains from
/// `first` on; each is the offset of its first element, in bytes, and its layout. The ranges have the same origin as these
/// offsets.
///
/// `None` if there would be more ranges, if a piece is not within its block, or if a range would begin before byte 0.
///
/// The ranges of a subset of cells lie within the ranges of all cells.
pub(crate) fn ranges_of<'p>(
    pieces: impl IntoIterator<Item = &'p Piece>,
    (first, blocks): (usize, &[(i64, BlockLayout)]),
    element_bytes: usize,
) -> Option<Vec<Range<usize>>> {
    let mut all = Vec::new();
    for piece in pieces {
        let (begin, layout) = blocks.get(piece.source_domain.checked_sub(first)?)?;
        for range in ranges_of_cells(&piece.source, layout, element_bytes)? {
            let (start, end) = (begin.checked_add(range.start)?, begin.checked_add(range.end)?);
            all.push(usize::try_from(start).ok()?..usize::try_from(end).ok()?);
        }
    }
    merged(all)
}

/// For each of `pieces`, the bytes from its first cell to its last one in memory. Blocks, and `None`, are as for [`ranges_of`].
pub(crate) fn extents_of<'p>(
    pieces: impl IntoIterator<Item = &'p Piece>,
    (first, blocks): (usize, &[(i64, BlockLayout)]),
    element_bytes: usize,
) -> Option<Vec<Range<usize>>> {
    let extents = pieces.into_iter().map(|piece| {
        let (begin, layout) = blocks.get(piece.source_domain.checked_sub(first)?)?;
        let Range { start, end } = extent_of_cells(&piece.source, layout, element_bytes as i64)?;
        let (start, end) = (begin.checked_add(start)?, begin.checked_add(end)?);
        Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    });
    extents.collect()
}

/// A stride along an axis, in elements, and the first and the last step along it.
type Along = (i64, (i64, i64));

/// The bytes from the first of `cells` to the last one, from the first element of their block.
fn extent_of_cells(cells: &Cells, layout: &BlockLayout, bytes: i64) -> Option<Range<i64>> {
    let ends = |rows: &[u32]| Some((i64::from(*rows.iter().min()?), i64::from(*rows.iter().max()?)));
    let to_last = |extent: usize| (0, extent as i64 - 1);
    // The offset of the first element, in elements, and the axes.
    let (first, along): (i64, Vec<Along>) = match cells {
        _ if cells.count() == 0 => return Some(0..0),
        Cells::ListInBox { axes, numbers } => {
            let cells = layout.rows_in_box(*axes, numbers)?;
            let levels = cells.levels.into_iter().map(|(extent, stride)| (stride, to_last(extent)));
            (cells.first, levels.chain([(cells.step, ends(&cells.rows)?)]).collect())
        }
        Cells::Box(_) | Cells::List(_) => {
            let (region, rows) = match cells {
                Cells::List(list) => {
                    let past = list.iter().max().map_or(0, |last| i64::from(*last) + 1);
                    (layout.owned().with_axis(0, 0, past), Some(layout.rows(list)))
                }
                _ => (layout.with_levels(cells.as_box()?), None),
            };
            if region.is_empty() {
                return Some(0..0);
            }
            if !layout.allocated().encloses(&region) {
                return None;
            }
            let along =
                layout.region_axes(&region, 1).into_iter().enumerate().map(|(axis, (extent, stride))| {
                    match &rows {
                        Some((stride, rows)) if axis == 0 => Some((*stride, ends(rows)?)),
                        _ => Some((stride as i64, to_last(extent))),
                    }
                });
            (i64::try_from(layout.offset(region.lower(), 0)?).ok()?, along.collect::<Option<_>>()?)
        }
    };
    let of_components = (layout.component_stride(), to_last(layout.components()));
    let in_box = matches!(cells, Cells::ListInBox { .. }).then_some(of_components);
    let (mut low, mut high) = (first, first.checked_add(1)?);
    for (stride, (from, to)) in along.into_iter().chain(in_box) {
        let (from, to) = (stride.checked_mul(from)?, stride.checked_mul(to)?);
        (low, high) = (low.checked_add(from.min(to))?, high.checked_add(from.max(to))?);
    }
    Some(low.checked_mul(bytes)?..high.checked_mul(bytes)?)
}

/// The ranges in ascending order, joined where they are close to each other; `None` if there are too many.
pub(crate) fn merged(mut ranges: Vec<Range<usize>>) -> Option<Vec<Range<usize>>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(MOST_RANGES);
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start.saturating_sub(last.end) < GAP as usize => {
                last.end = last.end.max(range.end)
            }
            _ => merged.push(range),
        }
    }
    (merged.len() <= MOST_RANGES).then_some(merged)
}

/// The ranges of bytes of `cells`, from the first element of their block.
fn ranges_of_cells(cells: &Cells, layout: &BlockLayout, element_bytes: usize) -> Option<Vec<Range<i64>>> {
    let bytes = element_bytes as i64;
    let (region, rows) = match cells {
        Cells::ListInBox { axes, numbers } => return ranges_of_list_in_box(*axes, numbers, layout, bytes),
        Cells::Box(cells) => (layout.with_levels(cells), None),
        Cells::List(list) => {
            let past = list.iter().max().map_or(0, |last| i64::from(*last) + 1);
            let (stride, rows) = layout.rows(list);
            let mut rows: Vec<i64> = rows.iter().map(|&row| i64::from(row)).collect();
            rows.sort_unstable();
            (layout.owned().with_axis(0, 0, past), Some((stride.checked_mul(element_bytes as i64)?, rows)))
        }
    };
    if cells.count() == 0 || region.is_empty() {
        return Some(Vec::new());
    }
    if !layout.allocated().encloses(&region) {
        return None;
    }
    let first = i64::try_from(layout.offset(region.lower(), 0)?).ok()?.checked_mul(bytes)?;
    // From the fastest axis on: each axis repeats the ranges of the faster ones. Blocks of cells are slower than the
    // levels within a block.
    let axes = layout.region_axes(&region, element_bytes);
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|&axis| match layout.blocks() {
        Some(blocks) if axis == 0 => blocks.stride.unsigned_abs() * bytes.unsigned_abs(),
        _ => axes[axis].1.unsigned_abs() as u64,
    });
    let element = first..first.checked_add(bytes)?;
    let mut ranges = vec![element];
    for axis in order {
        let (extent, stride) = (axes[axis].0 as i64, axes[axis].1 as i64);
        ranges = match &rows {
            Some((stride, rows)) if axis == 0 => repeated(&ranges, *stride, rows.iter().copied())?,
            // Repetitions that are close are one range in the end.
            _ if ranges.len() == 1 && stride.checked_abs()?.checked_sub(length(&ranges[0]))? < GAP => {
                let reach = stride.checked_mul(extent - 1)?;
                let Range { start, end } = ranges[0];
                let all = start.checked_add(reach.min(0))?..end.checked_add(reach.max(0))?;
                vec![all]
            }
            _ => repeated(&ranges, stride, 0..extent)?,
        };
    }
    Some(ranges)
}

/// As [`ranges_of_cells`], of cells with these numbers.
fn ranges_of_list_in_box(
    axes: usize,
    numbers: &[u32],
    layout: &BlockLayout,
    bytes: i64,
) -> Option<Vec<Range<i64>>> {
    let cells = layout.rows_in_box(axes, numbers)?;
    let first = cells.first.checked_mul(bytes)?;
    let mut rows: Vec<i64> = cells.rows.iter().map(|&row| i64::from(row)).collect();
    rows.sort_unstable();
    let of_components = (layout.components(), layout.component_stride());
    let of_axis = |(extent, stride): (usize, i64)| (stride, (0..extent as i64).collect());
    let mut along: Vec<(i64, Vec<i64>)> =
        cells.levels.into_iter().chain([of_components]).map(of_axis).chain([(cells.step, rows)]).collect();
    along.sort_by_key(|(stride, _)| stride.unsigned_abs());
    let element = first..first.checked_add(bytes)?;
    along.into_iter().try_fold(vec![element], |ranges, (stride, steps)| {
        repeated(&ranges, stride.checked_mul(bytes)?, steps.into_iter())
    })
}

/// Copies of `ranges`, moved by `stride` times each of `steps`, joined where they are close.
fn repeated(ranges: &[Range<i64>], stride: i64, steps: impl Iterator<Item = i64>) -> Option<Vec<Range<i64>>> {
    let mut all: Vec<Range<i64>> = Vec::with_capacity(MOST_RANGES);
    for step in steps {
        let distance = stride.checked_mul(step)?;
        for range in ranges {
            let range = range.start.checked_add(distance)?..range.end.checked_add(distance)?;
            // A negative stride goes back.
            let near = |last: &&mut Range<i64>| {
                range.start <= last.end.saturating_add(GAP - 1)
                    && last.start <= range.end.saturating_add(GAP - 1)
            };
            match all.last_mut().filter(near) {
                Some(last) => *last = last.start.min(range.start)..last.end.max(range.end),
                None => all.push(range),
            }
            if all.len() > MOST_RANGES {
                return None;
            }
        }
    }
    Some(all)
}

fn length(range: &Range<i64>) -> i64 {
    range.end - range.start
}
