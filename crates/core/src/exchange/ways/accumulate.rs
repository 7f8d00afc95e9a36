//! Cells that go from halos to their owners, and are combined there.
//!
//! Halo cells travel in messages to their owners, as owned cells do to halos. When all messages have arrived, their cells, and
//! those that the rank sends to itself, are combined with the owned cells, [layer](Layers) by layer. At last the halo is set to
//! zero, if the program asks for it.
//!
//! An owned cell may be in several halos. So that results do not depend on the order in which messages arrive, the cells that
//! arrive for it are combined in one order: by the rank from which they come, then by the piece, then by the place in the
//! piece. Cells that arrive for different owned cells need no order, and are in one *layer*.

use std::collections::{BTreeMap, HashMap};

use super::messages::MessageSets;
use super::{Binding, PartFields};
use crate::device::{
    Buffer as _, Combine, CombineItem, CopyItem, Device, DeviceError, MemoryKind, Pointer, offered,
};
use crate::domain::IndexBox;
use crate::exchange::cells::side::{PieceCells, Side, fill, join};
use crate::exchange::work::Lane;
use crate::exchange::work::copy_list::{CopyList, Purpose};
use crate::field::End;
use crate::pattern::{Cells, Pattern, Reversal};
use crate::transport::Direction;

/// The copies that combine cells with owned ones.
pub(crate) struct Combining<D: Device> {
    /// In the order in which they run.
    layers: Vec<CopyList<D>>,
    /// Sets the halo to zero; empty if it keeps its values.
    zero: CopyList<D>,
    /// The zeros from which it is set.
    _zeros: Vec<D::Buffer>,
    /// The bytes that this rank combines with cells of its own.
    pub(crate) local_bytes: usize,
}

impl<D: Device> Combining<D> {
    /// Binds the copies of the messages of `sets`, which are received in a buffer at `buffer`.
    pub(crate) fn bind(
        binding: &Binding<'_, D>,
        Reversal { combine, zero_halo }: Reversal,
        (sets, buffer): (&MessageSets, Pointer),
    ) -> Result<Combining<D>, DeviceError> {
        let Binding { device, fields, pattern, .. } = *binding;
        let order = Layers::of(pattern);
        let mut layers: Vec<Vec<CombineItem>> = vec![Vec::new(); order.count];
        let mut add = |layered: &[Layered], field: usize, copies: Vec<CopyItem>| {
            let element = fields[field].1.element;
            for Layered { layer, places } in layered {
                let copies = copies.iter().map(|copy| match (places, copy) {
                    (Some(places), CopyItem::Indexed(copy)) => CopyItem::Indexed(copy.of_rows(places)),
                    // A box, or a list in which no cell is twice, is in one layer.
                    _ => copy.clone(),
                });
                layers[*layer].extend(copies.map(|copy| CombineItem { copy, combine, element }));
            }
        };
        for message in &sets.whole.messages {
            let pieces = binding.neighbour(message.peer).received().len().max(1);
            let cells = sets.whole.copies_by_cells(message, fields, buffer, Direction::Receive)?;
            // Of each field, all pieces.
            for (number, (field, copies)) in cells.into_iter().enumerate() {
                add(order.of_piece(message.peer, number % pieces), field, copies);
            }
        }
        let (own, mut local_bytes) = (pattern.comm().rank(), 0);
        for (position, (_, field)) in fields.iter().enumerate() {
            for (number, piece) in binding.neighbour(own).received().iter().enumerate() {
                let side = |end: End| Side::of_piece(field, PieceCells::at(end, piece));
                let source = side(End::Source).turned(&piece.orientation);
                let mut copies = Vec::new();
                fill(&mut copies, &source, &side(End::Target), field, &piece.orientation)?;
                local_bytes += copies.iter().map(CopyItem::bytes).sum::<usize>();
                add(order.of_piece(own, number), position, copies);
            }
        }
        let bound = layers.into_iter().map(|items| match combine {
            Combine::Replace => {
                binding.list(Purpose::Combining, items.into_iter().map(|it| it.copy).collect())
            }
            _ => {
                let combining = offered(device.combining(), "halos that are accumulated", device.id())?;
                CopyList::bind_combining(combining, items)
            }
        });
        let layers = bound.collect::<Result<_, _>>()?;
        let (zero, zeros) = match zero_halo {
            true => zeroing(binding)?,
            false => Default::default(),
        };
        let zero = binding.list(Purpose::Zeroing, zero)?;
        Ok(Combining { layers, zero, _zeros: zeros, local_bytes })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Combines all cells, then sets the halo to zero.
    ///
    /// # Safety
    /// All messages have arrived when the device runs this. Nothing else uses the fields.
    pub(crate) unsafe fn run(&self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        for layer in self.layers.iter().chain([&self.zero]) {
            // SAFETY: the caller's promise; of one layer, no two pieces have a cell in common, and halo cells are not owned;
            // fields are aligned for their elements (`misfit`), as are pieces in messages.
            unsafe { layer.run(lane)? };
        }
        Ok(())
    }
}

/// The copies that set the halo cells of all fields to zero, and the zeros that they read.
fn zeroing<D: Device>(binding: &Binding<'_, D>) -> Result<(Vec<CopyItem>, Vec<D::Buffer>), DeviceError> {
    let (mut copies, mut zeros) = (Vec::new(), Vec::new());
    for (_, field) in binding.fields {
        let element = field.element.bytes();
        let zero = binding.device.allocate(element, MemoryKind::Device)?;
        for piece in binding.pattern.sends().values().flatten() {
            let halo = Side::of_piece(field, PieceCells::at(End::Source, piece));
            copies.push(join(&halo.repeated(zero.pointer()), &halo, element, None)?);
        }
        zeros.push(zero);
    }
    Ok((copies, zeros))
}

/// Describes in words the first field whose elements cannot be combined so, or an owned cell to which several go although one
/// is to replace it.
pub(crate) fn cannot_combine(
    pattern: &Pattern,
    parts: &[PartFields],
    Reversal { combine, .. }: Reversal,
) -> Option<String> {
    let computes = combine != Combine::Replace;
    if let Some(part) = parts.iter().find(|part| computes && !part.device.combines()) {
        let device = part.device.info().id;
        return Some(format!(
            "{device} has no halos that are accumulated; expected fields on a device that combines"
        ));
    }
    let fields = parts.iter().flat_map(|part| &part.fields);
    let undefined = fields.clone().find(|(_, field)| !combine.is_defined_for(field.element));
    if let Some((number, field)) = undefined {
        let (name, element) = (combine.name(), field.element);
        return Some(format!(
            "field {number} is of {element}, which have no `{name}`; expected another option `accumulate`"
        ));
    }
    if let Some((number, _)) = fields.clone().find(|(_, field)| field.source.is_some()) {
        return Some(format!(
            "field {number} has a source of its own; expected one field, of which the halo is accumulated"
        ));
    }
    let twice = (combine == Combine::Replace).then(|| Layers::of(pattern).twice).flatten()?;
    Some(format!("several halo cells belong to {twice}; `replace` expects at most one for each cell"))
}

/// The layers of the pieces that this rank receives.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    /// For each rank, those of each piece in the order in which they travel.
    of: BTreeMap<usize, Vec<Vec<Layered>>>,
    pub(crate) count: usize,
    /// In words, a cell for which several arrive.
    pub(crate) twice: Option<String>,
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
            for piece in pieces {
                let domain = piece.target_domain;
                let (layered, twice) = match &piece.target {
                    Cells::Box(cells) => of_box(cells, boxes.entry(domain).or_default()),
                    Cells::List(list) => of_list(list, arrived.entry(domain).or_default()),
                };
                layers.twice =
                    layers.twice.or_else(|| twice.map(|cell| format!("the cell {cell} of domain {domain}")));
                layers.count = layered.iter().fold(layers.count, |count, it| count.max(it.layer + 1));
                layers.of.entry(rank).or_default().push(layered);
            }
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
