//! The values of the fields, which follow from the global ids of cells, and the check that they arrived.

use haloport::device::Device;
use haloport::field::{BlockLayout, FieldBuilder};
use haloport::{Field, Pattern};

use super::args::{Order, UnstructuredArgs};
use crate::bench::block::{Block, list_index};
use crate::command::failure::Failure;

/// A builder of fields with the levels that the arguments name.
pub(super) fn builder<D: Device>(pattern: &Pattern, args: &UnstructuredArgs) -> FieldBuilder<f64, D> {
    match args.nproma {
        Some(cells) => with_levels(pattern, args).blocked(cells as usize),
        None if args.order == Order::Slowest => levels_slowest(pattern, args),
        None => with_levels(pattern, args),
    }
}

/// A builder of fields with each level as a block of its own.
pub(super) fn levels_slowest<D: Device>(pattern: &Pattern, args: &UnstructuredArgs) -> FieldBuilder<f64, D> {
    let builder = with_levels(pattern, args);
    if args.levels > 1 { builder.axis_order([1, 0]) } else { builder }
}

fn with_levels<D: Device>(pattern: &Pattern, args: &UnstructuredArgs) -> FieldBuilder<f64, D> {
    let builder = Field::<f64, D>::builder(pattern);
    if args.levels > 1 { builder.levels(args.levels as usize) } else { builder }
}

/// Makes and fills the fields of a contestant, in memory of its own process.
///
/// # Errors
/// [`Failure::Run`] if there is no memory.
pub(super) fn private_fields<D: Device>(
    device: &D,
    pattern: &Pattern,
    args: &UnstructuredArgs,
) -> Result<Vec<Field<f64, D>>, Failure> {
    let make = || builder(pattern, args).node_shared(false).build(device);
    let mut fields = (0..args.fields).map(|_| make()).collect::<Result<Vec<_>, _>>()?;
    fill(&mut fields, pattern, args)?;
    Ok(fields)
}

/// Sets owned cells to their values, and halo cells to NaN, which no cell has.
///
/// # Errors
/// [`Failure::Run`] if the fields cannot be accessed.
pub(super) fn fill(
    fields: &mut [impl Block<f64>],
    pattern: &Pattern,
    args: &UnstructuredArgs,
) -> Result<(), Failure> {
    for (number, field) in fields.iter_mut().enumerate() {
        let layout = field.layout()?;
        let mut values = vec![f64::NAN; layout.span().1.unsigned_abs()];
        visit(pattern, args, layout, |owned, at, cell, level| {
            if owned {
                values[at] = value(number as u32, cell, level);
            }
        });
        field.store(&values)?;
    }
    Ok(())
}

/// Checks every cell.
///
/// # Errors
/// [`Failure::Run`] with the first value that is wrong.
pub(super) fn check(
    fields: &[impl Block<f64>],
    pattern: &Pattern,
    args: &UnstructuredArgs,
    contestant: &str,
) -> Result<(), Failure> {
    for (number, field) in fields.iter().enumerate() {
        let values = field.load()?;
        let mut wrong = None;
        visit(pattern, args, field.layout()?, |_, at, cell, level| {
            let (found, expected) = (values[at], value(number as u32, cell, level));
            if found != expected && wrong.is_none() {
                wrong =
                    Some(format!("cell {cell}, level {level} of field {number} is {found}, not {expected}"));
            }
        });
        if let Some(wrong) = wrong {
            return Err(Failure::Run(format!("the check of {contestant} failed: {wrong}")));
        }
    }
    Ok(())
}

fn value(field: u32, cell: i64, level: i64) -> f64 {
    (cell * 1000 + level) as f64 + f64::from(field) / 16.0
}

/// Calls `visit` for every value: whether the rank owns it, its index, its cell's id and its level.
fn visit(
    pattern: &Pattern,
    args: &UnstructuredArgs,
    layout: &BlockLayout,
    mut visit: impl FnMut(bool, usize, i64, i64),
) {
    let set = &pattern.index_sets()[0];
    for (local, (&id, &owned)) in set.ids().iter().zip(set.owned()).enumerate() {
        for level in 0..i64::from(args.levels) {
            let index = [local as i64, level];
            if let Some(at) = list_index(layout, &index[..layout.allocated().axes()]) {
                visit(owned, at, id, level);
            }
        }
    }
}
