//! The expected value of every element in memory, in bytes, so that little is compiled for every element type and
//! device.

use haloport_core::{BlockLayout, ElementType, IndexBox};
use num_complex::Complex;

use super::truth::{Described, Name};
use crate::{Failure, ensure};

/// The byte that memory is filled with before an exchange, which shows what was touched.
pub(super) const UNTOUCHED: u8 = 0xA5;

/// A value of the global array, of any type: an element takes as many of the bytes as it has, a longer one repeats them.
pub(super) fn value(seed: u64, name: &Name, component: usize) -> [u8; 16] {
    // The component is not hashed like an index: no other cell may have the same number in another component.
    let mut hash = seed ^ (component as u64) << 24 ^ 0x5851_F42D_4C95_7F2D;
    for index in *name {
        hash = (hash ^ index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
    }
    (u128::from(hash) << 64 | u128::from(hash.wrapping_mul(0xD6E8_FEB8_6659_FD93))).to_ne_bytes()
}

/// Negates a value by the arithmetic of its type. Unsigned values stay as they are.
fn negate(element: ElementType, value: &mut [u8]) {
    macro_rules! minus {
        ($number:ty, $minus:expr) => {{
            let minus: fn($number) -> $number = $minus;
            let minus = minus(bytemuck::pod_read_unaligned(value));
            value.copy_from_slice(bytemuck::bytes_of(&minus));
        }};
    }
    match element {
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
        _ => {}
    }
}

/// The memory of a block of `field` before an exchange, or after it.
pub(super) fn image(
    field: &Described<'_>,
    round: u64,
    domain: usize,
    layout: &BlockLayout,
    after: bool,
) -> Vec<u8> {
    let Described { oracle, number, element } = *field;
    let size = element.bytes();
    let mut image = vec![UNTOUCHED; layout.span().1 as usize * size];
    let seed = oracle.seed(number, round);
    for_each_cell(&layout.allocated(), |cell| {
        let Some(name) = oracle.name(domain, layout, cell, after) else { return };
        let Some(first) = layout.offset(cell, 0) else { return };
        for component in 0..layout.components() {
            let (from, negative) = oracle.component(number, cell, component);
            let offset = first as usize + component * layout.component_stride() as usize;
            let element_bytes = &mut image[offset * size..][..size];
            let value = value(seed, &name, from);
            element_bytes.chunks_mut(value.len()).for_each(|part| part.copy_from_slice(&value[..part.len()]));
            if negative {
                negate(element, element_bytes);
            }
        }
    });
    image
}

/// Compares the memory of a block with what it must be.
pub(super) fn compare(
    field: &Described<'_>,
    found: &[u8],
    expected: &[u8],
    domain: usize,
    layout: &BlockLayout,
) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    let size = field.element.bytes();
    let mut elements = found.chunks(size).zip(expected.chunks(size));
    let at = elements.position(|(found, expected)| found != expected).unwrap_or(0);
    let mut cell = None;
    for_each_cell(&layout.allocated(), |index| {
        for component in 0..layout.components() {
            if layout.offset(index, component) == Some(at as isize) {
                cell = Some((index.to_vec(), component));
            }
        }
    });
    let bytes = |of: &[u8]| of.chunks(size).nth(at).map(<[u8]>::to_vec);
    ensure!(
        false,
        "field {}, domain {domain} ({}), element {at} (cell and component {cell:?}): found the bytes {:02x?}, \
         expected {:02x?}",
        field.number,
        layout.owned(),
        bytes(found),
        bytes(expected)
    );
    Ok(())
}

pub(super) fn for_each_cell(region: &IndexBox, mut visit: impl FnMut(&[i64])) {
    let (lower, upper) = (region.lower(), region.upper());
    let mut cell = lower.to_vec();
    for _ in 0..region.cells() {
        visit(&cell);
        for (axis, index) in cell.iter_mut().enumerate() {
            *index += 1;
            if *index < upper[axis] {
                break;
            }
            *index = lower[axis];
        }
    }
}
