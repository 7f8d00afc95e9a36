//! What is in the fields, and whether it arrived: every value follows from the global id of its cell.

use haloport::device::Device;
use haloport::{Field, Pattern};

use super::args::{Order, UnstructuredArgs};
use crate::failure::Failure;

/// The fields of a contestant: owned cells hold their values, halo cells one that no cell has.
///
/// # Errors
/// [`Failure::Run`] where there is no memory.
pub(super) fn fields<D: Device>(
    device: &D,
    pattern: &Pattern,
    args: &UnstructuredArgs,
) -> Result<Vec<Field<f64, D>>, Failure> {
    let mut fields = Vec::new();
    for number in 0..args.fields {
        let mut builder = Field::<f64, D>::builder(pattern);
        if args.levels > 1 {
            let order = if args.order == Order::Fastest { [0, 1] } else { [1, 0] };
            builder = builder.levels(args.levels as usize).axis_order(order);
        }
        let mut field = builder.build(device)?;
        let mut values = vec![f64::NAN; field.layout(0)?.span().1.unsigned_abs()];
        visit(pattern, args, &field, |owned, at, cell, level| {
            if owned {
                values[at] = value(number, cell, level);
            }
        })?;
        field.copy_from(0, &values)?;
        fields.push(field);
    }
    Ok(fields)
}

/// Checks every cell.
///
/// # Errors
/// [`Failure::Run`] with the first value that is wrong.
pub(super) fn check<D: Device>(
    fields: &[Field<f64, D>],
    pattern: &Pattern,
    args: &UnstructuredArgs,
    who: &str,
) -> Result<(), Failure> {
    for (number, field) in fields.iter().enumerate() {
        let values = field.to_vec(0)?;
        let mut wrong = None;
        visit(pattern, args, field, |_, at, cell, level| {
            let (found, expected) = (values[at], value(number as u32, cell, level));
            if found != expected && wrong.is_none() {
                wrong =
                    Some(format!("cell {cell}, level {level} of field {number} is {found}, not {expected}"));
            }
        })?;
        if let Some(wrong) = wrong {
            return Err(Failure::Run(format!("the check of {who} failed: {wrong}")));
        }
    }
    Ok(())
}

fn value(field: u32, cell: i64, level: i64) -> f64 {
    (cell * 1000 + level) as f64 + f64::from(field) / 16.0
}

/// Calls `visit` for every value: whether the rank owns it, where it lies, its cell's id and its level.
fn visit<D: Device>(
    pattern: &Pattern,
    args: &UnstructuredArgs,
    field: &Field<f64, D>,
    mut visit: impl FnMut(bool, usize, i64, i64),
) -> Result<(), Failure> {
    let layout = field.layout(0)?;
    let set = &pattern.index_sets()[0];
    for (local, (&id, &owned)) in set.ids().iter().zip(set.owned()).enumerate() {
        for level in 0..i64::from(args.levels) {
            let index = [local as i64, level];
            let axes = layout.allocated().axes();
            if let Some(at) = layout.offset(&index[..axes], 0) {
                visit(owned, at.unsigned_abs(), id, level);
            }
        }
    }
    Ok(())
}
