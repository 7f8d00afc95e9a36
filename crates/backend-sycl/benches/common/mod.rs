//! What several benchmarks of this crate do: exchange fields whose cells all differ, and launch a short kernel.
#![allow(dead_code, reason = "each benchmark uses its own part")]

use haloport_core::device::{Device, KernelSource, ParameterType};
use haloport_core::{BindOptions, DataPath, Exchange, Field, Grid, HaloOrder, Pattern};

pub(crate) type Failure = haloport_core::Error;

/// A short kernel with arguments of every size.
pub(crate) const SHORT: KernelSource = KernelSource {
    name: "short_one",
    portable: Some(
        "KERNEL void short_one(GLOBAL double *x, GLOBAL double *y, long n, double a) {\n\
         \x20   long i = GLOBAL_INDEX(0);\n\
         \x20   if (i < n) y[i] = a * x[i];\n\
         }\n",
    ),
    host: |_, _| {},
    parameters: &[ParameterType::Pointer, ParameterType::Pointer, ParameterType::I64, ParameterType::F64],
};

/// A field whose cells all differ, bound so that its cells take this path, to all neighbours at once.
pub(crate) fn bound<D: Device>(
    pattern: &Pattern,
    device: &D,
    path: DataPath,
) -> Result<Exchange<Field<f64, D>>, Failure> {
    let mut field = Field::<f64, D>::new(device, pattern)?;
    let layout = field.layout(0)?.clone();
    let mut image = vec![-1.0; layout.span().1 as usize];
    for_each_cell(layout.owned().lower(), layout.owned().upper(), |cell| {
        image[layout.offset(cell, 0).unwrap() as usize] = value(cell);
    });
    field.copy_from(0, &image)?;
    let options = BindOptions::default().path(path).order(HaloOrder::AllNeighbours);
    Ok(pattern.bind_with(field, options)?)
}

/// An error if any cell, of the halo too, has another value than its owner gave it.
pub(crate) fn check<D: Device>(exchange: &Exchange<Field<f64, D>>, grid: &Grid) -> Result<(), Failure> {
    let field = exchange.fields();
    let (layout, found) = (field.layout(0)?, field.to_vec(0)?);
    let allocated = layout.allocated();
    let mut wrong = 0;
    for_each_cell(allocated.lower(), allocated.upper(), |cell| {
        let source: Vec<i64> =
            cell.iter().enumerate().map(|(axis, index)| index.rem_euclid(grid.extent(axis) as i64)).collect();
        wrong += u64::from(found[layout.offset(cell, 0).unwrap() as usize] != value(&source));
    });
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} cells are wrong").into()) }
}

fn value(cell: &[i64]) -> f64 {
    cell.iter().fold(0.0, |value, index| value * 1024.0 + *index as f64)
}

fn for_each_cell(lower: &[i64], upper: &[i64], mut visit: impl FnMut(&[i64])) {
    for i in lower[0]..upper[0] {
        for j in lower[1]..upper[1] {
            (lower[2]..upper[2]).for_each(|k| visit(&[i, j, k]));
        }
    }
}
