//! The order in which cells from halos are combined: the layers of the pieces that a rank receives.
//!
//! An owned cell may be in several halos. So that results do not depend on the order in which messages arrive, the cells that
//! arrive for it are combined in one order: by the rank from which they come, then by the piece, of boxes the larger ones first,
//! then by the place in the piece. Cells that arrive for different owned cells need no order, and are in one *layer*. With the
//! larger boxes first, the two faces across an axis are in one layer, so that both are combined in one sweep.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::domain::IndexBox;
use crate::pattern::{Cells, Pattern};

/// The layers of the pieces that this rank receives.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    /// For each rank, those of each piece in the order in which they travel.
    of: BTreeMap<usize, Vec<Vec<Layered>>>,
    pub(crate) count: usize,
    /// For each domain that has one, in words, a cell for which several arrive.
    pub(crate) twice: BTreeMap<usize, String>,
}

/// Cells of a piece that are in one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layered {
    pub(crate) layer: usize,
    /// Their places in the list of the piece; `None` for all cells.
    pub(crate) places: Option<Vec<u32>>,
}

impl Layers {
    pub(crate) fn of(pattern: &Pattern) -> Layers {
        let mut layers = Layers::default();
        let mut boxes: HashMap<usize, Vec<(IndexBox, usize)>> = HashMap::new();
        // For each listed cell, the first layer that is behind all cells that have arrived for it so far.
        let mut arrived: HashMap<usize, HashMap<u32, usize>> = HashMap::new();
        for (&rank, pieces) in pattern.receives() {
            let mut numbers: Vec<usize> = (0..pieces.len()).collect();
            numbers.sort_by_key(|&number| Reverse(pieces[number].target.as_box().map_or(0, IndexBox::cells)));
            let mut of_pieces = vec![Vec::new(); pieces.len()];
            for number in numbers {
                let piece = &pieces[number];
                let domain = piece.target_domain;
                let (layered, twice) = match &piece.target {
                    Cells::Box(cells) => of_box(cells, boxes.entry(domain).or_default()),
                    Cells::List(list) => of_list(list, arrived.entry(domain).or_default()),
                    // Of redistributions, which accumulate nothing.
                    Cells::ListInBox { .. } => (Vec::new(), None),
                };
                if let Some(cell) = twice {
                    let in_words = || format!("the cell {cell} of {}", pattern.name_of(domain));
                    layers.twice.entry(domain).or_insert_with(in_words);
                }
                layers.count = layered.iter().fold(layers.count, |count, it| count.max(it.layer + 1));
                of_pieces[number] = layered;
            }
            layers.of.insert(rank, of_pieces);
        }
        layers
    }

    /// The layers of the cells of a piece from a rank.
    pub(crate) fn of_piece(&self, rank: usize, piece: usize) -> &[Layered] {
        self.of.get(&rank).and_then(|pieces| pieces.get(piece)).map_or(&[], Vec::as_slice)
    }
}

/// The layer of a box, behind those of `earlier` ones that it meets, and a cell in which they meet.
fn of_box(cells: &IndexBox, earlier: &mut Vec<(IndexBox, usize)>) -> (Vec<Layered>, Option<String>) {
    let met = earlier.iter().filter_map(|(other, layer)| Some((layer + 1, other.intersection(cells)?)));
    let last = met.max_by_key(|(layer, _)| *layer);
    let layer = last.map_or(0, |(layer, _)| layer);
    earlier.push((*cells, layer));
    (vec![Layered { layer, places: None }], last.map(|(_, common)| format!("{:?}", common.lower())))
}

/// The layers of listed cells, behind those that have `arrived` for them, and a cell for which another one has. A list in
/// which no cell is twice is in one layer.
fn of_list(list: &[u32], arrived: &mut HashMap<u32, usize>) -> (Vec<Layered>, Option<String>) {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).all(|pair| pair[0] < pair[1]) {
        let next = |cell: &u32| arrived.get(cell).copied().unwrap_or(0);
        let last = list.iter().max_by_key(|cell| next(cell));
        let layer = last.map_or(0, next);
        let twice = last.filter(|_| layer > 0).map(u32::to_string);
        arrived.extend(list.iter().map(|cell| (*cell, layer + 1)));
        return (vec![Layered { layer, places: None }], twice);
    }
    let mut places: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    let mut twice = None;
    for (place, &cell) in list.iter().enumerate() {
        let next = arrived.entry(cell).or_default();
        places.entry(*next).or_default().push(place as u32);
        twice = twice.or_else(|| (*next > 0).then(|| cell.to_string()));
        *next += 1;
    }
    let layered = places.into_iter().map(|(layer, places)| Layered { layer, places: Some(places) });
    (layered.collect(), twice)
}
