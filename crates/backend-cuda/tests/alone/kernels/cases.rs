//! Random copies, and what they should copy, byte by byte.

use std::ptr;
use std::sync::Arc;

use haloport_core::device::{
    Anchors, BoxCopy, CopyAxis, CopyItem, CopyRows, IndexedCopy, Pointer, SignChange,
};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// A copy between two pieces of memory of its own.
#[derive(Debug)]
pub(crate) struct Case {
    element_bytes: usize,
    /// The extents, and the rows if there are any.
    axes: Vec<Axis>,
    sign: Option<SignChange>,
    source: Side,
    target: Side,
    anchored: bool,
}

#[derive(Debug)]
struct Axis {
    extent: usize,
    strides: [isize; 2],
    /// The rows in the order in which they are copied, on each side; only on the first axis.
    lists: [Option<Arc<[u32]>>; 2],
    is_rows: bool,
}

/// One side of a copy.
#[derive(Debug)]
pub(crate) struct Side {
    /// The bytes that it needs.
    pub(crate) bytes: usize,
    /// The offset of the first element, or of that in row 0.
    begin: usize,
    /// The distance from the start of its block, if it is anchored.
    inset: isize,
}

const SIGN_CHANGES: [SignChange; 8] = [
    SignChange::Float16,
    SignChange::Float32,
    SignChange::Float64,
    SignChange::Int8,
    SignChange::Int16,
    SignChange::Int32,
    SignChange::Int64,
    SignChange::Int128,
];

impl Case {
    /// A box of up to 5 axes, or up to 5 axes at each of some rows.
    pub(crate) fn random(random: &mut StdRng) -> Case {
        let sizes = [1usize, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 100, 520, 1030];
        let element_bytes = sizes[random.random_range(0..sizes.len())];
        let most = if element_bytes > 100 { 2 } else { 5 };
        let mut extents: Vec<usize> =
            (0..random.random_range(0..=most)).map(|_| random.random_range(1..=4)).collect();
        let has_rows = random.random_bool(0.4);
        let fits = |change: &&SignChange| element_bytes.is_multiple_of(change.bytes());
        let changes: Vec<_> = SIGN_CHANGES.iter().filter(fits).collect();
        let sign =
            (!has_rows && random.random_bool(0.2)).then(|| *changes[random.random_range(0..changes.len())]);
        let rows = random.random_range(1..=40);
        let held = rows + random.random_range(0..10);
        if has_rows {
            extents.insert(0, held);
        }
        // Everything begins at a multiple of this number of bytes.
        let unit = [1, 2, 4, 8, 16][random.random_range(0..5)];
        let [source, target] =
            [false, true].map(|is_target| lay_out(random, element_bytes, &extents, unit, is_target));
        let mut axes: Vec<Axis> = (0..extents.len())
            .map(|axis| Axis {
                extent: extents[axis],
                strides: [source.0[axis], target.0[axis]],
                lists: [None, None],
                is_rows: has_rows && axis == 0,
            })
            .collect();
        if has_rows {
            let anywhere = || random.random_range(0..held as u32);
            let anywhere: Arc<[u32]> = std::iter::repeat_with(anywhere).take(rows).collect();
            let mut once: Vec<u32> = (0..held as u32).collect();
            once.shuffle(random);
            once.truncate(rows);
            let once: Arc<[u32]> = once.into();
            axes[0].extent = rows;
            axes[0].lists = match random.random_range(0..5) {
                0 => [None, None],
                1 => [Some(anywhere), None],
                2 => [None, Some(once)],
                3 => [Some(once.clone()), Some(once)],
                _ => [Some(anywhere), Some(once)],
            };
        }
        let inset = |random: &mut StdRng| {
            random.random_range(-3..4i32) as isize * [1, 4, 16][random.random_range(0..3)]
        };
        let [source, target] =
            [source, target].map(|(_, begin, bytes)| Side { bytes, begin, inset: inset(random) });
        Case { element_bytes, axes, sign, source, target, anchored: random.random_bool(0.3) }
    }

    /// The sides, source first.
    pub(crate) fn sides(&self) -> [&Side; 2] {
        [&self.source, &self.target]
    }

    /// The copy between memory at these addresses. If it is anchored, adds the addresses of its two blocks to `bases`.
    pub(crate) fn item(&self, addresses: [u64; 2], bases: &mut Vec<Pointer>) -> CopyItem {
        let mut anchors = [None; 2];
        let ends: Vec<Pointer> = (0..2)
            .map(|side| {
                let Side { begin, inset, .. } = self.sides()[side];
                if !self.anchored {
                    return pointer(addresses[side] + *begin as u64);
                }
                anchors[side] = Some(bases.len() as u32);
                bases.push(pointer(addresses[side].wrapping_add_signed(-*inset as i64)));
                pointer((*begin as u64).wrapping_add_signed(*inset as i64))
            })
            .collect();
        let axes = self.axes.iter().filter(|axis| !axis.is_rows).map(|axis| CopyAxis {
            extent: axis.extent,
            source_stride: axis.strides[0],
            target_stride: axis.strides[1],
        });
        let copy = BoxCopy::new(ends[0], ends[1], self.element_bytes, &axes.collect::<Vec<_>>()).unwrap();
        let copy = copy.anchored(Anchors { source: anchors[0], target: anchors[1] });
        let copy = self.sign.map_or(copy, |sign| copy.with_sign_change(sign).unwrap());
        let Some(rows) = self.axes.iter().find(|axis| axis.is_rows) else {
            return CopyItem::Box(copy);
        };
        let [source, target] =
            [0, 1].map(|side| CopyRows { stride: rows.strides[side], indices: rows.lists[side].clone() });
        CopyItem::Indexed(IndexedCopy::new(copy, rows.extent, source, target).unwrap())
    }

    /// Does the same to bytes of the host: from all bytes of the source to all of the target.
    pub(crate) fn run(&self, source: &[u8], target: &mut [u8]) {
        let points: usize = self.axes.iter().map(|axis| axis.extent).product();
        for point in 0..points {
            let mut rest = point;
            let mut at = [self.source.begin as isize, self.target.begin as isize];
            for axis in &self.axes {
                let index = rest % axis.extent;
                rest /= axis.extent;
                for ((at, list), stride) in at.iter_mut().zip(&axis.lists).zip(axis.strides) {
                    *at += list.as_ref().map_or(index, |list| list[index] as usize) as isize * stride;
                }
            }
            let [from, to] = at.map(|at| at as usize);
            let moved = &mut target[to..to + self.element_bytes];
            moved.copy_from_slice(&source[from..from + self.element_bytes]);
            if let Some(sign) = self.sign {
                moved.chunks_exact_mut(sign.bytes()).for_each(|number| negate(number, sign));
            }
        }
    }
}

/// An address of the pretended device.
pub(crate) fn pointer(address: u64) -> Pointer {
    Pointer::new(ptr::without_provenance_mut(address as usize))
}

/// Strides, the offset of the first element, and the bytes of an array of elements: its axes in any order, padded or not,
/// upwards or downwards. In a source, an axis may have the stride 0.
fn lay_out(
    random: &mut StdRng,
    element_bytes: usize,
    extents: &[usize],
    unit: usize,
    is_target: bool,
) -> (Vec<isize>, usize, usize) {
    let mut order: Vec<usize> = (0..extents.len()).collect();
    order.shuffle(random);
    let mut begin = unit * random.random_range(0..3);
    let mut strides = vec![0; extents.len()];
    let mut stride = element_bytes;
    for axis in order {
        if random.random_bool(0.5) {
            stride = (stride + unit * random.random_range(0..3)).next_multiple_of(unit);
        }
        if !is_target && random.random_bool(0.05) {
            continue;
        }
        strides[axis] = stride as isize;
        if random.random_bool(0.2) {
            begin += (extents[axis] - 1) * stride;
            strides[axis] = -strides[axis];
        }
        stride *= extents[axis];
    }
    (strides, begin, stride + 3 * unit)
}

/// Minus the number.
fn negate(number: &mut [u8], sign: SignChange) {
    match sign {
        SignChange::Float16 | SignChange::Float32 | SignChange::Float64 => {
            if let Some(highest) = number.last_mut() {
                *highest ^= 0x80;
            }
        }
        _ => {
            // 0 - x is the complement of x plus 1.
            let mut carry = true;
            for byte in number {
                (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
            }
        }
    }
}
