//! The entries of a list of copies, as `copies.h` has them.

use bytemuck::{Pod, Zeroable};

use crate::device::dialect::grid::Grid;
use crate::device::{Combine, MAX_COPY_AXES, SignChange};
use crate::element::ElementType;

/// The axes of an entry: those of a box, the words of a run, the rows, and one that is always unused.
pub(super) const AXES: usize = MAX_COPY_AXES + 3;

/// A copy as a grid of words of at most 16 bytes. Blocks are taken to be aligned to 16 bytes; if they are not, the
/// kernels copy words in pieces.
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub(super) struct CopyEntry {
    source: u64,
    target: u64,
    source_rows: u64,
    target_rows: u64,
    source_row_stride: i64,
    target_row_stride: i64,
    /// Innermost first; those that are unused have the extent 1.
    axes: [EntryAxis; AXES],
    words: u32,
    word: u32,
    used: u32,
    rows_axis: u32,
    sign: u32,
    unaligned: u32,
    source_block: u32,
    target_block: u32,
    number: u32,
    combine: u32,
    unused: [u32; 2],
}

#[repr(C, align(16))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
struct EntryAxis {
    extent: u32,
    factor: u32,
    shift: u32,
    source_stride: i32,
    target_stride: i32,
    minus_extent: u32,
    unused: [u32; 2],
}

impl CopyEntry {
    /// A grid at fixed addresses, without its lists of indices.
    pub(super) fn new(grid: &Grid) -> CopyEntry {
        let mut axes = [EntryAxis::new(1, [0; 2], true); AXES];
        for (at, (made, axis)) in axes.iter_mut().zip(&grid.axes).enumerate() {
            let [in_source, in_target] = axis.lists;
            let strides = [(axis.source_stride, in_source), (axis.target_stride, in_target)]
                .map(|(stride, in_list)| if in_list { 0 } else { stride as i32 });
            *made = EntryAxis::new(axis.extent as u32, strides, at + 1 == grid.axes.len());
        }
        let rows_axis = grid.axes.iter().position(|axis| axis.lists != [false; 2]);
        let rows = rows_axis.and_then(|at| grid.axes.get(at));
        CopyEntry {
            source: grid.source,
            target: grid.target,
            source_row_stride: rows.map_or(0, |axis| axis.source_stride),
            target_row_stride: rows.map_or(0, |axis| axis.target_stride),
            axes,
            words: grid.words() as u32,
            word: grid.word as u32,
            used: grid.axes.len().max(1) as u32,
            rows_axis: rows_axis.unwrap_or(AXES) as u32,
            sign: grid.sign.map_or(0, sign_code),
            unaligned: u32::from(grid.unaligned),
            ..CopyEntry::zeroed()
        }
    }

    /// The same with its ends in blocks, whose numbers begin with 1; 0 for a fixed address.
    pub(super) fn in_blocks(self, [source_block, target_block]: [u32; 2]) -> CopyEntry {
        CopyEntry { source_block, target_block, ..self }
    }

    /// The same for words that are combined so.
    pub(super) fn combining(self, (combine, element): (Combine, ElementType)) -> CopyEntry {
        CopyEntry { number: number_code(element), combine: combine_code(combine), ..self }
    }

    /// The same with the addresses of its lists of indices, or 0.
    pub(super) fn with_lists(self, [source_rows, target_rows]: [u64; 2]) -> CopyEntry {
        CopyEntry { source_rows, target_rows, ..self }
    }

    /// The block and the address of word `number` on the side with the words further apart: in a field, not in a
    /// message. Rows count as if their lists were 0, 1, 2, …
    pub(super) fn address_of(&self, number: u32) -> (u32, u64) {
        let strides = |of: fn(&EntryAxis) -> i32, row_stride: i64| {
            let mut strides = self.axes.each_ref().map(|axis| i64::from(of(axis)));
            if let Some(stride) = strides.get_mut(self.rows_axis as usize).filter(|stride| **stride == 0) {
                *stride = row_stride;
            }
            strides
        };
        let source_strides = strides(|axis| axis.source_stride, self.source_row_stride);
        let target_strides = strides(|axis| axis.target_stride, self.target_row_stride);
        let reach = |strides: &[i64; AXES]| {
            let axes = self.axes.iter().zip(strides);
            axes.map(|(axis, stride)| u128::from(axis.extent) * u128::from(stride.unsigned_abs())).max()
        };
        let (block, first, strides) = if reach(&source_strides) > reach(&target_strides) {
            (self.source_block, self.source, source_strides)
        } else {
            (self.target_block, self.target, target_strides)
        };
        let (mut rest, mut address) = (number, first);
        for (axis, stride) in self.axes.iter().zip(strides) {
            address = address.wrapping_add_signed(i64::from(rest % axis.extent).wrapping_mul(stride));
            rest /= axis.extent;
        }
        (block, address)
    }

    /// The number of words.
    pub(super) fn words(&self) -> u32 {
        self.words
    }

    /// The size of a word in bytes.
    pub(super) fn word_bytes(&self) -> usize {
        self.word as usize
    }
}

impl EntryAxis {
    fn new(extent: u32, [source_stride, target_stride]: [i32; 2], is_outermost: bool) -> EntryAxis {
        let (factor, shift) = if is_outermost { (0, 0) } else { divisor(extent) };
        let minus_extent = extent.wrapping_neg();
        EntryAxis { extent, factor, shift, source_stride, target_stride, minus_extent, unused: [0; 2] }
    }
}

/// The factor and the shift that replace a division by `extent`, of at least 2: for every number below 2^31,
/// `number / extent` is `(number * factor >> 32) >> shift`.
///
/// The factor is 2^(31 + bits) / extent, rounded up, where 2^bits is the smallest power of two that is not below the
/// extent. So `factor * extent` exceeds 2^(31 + bits) by at most 2^bits, which is too little to change the quotient of a
/// number below 2^31: Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (1994), theorem 4.2.
fn divisor(extent: u32) -> (u32, u32) {
    let bits = u32::BITS - extent.saturating_sub(1).leading_zeros();
    let factor = (1u64 << (31 + bits)).div_ceil(u64::from(extent));
    (factor as u32, bits.saturating_sub(1))
}

/// The code of a sign change in `copies.h`.
fn sign_code(change: SignChange) -> u32 {
    match change {
        SignChange::Float16 | SignChange::Float32 | SignChange::Float64 => 1,
        SignChange::Int8 | SignChange::Int16 | SignChange::Int32 | SignChange::Int64 | SignChange::Int128 => {
            2
        }
    }
}

/// The code of the numbers that elements consist of in `combine.c`; 0 for records, which cannot be combined.
fn number_code(element: ElementType) -> u32 {
    use ElementType::*;
    match element {
        I8 | I16 | I32 | I64 | I128 => 1,
        U8 | U16 | U32 | U64 | U128 => 2,
        F16 | F32 | F64 | Complex32 | Complex64 => 3,
        Bf16 => 4,
        Bytes(_) => 0,
    }
}

/// The code of an operation in `combine.c`; 0 for a copy.
fn combine_code(combine: Combine) -> u32 {
    match combine {
        Combine::Replace => 0,
        Combine::Sum => 1,
        Combine::Min => 2,
        Combine::Max => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_divide_every_number_below_the_limit() {
        let near = |number: u32| (number.saturating_sub(2)..number.saturating_add(3)).collect::<Vec<_>>();
        let powers = (1..31).flat_map(|bits| near(1 << bits));
        for extent in powers.chain((1..1000).map(|k| k * 2_147_483 + k % 7)).filter(|extent| *extent >= 2) {
            let (factor, shift) = divisor(extent);
            let most = (1u32 << 31) - 1;
            let multiples = [1, 2, 3, most / extent / 2, most / extent].map(|k| extent.saturating_mul(k));
            let numbers = multiples.into_iter().flat_map(near).chain([0, most - 1, most]);
            for number in numbers.filter(|number| *number <= most) {
                let found = ((u64::from(number) * u64::from(factor)) >> 32) as u32 >> shift;
                assert_eq!(found, number / extent, "{number} / {extent}");
            }
        }
    }
}
