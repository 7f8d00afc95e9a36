//! Grids cut into boxes, which are dealt to ranks.

use haloport_core::IndexBox;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// Cuts the grid at random into boxes and deals them to the ranks; some ranks may get none, others several.
pub(super) fn split(random: &mut StdRng, extents: &[usize], ranks: usize) -> Vec<Vec<IndexBox>> {
    let upper: Vec<i64> = extents.iter().map(|&extent| extent as i64).collect();
    let mut boxes = vec![IndexBox::new(vec![0; upper.len()], upper)];
    let wanted = random.random_range(1..=2 * ranks);
    for _ in 0..wanted * 3 {
        if boxes.len() >= wanted {
            break;
        }
        let number = random.random_range(0..boxes.len());
        let axis = random.random_range(0..extents.len());
        let whole = boxes[number];
        let (lower, upper) = (whole.lower()[axis], whole.upper()[axis]);
        // Some cuts are at the end, which leaves an empty domain.
        let cut = if upper - lower > 1 && random.random_bool(0.95) {
            random.random_range(lower + 1..upper)
        } else {
            upper
        };
        boxes[number] = whole.with_axis(axis, lower, cut);
        boxes.push(whole.with_axis(axis, cut, upper));
    }
    deal(random, boxes, ranks)
}

/// Cuts each axis at random into intervals and deals the boxes that they make to the ranks.
pub(super) fn product(random: &mut StdRng, extents: &[usize], ranks: usize) -> Vec<Vec<IndexBox>> {
    let mut boxes = vec![IndexBox::new(vec![0; extents.len()], vec![0; extents.len()])];
    for (axis, &extent) in extents.iter().enumerate() {
        let mut cuts = vec![0, extent as i64];
        // About as many boxes as ranks.
        let most = (2 * ranks).div_ceil(boxes.len()).min(extent);
        cuts.extend((1..random.random_range(1..=most)).map(|_| random.random_range(1..extent as i64)));
        cuts.sort_unstable();
        cuts.dedup();
        boxes = boxes
            .iter()
            .flat_map(|cells| cuts.windows(2).map(move |cut| cells.with_axis(axis, cut[0], cut[1])))
            .collect();
    }
    deal(random, boxes, ranks)
}

/// Deals boxes to the ranks; some may get none, others several.
fn deal(random: &mut StdRng, boxes: Vec<IndexBox>, ranks: usize) -> Vec<Vec<IndexBox>> {
    let mut domains = vec![Vec::new(); ranks];
    for (number, domain) in boxes.into_iter().enumerate() {
        let rank =
            if number < ranks && random.random_bool(0.8) { number } else { random.random_range(0..ranks) };
        domains[rank].push(domain);
    }
    domains
}

/// The ranks that own anything: all of them, or only some, in a random order.
pub(super) fn owners(random: &mut StdRng, ranks: usize) -> Vec<usize> {
    let mut some: Vec<usize> = (0..ranks).collect();
    if random.random_bool(0.5) {
        some.shuffle(random);
        some.truncate(random.random_range(1..=ranks));
    }
    some
}

/// As [`split`], or [`product`], dealt to only some of the ranks.
pub(super) fn on_some_ranks(random: &mut StdRng, extents: &[usize], ranks: usize) -> Vec<Vec<IndexBox>> {
    let cut = if random.random_bool(0.4) { product } else { split };
    let (domains, owners) = (cut(random, extents, ranks), owners(random, ranks));
    let mut moved = vec![Vec::new(); ranks];
    for (rank, domains) in domains.into_iter().enumerate() {
        moved[owners[rank % owners.len()]].extend(domains);
    }
    moved
}

/// Slabs of the grid across an axis, dealt to the ranks in turn.
pub(super) fn in_slabs(extents: &[usize], axis: usize, thickness: usize, ranks: usize) -> Vec<Vec<IndexBox>> {
    let whole = IndexBox::new([0; 3], extents.iter().map(|&extent| extent as i64).collect::<Vec<_>>());
    let mut domains = vec![Vec::new(); ranks];
    for slab in 0..extents[axis] / thickness {
        let (lower, upper) = (slab * thickness, (slab + 1) * thickness);
        domains[slab % ranks].push(whole.with_axis(axis, lower as i64, upper as i64));
    }
    domains
}
