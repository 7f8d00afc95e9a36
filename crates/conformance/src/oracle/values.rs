//! What every element in memory must be.

use haloport_core::{BlockLayout, Element, ElementType, IndexBox};
use num_complex::Complex;

use super::Oracle;
use crate::{Failure, ensure};

/// A byte that memory is filled with before an exchange, to see what was touched.
pub(super) const UNTOUCHED: u8 = 0xA5;

/// What the global array holds.
pub(super) fn value<T: Element>(seed: u64, name: &[i64], component: usize) -> T {
    // Apart from the indices, so that no other cell has the same number in another component.
    let mut hash = seed ^ (component as u64) << 24 ^ 0x5851_F42D_4C95_7F2D;
    for &index in name {
        hash = (hash ^ index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
    }
    let bytes = u128::from(hash) << 64 | u128::from(hash.wrapping_mul(0xD6E8_FEB8_6659_FD93));
    bytemuck::pod_read_unaligned(&bytes.to_ne_bytes()[..size_of::<T>()])
}

/// Minus a value, as the arithmetic of its type has it. Unsigned ones stay what they are.
fn negated<T: Element>(value: T) -> T {
    macro_rules! minus {
        ($number:ty, $minus:expr) => {{
            let minus: fn($number) -> $number = $minus;
            let minus = minus(bytemuck::pod_read_unaligned(bytemuck::bytes_of(&value)));
            bytemuck::pod_read_unaligned(bytemuck::bytes_of(&minus))
        }};
    }
    match T::TYPE {
        ElementType::I8 => minus!(i8, |value| 0i8.wrapping_sub(value)),
        ElementType::I16 => minus!(i16, |value| 0i16.wrapping_sub(value)),
        ElementType::I32 => minus!(i32, |value| 0i32.wrapping_sub(value)),
        ElementType::I64 => minus!(i64, |value| 0i64.wrapping_sub(value)),
        ElementType::I128 => minus!(i128, |value| 0i128.wrapping_sub(value)),
        ElementType::F16 => minus!(half::f16, |value| -value),
        ElementType::Bf16 => minus!(half::bf16, |value| -value),
        ElementType::F32 => minus!(f32, |value| -value),
        ElementType::F64 => minus!(f64, |value| -value),
        ElementType::Complex32 => minus!(Complex<f32>, |value| -value),
        ElementType::Complex64 => minus!(Complex<f64>, |value| -value),
        _ => value,
    }
}

/// The memory of a block before an exchange, or after it.
pub(super) fn image<T: Element>(
    oracle: &impl Oracle,
    field: usize,
    round: u64,
    domain: usize,
    layout: &BlockLayout,
    after: bool,
) -> Vec<T> {
    let mut image = vec![untouched::<T>(); layout.span().1 as usize];
    let seed = oracle.seed(field, round);
    for_each_cell(&layout.allocated(), |cell| {
        let Some(name) = oracle.name(domain, layout, cell, after) else { return };
        for component in 0..layout.components() {
            if let Some(offset) = layout.offset(cell, component) {
                let (from, negative) = oracle.component(field, cell, component);
                let value = value(seed, &name, from);
                image[offset as usize] = if negative { negated(value) } else { value };
            }
        }
    });
    image
}

pub(super) fn compare<T: Element>(
    found: &[T],
    expected: &[T],
    field: usize,
    domain: usize,
    layout: &BlockLayout,
) -> Result<(), Failure> {
    let bytes = |values: &[T]| bytemuck::cast_slice::<T, u8>(values).to_vec();
    if bytes(found) == bytes(expected) {
        return Ok(());
    }
    let at = (0..expected.len()).find(|&k| bytes(&found[k..=k]) != bytes(&expected[k..=k])).unwrap_or(0);
    let mut cell = None;
    for_each_cell(&layout.allocated(), |index| {
        for component in 0..layout.components() {
            if layout.offset(index, component) == Some(at as isize) {
                cell = Some((index.to_vec(), component));
            }
        }
    });
    ensure!(
        false,
        "field {field}, domain {domain} ({}), element {at} (cell and component {cell:?}): found {:?}, expected {:?}",
        layout.owned(),
        found[at],
        expected[at]
    );
    Ok(())
}

pub(super) fn untouched<T: Element>() -> T {
    bytemuck::pod_read_unaligned(&[UNTOUCHED; 16][..size_of::<T>()])
}

pub(super) fn for_each_cell(region: &IndexBox, mut visit: impl FnMut(&[i64])) {
    let extents: Vec<i64> =
        region.lower().iter().zip(region.upper()).map(|(low, up)| (up - low).max(0)).collect();
    let count: i64 = extents.iter().product();
    for number in 0..count {
        let mut rest = number;
        let cell: Vec<i64> = extents
            .iter()
            .zip(region.lower())
            .map(|(extent, lower)| {
                let index = lower + rest % extent;
                rest /= extent;
                index
            })
            .collect();
        visit(&cell);
    }
}
