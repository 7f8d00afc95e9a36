//! The values of the fields, and the check that they arrived.
//!
//! The value of a cell follows from its position in the periodic grid, so each rank knows the values of its halos.
//! Values are compared as bytes, which works for every element type.

use haloport::pattern::Cells;
use haloport::{Element, Grid, IndexBox, Pattern};

use crate::bench::block::{Block, for_each_cell, list_index};
use crate::command::failure::Failure;

/// Sets owned cells to the values of the grid, and halo cells to a sentinel that no cell has.
///
/// # Errors
/// [`Failure::Run`] if the fields cannot be accessed.
pub(in crate::bench) fn fill<T: Element>(
    fields: &mut [impl Block<T>],
    pattern: &Pattern,
) -> Result<(), Failure> {
    let grid = grid(pattern)?;
    for (number, field) in fields.iter_mut().enumerate() {
        let layout = field.layout()?;
        let mut values = vec![sentinel::<T>(); layout.span().1.unsigned_abs()];
        for_each_cell(&layout.owned(), |index| {
            if let Some(at) = list_index(layout, index) {
                values[at] = value(grid, number, index);
            }
        });
        field.store(&values)?;
    }
    Ok(())
}

/// Checks every halo cell.
///
/// # Errors
/// [`Failure::Run`] with the first cell that is wrong.
pub(in crate::bench) fn check<T: Element>(
    fields: &[impl Block<T>],
    pattern: &Pattern,
    contestant: &str,
) -> Result<(), Failure> {
    let grid = grid(pattern)?;
    for (number, field) in fields.iter().enumerate() {
        let layout = field.layout()?;
        let values = field.load()?;
        let mut wrong = None;
        for region in layout.allocated().minus(&layout.owned()) {
            for_each_cell(&region, |index| {
                let expected = value::<T>(grid, number, index);
                let found = list_index(layout, index).map(|at| values[at]);
                if wrong.is_none() && found.is_none_or(|found| bytes(&found) != bytes(&expected)) {
                    let at = index.to_vec();
                    wrong = Some(format!(
                        "the halo cell {at:?} of field {number} is {found:?}, not {expected:?}"
                    ));
                }
            });
        }
        if let Some(wrong) = wrong {
            return Err(Failure::Run(format!("the check of {contestant} failed: {wrong}")));
        }
    }
    Ok(())
}

/// The box of a piece of the pattern.
///
/// # Errors
/// [`Failure::Run`] if the piece is a list of cells.
pub(super) fn as_box(cells: &Cells) -> Result<&IndexBox, Failure> {
    cells.as_box().ok_or_else(|| Failure::Run("a piece of the pattern is no box".into()))
}

fn grid(pattern: &Pattern) -> Result<&Grid, Failure> {
    pattern.grid().ok_or_else(|| Failure::Run("the pattern is not that of a grid".into()))
}

/// The value of a cell: bits that are scattered by its position, but never those of the sentinel.
fn value<T: Element>(grid: &Grid, field: usize, index: &[i64]) -> T {
    let number = index.iter().enumerate().fold(field as u64, |number, (axis, &at)| {
        let extent = grid.extent(axis) as u64;
        number.wrapping_mul(extent).wrapping_add(at.rem_euclid(extent as i64) as u64)
    });
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let low = (mixed ^ (mixed >> 31)) & 0x7f7f_7f7f_7f7f_7f7f;
    let both = u128::from(low) << 64 | u128::from(low);
    bytemuck::pod_read_unaligned(&both.to_le_bytes()[..size_of::<T>()])
}

/// All bits set: NaN for floats, -1 or the largest number for integers.
fn sentinel<T: Element>() -> T {
    bytemuck::pod_read_unaligned(&[0xff; 16][..size_of::<T>()])
}

fn bytes<T: Element>(value: &T) -> &[u8] {
    bytemuck::bytes_of(value)
}
