//! Hilbert's space-filling curve: cells that are close on it are close in space.

use crate::mesh::Mesh;

/// The extent along an axis, relative to the widest one, below which the axis is ignored.
const FLAT: f64 = 1e-9;
/// All coordinates of a key together fit into 64 bits.
const KEY_BITS: u32 = 63;

/// The cells of `mesh` in the order of their centres along the curve.
pub(super) fn order(mesh: &Mesh) -> Vec<usize> {
    let centres: Vec<[f64; 3]> = (0..mesh.cells()).map(|cell| mesh.cell_centre(cell)).collect();
    let bounds = [0, 1, 2].map(|axis| {
        let along = centres.iter().map(|centre| centre[axis]);
        (along.clone().fold(f64::INFINITY, f64::min), along.fold(f64::NEG_INFINITY, f64::max))
    });
    // One scale for all axes, so that cells that are close on the curve are close in space.
    let width = bounds.iter().map(|(low, high)| high - low).fold(f64::MIN_POSITIVE, f64::max);
    let axes: Vec<usize> = (0..3).filter(|&axis| bounds[axis].1 - bounds[axis].0 > FLAT * width).collect();
    // No more bits than a coordinate has: the largest step would be rounded up beyond the range.
    let bits = (KEY_BITS / axes.len().max(1) as u32).min(f64::MANTISSA_DIGITS);
    let steps = ((1_u64 << bits) - 1) as f64;

    let key = |centre: &[f64; 3]| {
        let mut place: Vec<u64> =
            axes.iter().map(|&axis| ((centre[axis] - bounds[axis].0) / width * steps) as u64).collect();
        hilbert_key(&mut place, bits)
    };
    let mut keyed: Vec<(u64, usize)> = centres.iter().map(key).zip(0..).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, cell)| cell).collect()
}

/// The distance along Hilbert's curve of the point `place`, whose coordinates have `bits` bits each: `AxestoTranspose`
/// of J. Skilling, "Programming the Hilbert curve", AIP Conf. Proc. 707 (2004), and the interleaving of its result.
fn hilbert_key(place: &mut [u64], bits: u32) -> u64 {
    let Some(last) = place.len().checked_sub(1) else { return 0 };
    // Undo the reflections and rotations, from the coarsest cubes to the finest.
    for bit in (1..bits).rev().map(|bit| 1_u64 << bit) {
        for axis in 0..=last {
            if place[axis] & bit != 0 {
                place[0] ^= bit - 1;
            } else {
                let swapped = (place[0] ^ place[axis]) & (bit - 1);
                place[0] ^= swapped;
                place[axis] ^= swapped;
            }
        }
    }
    // Gray code.
    (1..=last).for_each(|axis| place[axis] ^= place[axis - 1]);
    let flips = (1..bits).map(|bit| 1_u64 << bit).filter(|bit| place[last] & bit != 0);
    let flip = flips.fold(0, |flip, bit| flip ^ (bit - 1));
    place.iter_mut().for_each(|coordinate| *coordinate ^= flip);

    (0..bits)
        .rev()
        .fold(0, |key, bit| place.iter().fold(key, |key, coordinate| key << 1 | (coordinate >> bit & 1)))
}

#[cfg(test)]
mod tests {
    use super::hilbert_key;

    /// The curve visits every point of a small cube once, and each step leads to a neighbour.
    fn check(axes: usize, bits: u32) {
        let side = 1_u64 << bits;
        let points = side.pow(axes as u32);
        let mut visited = vec![None; points as usize];
        for point in 0..points {
            let place: Vec<u64> = (0..axes as u32).map(|axis| point / side.pow(axis) % side).collect();
            let key = hilbert_key(&mut place.clone(), bits);
            assert!(visited[key as usize].replace(place).is_none(), "{key} twice");
        }
        for step in visited.windows(2) {
            let (from, to) = (step[0].as_ref().unwrap(), step[1].as_ref().unwrap());
            let moved: u64 = from.iter().zip(to).map(|(a, b)| a.abs_diff(*b)).sum();
            assert_eq!(moved, 1, "{from:?} to {to:?}");
        }
    }

    #[test]
    fn the_curve_is_continuous() {
        check(1, 5);
        check(2, 1);
        check(2, 5);
        check(3, 1);
        check(3, 4);
    }
}
